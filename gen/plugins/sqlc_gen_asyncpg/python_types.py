"""Which Python type stands for which Postgres type."""

from dataclasses import dataclass, replace

from sqlc_gen_asyncpg.errors import GenerationError
from sqlc_gen_asyncpg.names import class_name
from sqlc_gen_asyncpg.request import Column, Enum

# json and jsonb are str because that is what asyncpg delivers without a codec of one's own.
# timestamp is left out on purpose: a time without a zone is a bug that waits.
PYTHON_NAMES = {
    sql_name: python_name
    for python_name, sql_names in {
        "bool": ("bool", "boolean"),
        "int": (
            *("int2", "int4", "int8", "smallint", "integer", "bigint"),
            *("smallserial", "serial", "bigserial"),
        ),
        "float": ("float4", "float8", "real", "double precision"),
        "decimal.Decimal": ("numeric", "decimal"),
        "str": ("text", "varchar", "character varying", "json", "jsonb"),
        "bytes": ("bytea",),
        "uuid.UUID": ("uuid",),
        "datetime.date": ("date",),
        "datetime.datetime": ("timestamptz", "timestamp with time zone"),
        "datetime.timedelta": ("interval",),
    }.items()
    for sql_name in sql_names
}

# What sqlc says when it does not know. `int` and `float` are among them: it takes every arithmetic
# expression for `int`, even timestamptz + interval, while a real integer arrives as `int4`.
GUESSES = frozenset({"int", "float", "any", "anyarray", "anyelement", "record"})


@dataclass(frozen=True)
class PythonType:
    """A type as a generated annotation needs it; `name` is bare for an enum of models.py."""

    name: str
    is_enum: bool = False
    is_array: bool = False
    is_nullable: bool = False
    has_nullable_elements: bool = False

    @property
    def module(self) -> str | None:
        """The standard library module to import, if any."""
        return self.name.rpartition(".")[0] or None

    def nullable(self) -> "PythonType":
        """The same type with None allowed."""
        return replace(self, is_nullable=True)

    def with_nullable_elements(self) -> "PythonType":
        """The same array with None allowed in it."""
        return replace(self, has_nullable_elements=True)

    def undecoded(self) -> "PythonType":
        """What asyncpg delivers for it: the label where we promise an enum."""
        return replace(self, name="str", is_enum=False) if self.is_enum else self

    def annotation(self, *, array: str = "list", enum_prefix: str = "models.") -> str:
        """The annotation's source text."""
        text = enum_prefix + self.name if self.is_enum else self.name
        if self.is_array:
            text = f"{array}[{text}{' | None' if self.has_nullable_elements else ''}]"
        return f"{text} | None" if self.is_nullable else text


class TypeResolver:
    """Finds the Python type of a column, knowing the schema's enums."""

    def __init__(self, enums: tuple[Enum, ...]) -> None:
        self._enum_classes = {enum.type_name: enum_class_name(enum) for enum in enums}

    def resolve(self, column: Column, *, where: str, what: str) -> PythonType:
        """Raise GenerationError, naming `where` and `what`, for a type that has no Python twin."""
        if column.is_embedded or column.is_slice:
            raise GenerationError(where, f"{what}: sqlc.embed and sqlc.slice are not supported")
        if column.array_dimensions > 1:
            raise GenerationError(
                where,
                f"{what}: {column.type_name}{'[]' * column.array_dimensions} is not supported, "
                "arrays have one dimension",
            )
        enum_class = self._enum_classes.get(column.type_name)
        name = enum_class or PYTHON_NAMES.get(column.type_name)
        if name is None:
            raise GenerationError(where, f"{what}: {_why_not(column)}")
        return PythonType(
            name=name,
            is_enum=enum_class is not None,
            is_array=column.array_dimensions == 1,
            is_nullable=not column.not_null,
        )


def enum_class_name(enum: Enum) -> str:
    """The class of an enum; a schema before its name is left out."""
    return class_name(enum.type_name.rpartition(".")[2])


def _why_not(column: Column) -> str:
    if column.type_name in GUESSES:
        return f"sqlc does not know the type (its guess is {column.type_name!r}), add a ::cast"
    return f"type {column.type_name!r} is not supported"
