"""The lines of a query's comment that speak to this plugin, and those that speak to people."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sqlc_gen_asyncpg.errors import GenerationError
from sqlc_gen_asyncpg.plan import Field
from sqlc_gen_asyncpg.request import Query

_NULLABLE = "nullable"
_NULLABLE_ELEMENTS = "nullable elements"
_LINE = re.compile(rf"\s*({_NULLABLE}|{_NULLABLE_ELEMENTS}):\s*(.*)")


@dataclass(frozen=True)
class Annotations:
    """Names as SQL spells them, and the rest of the comment."""

    nullable: frozenset[str]
    nullable_elements: frozenset[str]
    docstring: str


def read_annotations(query: Query) -> Annotations:
    """Split the comment; the names are checked later, when the columns are known."""
    names: dict[str, set[str]] = {_NULLABLE: set(), _NULLABLE_ELEMENTS: set()}
    prose: list[str] = []
    for line in query.comments:
        if match := _LINE.fullmatch(line):
            names[match[1]].update(name.strip() for name in match[2].split(","))
        else:
            prose.append(line)
    return Annotations(
        nullable=frozenset(names[_NULLABLE]),
        nullable_elements=frozenset(names[_NULLABLE_ELEMENTS]),
        docstring=prose_of(prose),
    )


def prose_of(comments: Iterable[str]) -> str:
    """The text of comment lines, without the space that follows the dashes."""
    return "\n".join(line.removeprefix(" ").rstrip() for line in comments).strip()


def check_annotations(
    annotations: Annotations,
    *,
    where: str,
    parameters: tuple[Field, ...],
    result: tuple[Field, ...],
) -> None:
    """Raise GenerationError for a name that its line cannot be about."""
    columns = {field.sql_name for field in result}
    for name in sorted(annotations.nullable - columns):
        is_parameter = any(field.sql_name == name for field in parameters)
        hint = " (for a parameter use sqlc.narg)" if is_parameter else ""
        raise GenerationError(where, f"{_NULLABLE}: no result column is named {name!r}{hint}")
    arrays = {field.sql_name for field in (*parameters, *result) if field.type.is_array}
    for name in sorted(annotations.nullable_elements - arrays):
        raise GenerationError(where, f"{_NULLABLE_ELEMENTS}: no array is named {name!r}")
