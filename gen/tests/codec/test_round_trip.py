"""Valid messages: the same bytes as both references, and the same message back."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .reference import Case, case, contract_cases, golden_cases
from .strategies import messages

PROFILE = settings(deadline=None, derandomize=True, database=None)
CASES = [*contract_cases(), *golden_cases()]


def in_order(of: Case) -> bool:
    """betterproto2 writes fields in the order of their lines, which the contract's numbers follow."""
    numbers = [field.number for field in of.descriptor.fields]
    return numbers == sorted(numbers)


def has_wide_map(stock: Any) -> bool:
    """Google sorts the entries of maps in a way of its own; betterproto2 and we don't."""
    for field, value in stock.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if len(value) > 1 or any(has_wide_map(item) for item in value.values() if hasattr(item, "ListFields")):
                return True
        elif any(has_wide_map(item) for item in (value if field.is_repeated else [value])):
            return True
    return False


@pytest.mark.parametrize("of", CASES, ids=repr)
def test_any_message_is_written_and_read_as_by_both_references(of: Case) -> None:
    @settings(PROFILE, max_examples=100 if of.full_name.startswith("golden.") else 20)
    @given(messages(of))
    def check(message: Any) -> None:
        wire = of.encode(message)
        stock = of.stock.FromString(wire)
        assert stock.SerializeToString(deterministic=True) == wire or has_wide_map(stock)
        if in_order(of):
            assert bytes(message) == wire
        assert_same(of.decode(wire), message)
        assert_same(of.decode(wire), of.cls.parse(wire))

    check()


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal, and alike in everything else that can be seen of them."""
    assert ours == theirs
    assert repr(ours) == repr(theirs)
    assert list(vars(ours)) == list(vars(theirs))
    assert {name: type(value) for name, value in vars(ours).items()} == {
        name: type(value) for name, value in vars(theirs).items()
    }
    assert ours.to_dict() == theirs.to_dict()
    for name in ours._betterproto.sorted_field_names:
        assert ours.is_set(name) == theirs.is_set(name)


def test_every_message_of_the_contract_is_tested() -> None:
    names = {one.full_name for one in contract_cases()}
    assert {"pulse.v1.JobAssignment", "pulse.v1.Job", "grpc.health.v1.HealthCheckResponse"} <= names
    assert len(names) > 80


@pytest.mark.parametrize("of", [case("golden.v1.Singular"), case("golden.v1.Explicit")], ids=repr)
@pytest.mark.parametrize("name", ["float", "double"])
@pytest.mark.parametrize("text", ["-0.0", "nan", "inf", "-inf", "0.0"])
def test_odd_floats_are_written_as_by_google(of: Case, name: str, text: str) -> None:
    wire = of.encode(of.cls(**{name: float(text)}))
    assert wire == of.stock(**{name: float(text)}).SerializeToString()
    assert str(getattr(of.decode(wire), name)) == text


def test_maps_keep_the_order_of_insertion() -> None:
    of = case("pulse.v1.JobOptions")
    message = of.cls(metadata={"b": "1", "a": "2", "": ""})
    wire = of.encode(message)
    assert wire == bytes(message)
    assert list(of.decode(wire).metadata) == ["b", "a", ""]
    assert dict(of.stock.FromString(wire).metadata) == message.metadata


def test_lists_may_be_tuples_and_bytes_may_be_buffers() -> None:
    of = case("golden.v1.Repeated")
    assert of.encode(of.cls(string=("a", "b"))) == of.encode(of.cls(string=["a", "b"]))
    of = case("golden.v1.Singular")
    for value in (bytearray(b"ab"), memoryview(b"ab"), memoryview(b"abcd").cast("H")):
        assert of.encode(of.cls(bytes=value)) == of.encode(of.cls(bytes=bytes(value)))


@pytest.mark.parametrize("kind", [bytearray, memoryview])
@settings(PROFILE, max_examples=10)
@given(message=messages(case("pulse.v1.JobAssignment")))
def test_any_buffer_can_be_read(kind: Any, message: Any) -> None:
    of = case("pulse.v1.JobAssignment")
    decoded = of.decode(kind(of.encode(message)))
    assert decoded == message
    assert type(decoded.payload) is bytes


@settings(PROFILE, max_examples=30)
@given(st.data())
def test_a_decoded_message_shares_nothing_with_the_next(data: st.DataObject) -> None:
    of = case("golden.v1.Repeated")
    wire = of.encode(data.draw(messages(of)))
    first, second = of.decode(wire), of.decode(wire)
    for name in first._betterproto.sorted_field_names:
        getattr(first, name).append(None)
    assert of.encode(second) == wire
