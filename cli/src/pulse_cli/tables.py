"""Tables that fit: as wide as the terminal, where there is one, and as wide as they are, where there is none."""

import io
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pulse_cli.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")

GAP = 2
# Off a terminal nothing is cut: a program that reads tables can read them whole.
UNBOUNDED = 1 << 20
STYLES = {
    "PENDING": "cyan",
    "RUNNING": "blue",
    "COMPLETED": "green",
    "RETRYING": "yellow",
    "DEAD_LETTERED": "bold red",
    "CANCELED": "bright_black",
    "paused": "bold yellow",
    "ok": "green",
    "warning": "yellow",
    "failed": "bold red",
}


@dataclass(frozen=True)
class Column(Generic[Item]):
    """A column: its title, its text, how narrow it may become, and whether a narrow terminal can do without it.

    Without `narrowest`, the column is never cut: ids are there to be copied.
    """

    title: str
    text: Callable[[Item], str]
    narrowest: int | None = None
    optional: bool = False


def terminal_width() -> int:
    """How wide the terminal is; 80 where it doesn't say."""
    return shutil.get_terminal_size((80, 24)).columns or 80


def render_table(items: Sequence[Item], columns: Sequence[Column[Item]], *, coloured: bool, on_terminal: bool) -> str:
    """The table as text."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    width = terminal_width() if on_terminal else UNBOUNDED
    texts = {column.title: [printable(column.text(item)) for item in items] for column in columns}
    natural = {title: max(cell_len(text) for text in (title, *cells)) for title, cells in texts.items()}
    widths = fit(columns, natural, width)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for title, size in widths.items():
        table.add_column(title, width=size, no_wrap=True, overflow="ellipsis")
    for cells in zip(*(texts[title] for title in widths), strict=True):
        table.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in cells))
    console = _console(coloured, width)
    console.print(table)
    return _text(console, coloured)


def fit(columns: Sequence[Column[Item]], natural: dict[str, int], width: int) -> dict[str, int]:
    """The columns that stay, and how wide each is: first the widest that may shrink do, then the optional ones go."""
    kept = list(columns)
    while True:
        widths = {column.title: natural[column.title] for column in kept}
        excess = sum(widths.values()) + GAP * len(kept) - width
        while excess > 0:
            shrinkable = [
                column for column in kept if column.narrowest and widths[column.title] > max(column.narrowest, 1)
            ]
            if not shrinkable:
                break
            widths[max(shrinkable, key=lambda column: widths[column.title]).title] -= 1
            excess -= 1
        optional = [column for column in kept if column.optional]
        if excess <= 0 or not optional:
            return widths
        kept.remove(optional[-1])


def render_pairs(pairs: Sequence[tuple[str, str]], *, coloured: bool, on_terminal: bool) -> str:
    """Names and values, one below the other; long values go on in the next line."""
    from rich.table import Table
    from rich.text import Text

    width = terminal_width() if on_terminal else UNBOUNDED
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        lines = "\n".join(printable(line) for line in value.split("\n"))
        table.add_row(name, Text(lines, STYLES.get(value, "")))
    console = _console(coloured, width)
    console.print(table)
    return _text(console, coloured)


def _console(coloured: bool, width: int) -> "Console":
    from rich.console import Console

    return Console(
        file=io.StringIO(),
        width=width,
        force_terminal=coloured,
        color_system="standard" if coloured else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def _text(console: "Console", coloured: bool) -> str:
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    # Padding at the end of lines is in the way of whoever copies or compares them.
    return text if coloured else "".join(f"{line.rstrip()}\n" for line in text.splitlines())
