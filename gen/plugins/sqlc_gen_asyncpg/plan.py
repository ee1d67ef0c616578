"""What is to be written, decided but not yet spelled: between `plan_*` and `render_*`."""

import enum
from dataclasses import dataclass

from sqlc_gen_asyncpg.python_types import PythonType


class Command(enum.StrEnum):
    """The query commands that we support."""

    ONE = ":one"
    MANY = ":many"
    EXEC = ":exec"
    EXECROWS = ":execrows"


@dataclass(frozen=True)
class Field:
    """A field of a row class, or a parameter of a method."""

    name: str
    sql_name: str
    type: PythonType


@dataclass(frozen=True)
class EnumClass:
    """An enum of models.py; members are pairs of name and label, in Postgres' order."""

    name: str
    docstring: str
    members: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RowClass:
    """The class of a table's rows, or of a query's."""

    name: str
    docstring: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Models:
    """The content of models.py; `tables` goes by the table's name in SQL."""

    source: str
    enums: tuple[EnumClass, ...]
    tables: dict[str, RowClass]


@dataclass(frozen=True)
class Method:
    """A method of an AsyncQuerier.

    `row` is the expression that names the row class; it is None when the method returns a bare
    value (`result` has one field) or nothing (it has none). `own_row` is the class to define
    when no table's class fits.
    """

    name: str
    constant: str
    sql: str
    command: Command
    docstring: str
    parameters: tuple[Field, ...]
    result: tuple[Field, ...]
    row: str | None
    own_row: RowClass | None


@dataclass(frozen=True)
class QueryModule:
    """The module of one query file; its docstring may be empty; methods are sorted by name."""

    name: str
    source: str
    docstring: str
    methods: tuple[Method, ...]
