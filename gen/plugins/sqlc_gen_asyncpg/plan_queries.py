"""Decide the modules of the query files."""

from sqlc_gen_asyncpg.annotations import Annotations, check_annotations, prose_of, read_annotations
from sqlc_gen_asyncpg.errors import GenerationError
from sqlc_gen_asyncpg.names import (
    FIELD_RESERVED,
    METHOD_RESERVED,
    PARAMETER_RESERVED,
    class_name,
    identifier,
    snake_case,
)
from sqlc_gen_asyncpg.plan import Command, Field, Method, Models, QueryModule, RowClass
from sqlc_gen_asyncpg.python_types import PythonType, TypeResolver
from sqlc_gen_asyncpg.request import Query, Request

OWN_MODULES = frozenset({"connection", "models"})


def plan_queries(request: Request, resolver: TypeResolver, models: Models) -> tuple[QueryModule, ...]:
    """Raise GenerationError for a command, a type or a name that cannot become code."""
    queries_by_file: dict[str, list[Query]] = {}
    for query in request.queries:
        queries_by_file.setdefault(query.file_name, []).append(query)
    modules: dict[str, QueryModule] = {}
    for file_name, queries in sorted(queries_by_file.items()):
        source = queries[0].source
        name = identifier(file_name.removesuffix(".sql"), reserved=(), taken=modules)
        if name is None or name in OWN_MODULES:
            raise GenerationError(source, "no module can be named after this file, rename it")
        methods: dict[str, Method] = {}
        for query in queries:
            method = _plan_method(query, resolver, models)
            if method.name in methods:
                raise GenerationError(query.where, f"another query is the method {method.name}")
            methods[method.name] = method
        modules[name] = QueryModule(
            name=name,
            source=source,
            docstring=prose_of(queries[0].comments_apart),
            methods=tuple(method for _, method in sorted(methods.items())),
        )
    return tuple(modules.values())


def _plan_method(query: Query, resolver: TypeResolver, models: Models) -> Method:
    command = _command(query)
    name = identifier(snake_case(query.name), reserved=METHOD_RESERVED, taken=())
    if name is None:
        raise GenerationError(query.where, "the query's name gives no Python name")
    annotations = read_annotations(query)
    parameters = _parameters(query, resolver, annotations)
    returns_rows = command in (Command.ONE, Command.MANY)
    result = _result(query, resolver, annotations) if returns_rows else ()
    check_annotations(annotations, where=query.where, parameters=parameters, result=result)
    model = _matching_model(query, result, models)
    own_row = None
    if model is None and len(result) > 1:
        own_row = RowClass(
            name=f"{class_name(query.name)}Row",
            docstring=f"A row of the result of {query.name}.",
            fields=result,
        )
    return Method(
        name=name,
        constant=snake_case(query.name).upper(),
        # The name stays in the text for those who read pg_stat_activity or a slow query log.
        sql=f"-- name: {query.name} {query.command}\n{query.text}\n",
        command=command,
        docstring=annotations.docstring,
        parameters=parameters,
        result=result,
        row=f"models.{model.name}" if model else own_row.name if own_row else None,
        own_row=own_row,
    )


def _command(query: Query) -> Command:
    try:
        return Command(query.command)
    except ValueError:
        supported = ", ".join(Command)
        raise GenerationError(
            query.where, f"command {query.command} is not supported, use one of {supported}"
        ) from None


def _parameters(query: Query, resolver: TypeResolver, annotations: Annotations) -> tuple[Field, ...]:
    fields: dict[str, Field] = {}
    for parameter in query.parameters:
        column = parameter.column
        name = identifier(column.name, reserved=PARAMETER_RESERVED, taken=fields)
        if name is None:
            raise GenerationError(query.where, f"parameter ${parameter.number} has no usable name, write @name")
        resolved = resolver.resolve(column, where=query.where, what=f"parameter {column.name!r}")
        fields[name] = Field(name, column.name, _annotated(resolved, column.name, annotations))
    return tuple(fields.values())


def _result(query: Query, resolver: TypeResolver, annotations: Annotations) -> tuple[Field, ...]:
    if not query.columns:
        raise GenerationError(query.where, f"{query.command} returns no columns, use :exec")
    fields: dict[str, Field] = {}
    for position, column in enumerate(query.columns, start=1):
        resolved = resolver.resolve(column, where=query.where, what=f"column {column.name or position!r}")
        if column.name in annotations.nullable:
            resolved = resolved.nullable()
        name = identifier(column.name, reserved=FIELD_RESERVED, taken=fields)
        if name is None and len(query.columns) > 1:
            raise GenerationError(query.where, f"column {position} has no usable name, write AS name")
        name = name or "value"
        fields[name] = Field(name, column.name, _annotated(resolved, column.name, annotations))
    return tuple(fields.values())


def _annotated(resolved: PythonType, sql_name: str, annotations: Annotations) -> PythonType:
    if sql_name in annotations.nullable_elements and resolved.is_array:
        return resolved.with_nullable_elements()
    return resolved


def _matching_model(query: Query, result: tuple[Field, ...], models: Models) -> RowClass | None:
    """The class of the table that the result has exactly the columns of, if there is one.

    The columns must come from one relation: the table, or a CTE that passes its columns on.
    """
    relations = {column.relation for column in query.columns}
    if len(result) < 2 or len(relations) != 1:
        return None
    relation = relations.pop()
    if relation in models.tables:
        candidates = [models.tables[relation]]
    else:
        candidates = list(models.tables.values()) if relation else []
    return next((model for model in candidates if model.fields == result), None)
