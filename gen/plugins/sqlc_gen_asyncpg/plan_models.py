"""Decide the classes of models.py."""

from sqlc_gen_asyncpg.errors import GenerationError
from sqlc_gen_asyncpg.names import FIELD_RESERVED, class_name, enum_member, identifier, singular
from sqlc_gen_asyncpg.plan import EnumClass, Field, Models, RowClass
from sqlc_gen_asyncpg.python_types import TypeResolver, enum_class_name
from sqlc_gen_asyncpg.request import Enum, Request, Table


def plan_models(request: Request, resolver: TypeResolver) -> Models:
    """Raise GenerationError for a column without a Python type and for two classes of one name."""
    source = request.schema_source
    enums = [_enum_class(each) for each in request.enums]
    tables = [_table_class(each, resolver, source) for each in request.tables]
    seen: set[str] = set()
    names = [*(each.name for each in enums), *(each.name for each in tables)]
    for name in names:
        if name in seen:
            raise GenerationError(source, f"two tables or enums would be the class {name}, rename one")
        seen.add(name)
    return Models(
        source=source,
        enums=tuple(enums),
        tables={table.name: planned for table, planned in zip(request.tables, tables, strict=True)},
    )


def _enum_class(enum: Enum) -> EnumClass:
    members: dict[str, str] = {}
    for label in enum.labels:
        members[enum_member(label, taken=members)] = label
    return EnumClass(
        name=enum_class_name(enum),
        docstring=enum.comment or f"The Postgres enum `{enum.type_name}`.",
        members=tuple(members.items()),
    )


def _table_class(table: Table, resolver: TypeResolver, source: str) -> RowClass:
    where = f"{source}: table {table.name}"
    fields: dict[str, Field] = {}
    for column in table.columns:
        name = identifier(column.name, reserved=FIELD_RESERVED, taken=fields)
        if name is None:
            raise GenerationError(where, f"column {column.name!r} gives no Python name")
        fields[name] = Field(
            name=name,
            sql_name=column.name,
            type=resolver.resolve(column, where=where, what=f"column {column.name!r}"),
        )
    return RowClass(
        name=class_name(singular(table.name)),
        docstring=table.comment or f"A row of `{table.name}`.",
        fields=tuple(fields.values()),
    )
