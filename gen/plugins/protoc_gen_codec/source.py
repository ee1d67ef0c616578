"""Python source under construction."""

from collections.abc import Iterator
from contextlib import contextmanager


class Source:
    """Lines of code with an indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """One line, or an empty one."""
        self._lines.append("    " * self._depth + text if text else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A head such as `if x:`, and everything inside the `with` indented below it."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def text(self) -> str:
        """All of it."""
        return "".join(f"{line}\n" for line in self._lines)


def bytes_literal(value: bytes) -> str:
    """A bytes literal, all of it hexadecimal."""
    return 'b"' + "".join(f"\\x{byte:02x}" for byte in value) + '"'


def tag_bytes(tag: int) -> bytes:
    """A tag in wire form."""
    wire = bytearray()
    while tag > 127:
        wire.append(tag & 127 | 128)
        tag >>= 7
    wire.append(tag)
    return bytes(wire)
