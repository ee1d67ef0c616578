"""Where things go: data to standard output in the chosen format, everything else to standard error."""

import json
import os
import sys
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click

from pulse_cli.errors import CommandError, one_line
from pulse_cli.tables import Column, render_pairs, render_table

Item = TypeVar("Item")
Record = dict[str, Any]


@dataclass(frozen=True)
class View(Generic[Item]):
    """How a kind of thing is shown: its record for programs, its columns for people."""

    columns: Sequence[Column[Item]]
    record: Any
    empty: str


def is_plain() -> bool:
    """Whether colour and movement are unwelcome."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


@contextmanager
def _full_disk_told() -> Iterator[None]:
    """A closed pipe is none of a person's business; anything else is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"can't write the output: {error.strerror or error}; make room for it") from None


class Output:
    """The streams of one run."""

    def __init__(self, chosen: str) -> None:
        self.format = chosen
        self.on_terminal = bool(sys.stdout and sys.stdout.isatty())
        self.coloured = self.on_terminal and not is_plain()
        # Progress is drawn on standard error, so that data can be piped away meanwhile.
        self.animated = bool(sys.stderr and sys.stderr.isatty()) and not is_plain()

    @property
    def for_people(self) -> bool:
        """Whether a person reads it."""
        return self.format == "table"

    def write(self, text: str) -> None:
        """Data, as it is."""
        if sys.stdout is not None:
            with _full_disk_told():
                sys.stdout.write(text)
                sys.stdout.flush()

    def write_bytes(self, content: bytes) -> None:
        """Data that need not be text."""
        if sys.stdout is not None:
            with _full_disk_told():
                sys.stdout.flush()
                sys.stdout.buffer.write(content)
                sys.stdout.buffer.flush()

    def note(self, text: str) -> None:
        """A message for people, one line on standard error."""
        click.echo(one_line(text), err=True)

    def line(self, text: str) -> None:
        """One line of data for people."""
        self.write(one_line(text) + "\n")

    def record(self, record: Record | Sequence[Record]) -> None:
        """One thing for programs."""
        indent = 2 if self.format == "json" else None
        records = [record] if isinstance(record, dict) or self.format == "json" else record
        self.write("".join(json.dumps(each, indent=indent) + "\n" for each in records))

    def pairs(self, pairs: Iterable[tuple[str, str]]) -> None:
        """One thing for people: names and values."""
        self.write(render_pairs(list(pairs), coloured=self.coloured, on_terminal=self.on_terminal))

    def items(self, items: Iterable[Item], view: View[Item]) -> None:
        """A list of things."""
        items = list(items)
        if self.for_people:
            if items:
                self.write(render_table(items, view.columns, coloured=self.coloured, on_terminal=self.on_terminal))
            else:
                self.note(view.empty)
        else:
            self.record([view.record(item) for item in items])

    async def stream(self, items: AsyncIterable[Item], view: View[Item], *, limit: int | None, more: str) -> None:
        """A list that comes in pages. As JSON lines it is never held as a whole. Gets one beyond the limit, to tell."""
        held: list[Item] = []
        count = 0
        async for item in items:
            count += 1
            if limit is not None and count > limit:
                break
            if self.format == "jsonl":
                self.record(view.record(item))
            else:
                held.append(item)
        if self.format != "jsonl":
            self.items(held, view)
        if limit is not None and count > limit:
            self.note(more)
