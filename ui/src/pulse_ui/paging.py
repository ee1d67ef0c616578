"""Pages forward and back through a list that only knows what comes next.

The address holds the cursor of this page and those of the pages before it, so that back and reload work and nothing is
kept here. Only the latest are kept: from further in, the way back is by the browser, or from the start.
"""

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

MOST_BEFORE = 20


@dataclass(frozen=True)
class Turn:
    """Links to the pages around this one; None where there is none."""

    first: str | None
    previous: str | None
    next: str | None


@dataclass(frozen=True)
class Place:
    """Where in a list we are. The first page has an empty cursor."""

    cursor: str
    before: tuple[str, ...]

    def turn(self, url: str, next_cursor: str | None) -> Turn:
        """The links, for the list at `url`."""
        first = previous = following = None
        if self.cursor:
            first = url
            if self.before:
                previous = _link(url, self.before[-1], self.before[:-1])
        if next_cursor:
            following = _link(url, next_cursor, (*self.before, self.cursor)[-MOST_BEFORE:])
        return Turn(first, previous, following)


def read_place(parameters: QueryParams) -> Place:
    """From the query string; the first page's cursor travels as `-`."""
    before = tuple("" if cursor == "-" else cursor for cursor in parameters.getlist("before_cursor"))
    return Place(parameters.get("cursor", ""), before[-MOST_BEFORE:])


def _link(url: str, cursor: str, before: tuple[str, ...]) -> str:
    if not cursor:
        return url
    query = urlencode([("cursor", cursor), *(("before_cursor", each or "-") for each in before)])
    return f"{url}{'&' if '?' in url else '?'}{query}"
