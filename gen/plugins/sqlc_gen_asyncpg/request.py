"""A typed view of the parts of sqlc's request that we use, and of the query files behind it.

The message is `plugin.GenerateRequest` of sqlc's codegen.proto, in its JSON form.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any

from sqlc_gen_asyncpg.errors import GenerationError
from sqlc_gen_asyncpg.query_file import QueryFile, read_query_file

SYSTEM_SCHEMAS = frozenset({"pg_catalog", "information_schema", "pg_temp"})


@dataclass(frozen=True)
class Column:
    """A column of a table or a result, or the shape of a parameter."""

    name: str
    type_name: str
    not_null: bool
    array_dimensions: int
    relation: str | None
    is_embedded: bool
    is_slice: bool


@dataclass(frozen=True)
class Parameter:
    """The parameter `$number` of a query."""

    number: int
    column: Column


@dataclass(frozen=True)
class Enum:
    """A Postgres enum; `type_name` is spelled as columns spell it."""

    type_name: str
    labels: tuple[str, ...]
    comment: str


@dataclass(frozen=True)
class Table:
    """A table or a view."""

    name: str
    columns: tuple[Column, ...]
    comment: str


@dataclass(frozen=True)
class Query:
    """A named query; `source` is the path of its file.

    `comments_apart` are those before it that a blank line sets off, `comments` its own.
    """

    name: str
    command: str
    text: str
    source: str
    file_name: str
    comments_apart: tuple[str, ...]
    comments: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]

    @property
    def where(self) -> str:
        """The place that an error message about this query names."""
        return f"{self.source}: {self.name}"


@dataclass(frozen=True)
class Request:
    """Everything that sqlc knows about the schema and the queries."""

    schema_source: str
    enums: tuple[Enum, ...]
    tables: tuple[Table, ...]
    queries: tuple[Query, ...]


def parse_request(message: dict[str, Any]) -> Request:
    """Read the query files too, relative to the current folder, which sqlc makes its own.

    Raise GenerationError for another engine than Postgres and for any plugin option.
    """
    settings = message["settings"]
    if settings["engine"] != "postgresql":
        raise GenerationError("sqlc.yaml", f"engine {settings['engine']!r} is not postgresql")
    for key in ("plugin_options", "global_options"):
        _refuse_options(message[key])
    schemas = [schema for schema in message["catalog"]["schemas"] if schema["name"] not in SYSTEM_SCHEMAS]
    default_schema = message["catalog"]["default_schema"]
    queries = message["queries"]
    files = {
        name: read_query_file(name, settings["queries"]) for name in sorted({query["filename"] for query in queries})
    }
    return Request(
        schema_source=", ".join(settings["schema"]),
        enums=tuple(
            Enum(
                type_name=_qualified_name("" if schema["name"] == default_schema else schema["name"], enum["name"]),
                labels=tuple(enum["vals"]),
                comment=enum["comment"],
            )
            for schema in schemas
            for enum in schema["enums"]
        ),
        tables=tuple(
            Table(
                name=table["rel"]["name"],
                columns=tuple(_parse_column(column) for column in table["columns"]),
                comment=table["comment"],
            )
            for schema in schemas
            for table in schema["tables"]
        ),
        queries=tuple(_parse_query(query, files[query["filename"]]) for query in queries),
    )


def _refuse_options(encoded: str) -> None:
    options = json.loads(base64.b64decode(encoded) or b"{}")
    for name in options:
        raise GenerationError("sqlc.yaml", f"unknown option {name!r}: sqlc_gen_asyncpg takes none")


def _parse_query(query: dict[str, Any], file: QueryFile) -> Query:
    apart = file.comments_apart.get(query["name"], 0)
    return Query(
        name=query["name"],
        command=query["cmd"],
        text=query["text"],
        source=file.path,
        file_name=query["filename"],
        comments_apart=tuple(query["comments"][:apart]),
        comments=tuple(query["comments"][apart:]),
        parameters=tuple(
            Parameter(parameter["number"], _parse_column(parameter["column"]))
            for parameter in sorted(query["params"], key=lambda each: int(each["number"]))
        ),
        columns=tuple(_parse_column(column) for column in query["columns"]),
    )


def _parse_column(column: dict[str, Any]) -> Column:
    return Column(
        name=column["name"],
        type_name=_qualified_name(column["type"]["schema"], column["type"]["name"]),
        not_null=column["not_null"],
        array_dimensions=column["array_dims"],
        relation=column["table"]["name"] if column["table"] else None,
        is_embedded=column["embed_table"] is not None,
        is_slice=column["is_sqlc_slice"],
    )


def _qualified_name(schema: str, name: str) -> str:
    """Sqlc writes int4 as `int4`, `pg_catalog` + `int4` or `pg_catalog.int4`: make them one."""
    return (f"{schema}.{name}" if schema else name).removeprefix("pg_catalog.")
