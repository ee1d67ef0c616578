"""What a browser posts, read within limits."""

from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from pulse_ui.problems import PageError

# The largest payload of a job is 1 MiB by default, and a character may take three or more bytes in a form.
MOST_BYTES = 8 << 20
MOST_FIELDS = 2_000
FORM_TYPE = "application/x-www-form-urlencoded"


class Form:
    """The fields of a form, without space around them and with the line ends of Python."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def get(self, name: str) -> str:
        """The field's value; empty if it is missing."""
        return self.raw(name).strip()

    def raw(self, name: str) -> str:
        """The value with the space around it. Browsers send the ends of lines as CRLF, whatever was typed."""
        return next((value.replace("\r\n", "\n") for key, value in self._pairs if key == name), "")

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Everything, in order."""
        return self._pairs


async def read_form(request: Request) -> Form:
    """The form, or a PageError that says why it was not read."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != FORM_TYPE:
        raise PageError(415, "Not a form", f"This address takes forms ({FORM_TYPE}).")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                raise PageError(413, "Too large", f"A form may have {MOST_BYTES:,} bytes; nothing was done.")
    except ClientDisconnect:
        raise PageError(400, "Not a form", "The connection ended in the middle of it.") from None
    try:
        pairs = parse_qsl(
            body.decode(),
            keep_blank_values=True,
            strict_parsing=bool(body),
            max_num_fields=MOST_FIELDS,
            errors="strict",
        )
    except ValueError as error:
        raise PageError(400, "Not a form", f"The form can't be read: {error}; nothing was done.") from None
    return Form(pairs)
