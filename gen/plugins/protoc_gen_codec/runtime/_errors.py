"""The one exception of the codecs, and the helpers that word it."""

from collections.abc import Mapping


class CodecError(ValueError):
    """Bytes that are not the message they should be, or a message that can't be written."""


class FieldError(Exception):
    """A value that its field can't hold. The decoder around it knows the field and names it."""


def truncated() -> CodecError:
    """For bytes that end, or whose lengths lead, past the end of the message."""
    return CodecError("truncated message")


def invalid_field(message: str, fields: Mapping[int, str], tag: int, overrun: bool, error: Exception) -> CodecError:
    """Names the field that `error` is about; `overrun` says that its length leads past the end."""
    if overrun:
        return truncated()
    reason = "invalid UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
    return CodecError(f"field {message}.{fields[tag]}: {reason}")
