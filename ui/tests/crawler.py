"""Follows every link and sends every form that only asks."""

import re
from collections import deque
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import NamedTuple, TypeAlias
from urllib.parse import urlencode, urljoin, urlsplit

from playwright.sync_api import APIRequestContext, APIResponse

# What Playwright posts.
FormFields: TypeAlias = dict[str, str | float | bool]


class Form(NamedTuple):
    """A form, with what is filled in."""

    method: str
    action: str
    fields: list[tuple[str, str]]


class Reader(HTMLParser):
    """What a page leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.links += [given[name] for name in ("href", "src", "hx-get") if name in given]
        if tag == "form":
            self.forms.append(Form(given.get("method", "get").lower(), given.get("action", ""), []))
        elif tag in ("input", "select", "textarea", "button") and self.forms and "name" in given:
            self.forms[-1].fields.append((given["name"], given.get("value", "")))


def read(page: str) -> Reader:
    """What a page leads to."""
    reader = Reader()
    reader.feed(page)
    return reader


def crawl(request: APIRequestContext, start: str, most: int) -> Iterator[APIResponse]:
    """Every answer that can be had from there by GET, each address once."""
    host = urlsplit(start).netloc
    seen = {start}
    waiting = deque([start])
    while waiting:
        assert len(seen) < most, "the pages have no end"
        answer = request.get(waiting.popleft(), max_redirects=0)
        yield answer
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        found = read(answer.text())
        asking = [f"{form.action}?{urlencode(form.fields)}" for form in found.forms if form.method == "get"]
        for link in [*found.links, *asking]:
            address = urljoin(answer.url, link).partition("#")[0]
            # A field that is left empty asks for nothing.
            asked = re.sub(r"(?<=[?&])\w+=(&|$)", "", address).rstrip("?&")
            if urlsplit(address).netloc == host and asked not in seen:
                seen.add(asked)
                waiting.append(address)
