"""The query files themselves, for what sqlc's request leaves out: their folder and blank lines.

sqlc hands to a query every comment since the statement before it. A comment that a blank line
sets off, such as the one at the top of a file, is about more than the query.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from sqlc_gen_asyncpg.errors import GenerationError

_NAME = re.compile(r"--\s*name:\s*(\w+)")


@dataclass(frozen=True)
class QueryFile:
    """A query file; `comments_apart` counts, by query, the comment lines set off before it."""

    path: str
    comments_apart: dict[str, int]


def read_query_file(file_name: str, query_paths: list[str]) -> QueryFile:
    """Find the file in one of the files and folders that sqlc.yaml names, and read it."""
    candidates = [
        path if path.endswith(f"/{file_name}") or path == file_name else f"{path}/{file_name}"
        for path in (each.rstrip("/") for each in query_paths)
    ]
    for candidate in candidates:
        if Path(candidate).is_file():
            return QueryFile(candidate, count_comments_apart(Path(candidate).read_text("utf-8")))
    raise GenerationError(file_name, "not found, run sqlc in the folder of sqlc.yaml")


def count_comments_apart(text: str) -> dict[str, int]:
    """By query name: how many of the comment lines before it are set off by a blank line."""
    counts: dict[str, int] = {}
    apart = adjacent = 0
    for line in (each.strip() for each in text.splitlines()):
        if match := _NAME.match(line):
            counts[match[1]] = apart
            apart = adjacent = 0
        elif line.startswith("--"):
            adjacent += 1
        elif not line:
            apart, adjacent = apart + adjacent, 0
        else:
            apart = adjacent = 0
    return counts
