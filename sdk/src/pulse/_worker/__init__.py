"""The worker: `worker` wires it, `transport` talks to the server, `runner` runs the handlers."""
