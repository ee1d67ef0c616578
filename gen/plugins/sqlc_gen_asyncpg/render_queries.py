"""Write the module of a query file."""

from typing import assert_never

from sqlc_gen_asyncpg.names import snake_case
from sqlc_gen_asyncpg.plan import Command, Field, Method, QueryModule
from sqlc_gen_asyncpg.python_types import PythonType
from sqlc_gen_asyncpg.render_source import (
    INDENT,
    LINE_LENGTH,
    docstring,
    module,
    row_class,
    type_imports,
)

_CONSTRUCTOR = '''\
class AsyncQuerier:
    """Runs the queries of this module; `timeout` in seconds applies to each statement."""

    __slots__ = ("_connection", "_timeout")

    def __init__(self, connection: Connection, *, timeout: float | None = None) -> None:
        self._connection = connection
        self._timeout = timeout'''

_MAKE_ROW = """\
# Skips the Python frame of a NamedTuple's own constructor: the rows are a hot path.
_make_row = tuple.__new__"""


def render_query_module(queries: QueryModule) -> str:
    """The source of the module."""
    blocks = []
    if prelude := _prelude(queries.methods):
        blocks.append(prelude)
    for method in queries.methods:
        sql = method.sql.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
        blocks.append(f'{method.constant}: Final = """{sql}"""')
        if method.own_row:
            blocks.append(row_class(method.own_row, enum_prefix="models."))
    blocks.append("\n\n".join([_CONSTRUCTOR, *("\n".join(_method(each)) for each in queries.methods)]))
    return module(queries.source, _imports(queries.methods), blocks, text=queries.docstring)


def _imports(methods: tuple[Method, ...]) -> list[list[str]]:
    parameters = [field.type for method in methods for field in method.parameters]
    types = [*parameters, *(field.type for method in methods for field in method.result)]
    standard = type_imports(types)
    if any(each.is_array for each in parameters):
        standard.append("from collections.abc import Sequence")
    has_row_class = any(method.own_row for method in methods)
    standard.append(f"from typing import Final{', NamedTuple' if has_row_class else ''}")
    uses_models = any(each.is_enum for each in types) or any(method.row and not method.own_row for method in methods)
    own = ["from .connection import Connection"]
    return [standard, ["from . import models", *own] if uses_models else own]


def _prelude(methods: tuple[Method, ...]) -> str:
    lines = [_MAKE_ROW] if any(method.row for method in methods) else []
    enums = {field.type.name for method in methods for field in method.result if field.type.is_enum}
    lines += [
        f"{_labels(name)}: Final = {{member.value: member for member in models.{name}}}" for name in sorted(enums)
    ]
    return "\n".join(lines)


def _labels(enum_name: str) -> str:
    """The name of the dict from label to member, which is much quicker than calling the enum."""
    return f"_{snake_case(enum_name).upper()}"


def _method(method: Method) -> list[str]:
    indent = INDENT * 2
    if method.parameters:
        lines = [f"{INDENT}async def {method.name}(", f"{indent}self,", f"{indent}*,"]
        lines += [f"{indent}{field.name}: {field.type.annotation(array='Sequence')}," for field in method.parameters]
        lines.append(f"{INDENT}) -> {_return_annotation(method)}:")
    else:
        lines = [f"{INDENT}async def {method.name}(self) -> {_return_annotation(method)}:"]
    if method.docstring:
        lines += docstring(method.docstring, indent)
    return lines + [f"{indent}{line}" if line else "" for line in _body(method)]


def _return_annotation(method: Method) -> str:
    match method.command:
        case Command.ONE:
            return f"{method.row} | None" if method.row else _bare(method).nullable().annotation()
        case Command.MANY:
            return f"list[{method.row or _bare(method).annotation()}]"
        case Command.EXEC:
            return "None"
        case Command.EXECROWS:
            return "int"
        case _:
            assert_never(method.command)


def _body(method: Method) -> list[str]:
    match method.command:
        case Command.EXEC:
            return _call("", "execute", method)
        case Command.EXECROWS:
            return [
                *_call("command_tag = ", "execute", method),
                'return int(command_tag.rpartition(" ")[2])',
            ]
        case Command.MANY:
            return [*_call("records = ", "fetch", method), *_return_list(method)]
        case Command.ONE if method.row:
            return [
                *_call("record = ", "fetchrow", method),
                "if record is None:",
                f"{INDENT}return None",
                *_prefixed("return ", _row(method.row, method.result)),
            ]
        case Command.ONE:
            fetched = _bare(method).nullable()
            target = f"fetched: {fetched.undecoded().annotation()} = "
            return [*_call(target, "fetchval", method), f"return {_decoded('fetched', fetched)}"]
        case _:
            assert_never(method.command)


def _call(prefix: str, function: str, method: Method) -> list[str]:
    """One argument a line with a trailing comma: a layout that never depends on the length."""
    arguments = [method.constant, *(field.name for field in method.parameters)]
    return [
        f"{prefix}await self._connection.{function}(",
        *(f"{INDENT}{argument}," for argument in arguments),
        f"{INDENT}timeout=self._timeout,",
        ")",
    ]


def _return_list(method: Method) -> list[str]:
    element = _row(method.row, method.result) if method.row else [_decoded("record[0]", _bare(method))]
    loop = "for record in records"
    one_line = f"return [{element[0]} {loop}]"
    if len(element) == 1 and len(INDENT * 2 + one_line) <= LINE_LENGTH:
        return [one_line]
    return ["return [", *(f"{INDENT}{line}" for line in [*element, loop]), "]"]


def _row(row: str, fields: tuple[Field, ...]) -> list[str]:
    """The expression that makes a row of `record`."""
    if not any(field.type.is_enum for field in fields):
        return [f"_make_row({row}, record)"]
    values = [_decoded(f"record[{index}]", field.type) for index, field in enumerate(fields)]
    return [
        "_make_row(",
        f"{INDENT}{row},",
        f"{INDENT}(",
        *(f"{INDENT * 2}{value}," for value in values),
        f"{INDENT}),",
        ")",
    ]


def _decoded(value: str, type_: PythonType) -> str:
    """The expression that turns what asyncpg delivers into the annotated type."""
    if not type_.is_enum:
        return value
    labels = _labels(type_.name)
    if type_.is_array:
        element = f"{labels}[item]"
        if type_.has_nullable_elements:
            element = f"None if item is None else {element}"
        decoded = f"[{element} for item in {value}]"
    else:
        decoded = f"{labels}[{value}]"
    return f"None if {value} is None else {decoded}" if type_.is_nullable else decoded


def _bare(method: Method) -> PythonType:
    [field] = method.result
    return field.type


def _prefixed(prefix: str, lines: list[str]) -> list[str]:
    return [prefix + lines[0], *lines[1:]]
