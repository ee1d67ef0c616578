"""Random messages, made from descriptors: values that all three implementations hold alike."""

import math
import sys
from datetime import UTC, timedelta
from functools import cache
from typing import Any

from betterproto2_compiler.compile.naming import pythonize_class_name, pythonize_field_name
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from hypothesis import strategies as st

from .reference import Case, case, contract_cases, golden_cases

# Around the places where lengths and numbers get one byte more.
SIZES = st.sampled_from([127, 128, 300, 16383, 16384])


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    """Small numbers, edges, and everything between."""
    edges = [low, low + 1, high - 1, high, 127, 128, 16383, 16384]
    return st.one_of(
        st.integers(max(low, -3), 200),
        st.sampled_from([edge for edge in edges if low <= edge <= high]),
        st.integers(low, high),
    )


INT32 = integers(-(2**31), 2**31 - 1)
INT64 = integers(-(2**63), 2**63 - 1)
UINT32 = integers(0, 2**32 - 1)
UINT64 = integers(0, 2**64 - 1)


def _floats(width: int) -> st.SearchStrategy[float]:
    """Without -0.0, which betterproto2 takes for the default, and NaN, which equals nothing."""
    floats = st.floats(width=64 if width == 64 else 32, allow_nan=False)
    return floats.filter(lambda value: value != 0 or math.copysign(1, value) > 0)


SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_INT32: INT32,
    FieldDescriptor.TYPE_INT64: INT64,
    FieldDescriptor.TYPE_UINT32: UINT32,
    FieldDescriptor.TYPE_UINT64: UINT64,
    FieldDescriptor.TYPE_SINT32: INT32,
    FieldDescriptor.TYPE_SINT64: INT64,
    FieldDescriptor.TYPE_FIXED32: UINT32,
    FieldDescriptor.TYPE_FIXED64: UINT64,
    FieldDescriptor.TYPE_SFIXED32: INT32,
    FieldDescriptor.TYPE_SFIXED64: INT64,
    FieldDescriptor.TYPE_FLOAT: _floats(32),
    FieldDescriptor.TYPE_DOUBLE: _floats(64),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_STRING: st.text(max_size=12) | SIZES.map(lambda size: "ü" * (size // 2)),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=12) | SIZES.map(bytes),
}

# betterproto2 goes wrong below zero and, because of floats, above some decades.
DURATIONS = st.timedeltas(timedelta(), timedelta(days=20_000))
TIMESTAMPS = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(fold=0))


@cache
def messages(of: Case) -> st.SearchStrategy[Any]:
    """Messages of one class, with at most one member of each oneof."""
    fields = [field for field in of.descriptor.fields if field.containing_oneof is None]
    values = {pythonize_field_name(field.name): _field_values(field) for field in fields}
    strategy: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({}, optional=values)
    for oneof in of.descriptor.oneofs:
        members: list[st.SearchStrategy[dict[str, Any]]] = [st.just({})]
        for field in oneof.fields:
            name = pythonize_field_name(field.name)
            members.append(st.fixed_dictionaries({name: _element_values(field)}))
        strategy = st.tuples(strategy, st.one_of(members)).map(lambda both: both[0] | both[1])
    return strategy.map(lambda values: of.cls(**values))


def _field_values(field: Any) -> st.SearchStrategy[Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields
        return st.dictionaries(_element_values(key), _element_values(value), max_size=3)
    if field.is_repeated:
        return st.lists(_element_values(field), max_size=3)
    return _element_values(field)


def _element_values(field: Any) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        if field.message_type.full_name == "google.protobuf.Timestamp":
            return TIMESTAMPS
        if field.message_type.full_name == "google.protobuf.Duration":
            return DURATIONS
        return messages(case(field.message_type.full_name))
    if field.enum_type is not None:
        enum = _enum_class(field)
        known = st.sampled_from([value.number for value in field.enum_type.values])
        return (known | INT32).map(enum)
    return SCALARS[field.type]


def _enum_class(field: Any) -> Any:
    """The betterproto2 class of an enum, from the module of any message of its package."""
    package = field.enum_type.file.package
    name = pythonize_class_name(field.enum_type.full_name.removeprefix(f"{package}."))
    cases = golden_cases() if package.startswith("golden.") else contract_cases()
    module = next(one.cls.__module__ for one in cases if one.full_name.startswith(f"{package}."))
    return getattr(sys.modules[module], name)
