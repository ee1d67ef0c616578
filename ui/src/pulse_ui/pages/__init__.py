"""One module for each page: read the request, ask the SDK, show."""
