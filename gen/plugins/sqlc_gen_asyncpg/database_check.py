"""Ask Postgres what sqlc only believed.

sqlc guesses the types of computed columns, and some of them wrong without a word: avg(integer) is
a float to it, string_agg a bytea. Postgres knows as soon as it has prepared the statement. A test
runs this over the generated package after the migrations. Nullability is beyond it.
"""

import enum
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from sqlc_gen_asyncpg.names import class_name
from sqlc_gen_asyncpg.python_types import PYTHON_NAMES


class PreparingConnection(Protocol):
    """The part of an asyncpg connection that we need."""

    async def prepare(self, query: str, /) -> Any:
        """Return the statement after Postgres has looked at it."""
        ...


async def find_disagreements(package: types.ModuleType, connection: PreparingConnection) -> list[str]:
    """Compare each generated method with its statement; return one line for each difference.

    A statement that Postgres refuses raises asyncpg's error.
    """
    found = []
    for module, method in _generated_methods(package):
        statement = await connection.prepare(getattr(module, method.__name__.rstrip("_").upper()))
        hints = typing.get_type_hints(method)
        result_hints = _result_hints(hints.pop("return"))
        columns = statement.get_attributes() if result_hints else ()
        believed = [
            *hints.items(),
            *zip((each.name for each in columns), result_hints, strict=True),
        ]
        known = [*statement.get_parameters(), *(each.type for each in columns)]
        found += [
            f"{module.__name__}.{method.__name__}: {name} is {postgres_type.name} in Postgres "
            f"and {_described(hint)} in Python"
            for (name, hint), postgres_type in zip(believed, known, strict=True)
            if _described(hint) != _expected(postgres_type.name)
        ]
    return found


def _generated_methods(
    package: types.ModuleType,
) -> Iterator[tuple[types.ModuleType, Callable[..., Any]]]:
    for entry in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{entry.name}")
        for _, method in inspect.getmembers(getattr(module, "AsyncQuerier", None), inspect.iscoroutinefunction):
            yield module, method


def _result_hints(hint: Any) -> list[Any]:
    """The hints of the result's columns, from the return annotation of a method."""
    if hint in (int, types.NoneType):  # :execrows and :exec; a :one is always a union with None
        return []
    row = typing.get_args(hint)[0] if typing.get_origin(hint) is list else _without_none(hint)
    if hasattr(row, "_fields"):
        return list(typing.get_type_hints(row).values())
    return [row]


def _described(hint: Any) -> str:
    hint = _without_none(hint)
    if typing.get_origin(hint) in (list, Sequence):
        return f"{_described(typing.get_args(hint)[0])}[]"
    if hint.__module__ == "builtins" or issubclass(hint, enum.Enum):
        return str(hint.__name__)
    return f"{hint.__module__}.{hint.__name__}"


def _expected(postgres_name: str) -> str:
    element = postgres_name.removesuffix("[]")
    python_name = PYTHON_NAMES.get(element) or class_name(element)
    return python_name + postgres_name.removeprefix(element)


def _without_none(hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        [hint] = [each for each in typing.get_args(hint) if each is not types.NoneType]
    return hint
