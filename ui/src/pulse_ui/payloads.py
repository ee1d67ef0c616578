"""Payloads as exact text, or as bytes where they are none. Nothing here reads them: what is stored is what is shown."""

from dataclasses import dataclass

DUMPED = 16 << 10
LINE = 16
SHOWN_CONTROLS = frozenset("\t\n\r")


@dataclass(frozen=True)
class ShownPayload:
    """What a page shows; `cut`: the dump is only the beginning."""

    text: str
    is_text: bool
    cut: bool


def show_payload(payload: bytes) -> ShownPayload:
    """The payload for people. Text is whole, whatever its length."""
    text = read_text(payload)
    if text is not None:
        return ShownPayload(text, is_text=True, cut=False)
    return ShownPayload(_dump(payload[:DUMPED]), is_text=False, cut=len(payload) > DUMPED)


def read_text(payload: bytes) -> str | None:
    """The text, or None for what is not UTF-8 or holds characters that a page can't show as they are."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    hidden = any(character < " " and character not in SHOWN_CONTROLS for character in text)
    return None if hidden or "\x7f" in text else text


def _dump(data: bytes) -> str:
    lines = []
    for start in range(0, len(data), LINE):
        part = data[start : start + LINE]
        codes = " ".join(f"{byte:02x}" for byte in part)
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {codes:<{LINE * 3 - 1}}  {letters}")
    return "\n".join(lines)
