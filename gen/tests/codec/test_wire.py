"""Bytes that we did not write: read as Google reads them, or refused with CodecError."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .reference import Case, case, contract_cases, golden_cases
from .wire import damaged, drops_entries, has_bad_time, read_by_google, sized, tag, varint, wires

PROFILE = settings(deadline=None, derandomize=True, database=None)
CASES = [*contract_cases(), *golden_cases()]

# Without fields there is little to damage.
DAMAGED = [one for one in CASES if one.descriptor.fields]


def meaning(of: Case, message: Any) -> bytes:
    """What the message says, in a form that can be compared."""
    canonical: bytes = of.stock.FromString(of.encode(message)).SerializeToString(deterministic=True)
    return canonical


@pytest.mark.parametrize("of", CASES, ids=repr)
def test_legal_bytes_of_any_shape_are_read_as_by_google(of: Case) -> None:
    @settings(PROFILE, max_examples=100 if of.full_name.startswith("golden.") else 20)
    @given(wires(of.descriptor))
    def check(wire: bytes) -> None:
        assert meaning(of, of.decode(wire)) == read_by_google(of, wire)

    check()


def assert_read_as_by_google_or_refused(of: Case, wire: bytes) -> None:
    """Where Google refuses, so do we; where we alone refuse, it is for a reason that we know."""
    expected = read_by_google(of, wire)
    try:
        message = of.decode(wire)
    except of.error as refusal:
        # Google lets any number pass as a time, and 0 as the number of some unknown fields.
        stricter = ("Timestamp", "Duration", "field number 0")
        assert expected is None or any(word in str(refusal) for word in stricter)
    else:
        assert expected is not None
        assert not has_bad_time(of, wire)
        assert meaning(of, message) == expected or drops_entries(of, wire)


@pytest.mark.parametrize("of", DAMAGED, ids=repr)
def test_damaged_bytes_are_read_as_by_google_or_refused(of: Case) -> None:
    @settings(PROFILE, max_examples=100 if of.full_name.startswith("golden.") else 20)
    @given(wires(of.descriptor).flatmap(damaged))
    def check(wire: bytes) -> None:
        assert_read_as_by_google_or_refused(of, wire)

    check()


@settings(PROFILE, max_examples=400)
@given(of=st.sampled_from(CASES), wire=st.binary(max_size=40))
def test_noise_is_read_as_by_google_or_refused(of: Case, wire: bytes) -> None:
    assert_read_as_by_google_or_refused(of, wire)


def test_every_truncation_of_a_message_is_refused_or_a_shorter_message() -> None:
    of = case("pulse.v1.Job")
    filled = fill(of)
    assert of.encode(of.decode(filled)) == filled
    for size in range(len(filled)):
        if read_by_google(of, filled[:size]) is None:
            with pytest.raises(of.error):
                of.decode(filled[:size])
        else:
            of.decode(filled[:size])


def fill(of: Case) -> bytes:
    """A message with something in every field, at every depth."""
    message = of.stock()
    _fill(message)
    wire: bytes = message.SerializeToString(deterministic=True)
    return wire


def _fill(message: Any) -> None:
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value["key"] = "value"
        elif field.message_type is not None:
            _fill(value.add() if field.is_repeated else value)
        elif field.is_repeated:
            value.append("tag" if field.type == field.TYPE_STRING else 1)
        else:
            setattr(message, field.name, type(value)(b"x" if isinstance(value, bytes) else 7000))


REFUSED = {
    "truncated message": [
        b"\x0a",
        b"\x0a\x05abcd",
        b"\x0a\xff",
        b"\x10",
        b"\x10\x80",
        b"\x0a\xff\xff\xff\xff\x07",
        tag(100, 0),
        tag(100, 1) + b"1234567",
        tag(100, 2) + b"\x05abcd",
        tag(100, 3),
        tag(100, 3) + tag(101, 0) + b"\x01",
        tag(100, 5) + b"123",
        b"\x80",
        # The lease ends inside of its own field, the message goes on.
        b"\x52\x01\x08" + b"\x72\x01a",
        b"\x52\x02\x08\x80" + b"\x72\x01a",
        # A tag reaches past the end of the assignment, but not of the buffer.
        b"\x52\x0a\x08\x01",
    ],
    "varint longer than 10 bytes": [
        b"\x10" + b"\x80" * 10 + b"\x00",
        tag(100, 0) + b"\xff" * 11,
    ],
    "invalid length": [
        b"\x0a\x80\x80\x80\x80\x80\x00",
        b"\x0a\xff\xff\xff\xff\x0f",
        tag(100, 2) + b"\xff" * 9 + b"\x01",
    ],
    "invalid tag": [
        b"\x8a\x80\x80\x80\x80\x00\x01a",
        b"\xff\xff\xff\xff\x1f\x01",
    ],
    "field number 0": [b"\x00\x01", b"\x02\x00", b"\x80\x00\x01"],
    "invalid wire type 6": [b"\x0e\x01", tag(100, 6)],
    "invalid wire type 7": [b"\x0f\x01"],
    "end of a group that was not begun": [
        tag(1, 4),
        tag(100, 4),
        tag(100, 3) + tag(101, 4),
        tag(100, 3) + tag(100, 4) + tag(100, 4),
    ],
    "groups nested deeper than 100": [tag(100, 3) * 101 + tag(100, 4) * 101],
    "field JobAssignment.topic: invalid UTF-8": [
        b"\x1a\x01\xff",
        b"\x1a\x03\xed\xa0\x80",
        # Even if a good value follows.
        b"\x1a\x01\xff\x1a\x01a",
    ],
    "field JobAssignment.tags: invalid UTF-8": [b"\x5a\x01a\x5a\x02\xc3\x28"],
    "field JobAssignment.metadata.key: invalid UTF-8": [b"\x62\x03\x0a\x01\xff"],
    "field JobAssignment.metadata.value: invalid UTF-8": [b"\x62\x03\x12\x01\xff"],
}


@pytest.mark.parametrize(("reason", "wire"), [(reason, wire) for reason, wires in REFUSED.items() for wire in wires])
def test_malformed_bytes_are_refused_with_the_reason(reason: str, wire: bytes) -> None:
    of = case("pulse.v1.JobAssignment")
    with pytest.raises(of.error) as refusal:
        of.decode(wire)
    assert str(refusal.value) == reason
    # One level down it is the same, with the outer message going on behind it.
    outer = case("pulse.v1.StreamJobsResponse")
    with pytest.raises(of.error):
        outer.decode(b"\x0a" + sized(wire) + b"\x12\x03\x0a\x01a")


@pytest.mark.parametrize("claimed", [100, 2**14, 2**28, 2**31 - 1, 2**31, 2**32, 2**63, 2**64 - 1])
@pytest.mark.parametrize("number", [1, 4, 9, 11, 12, 13, 100])
def test_a_forged_length_is_refused_at_once(claimed: int, number: int) -> None:
    wire = tag(number, 2) + varint(claimed) + b"\x00" * 50
    for of in (case("pulse.v1.JobAssignment"), case("golden.v1.Repeated")):
        with pytest.raises(of.error):
            of.decode(wire)


def test_unknown_fields_are_skipped_and_not_kept() -> None:
    of = case("pulse.v1.AttemptRef")
    group = tag(100, 3) + tag(101, 0) + b"\x05" + tag(102, 3) + tag(102, 4) + tag(100, 4)
    unknown = tag(100, 2) + b"\x01x" + group + tag(2000, 5) + b"1234" + tag(7, 1) + b"12345678"
    plain = of.encode(of.cls(job_id="a", attempt=3))
    for wire in (unknown + plain, plain + unknown, plain[:3] + unknown + plain[3:]):
        message = of.decode(wire)
        assert message == of.cls(job_id="a", attempt=3)
        assert message._unknown_fields == b""
        assert of.encode(message) == plain


def test_a_value_of_a_map_is_named_by_its_field() -> None:
    of = case("golden.v1.Maps")
    negative = b"\x10" + varint(-1)
    with pytest.raises(of.error, match=r"^field Maps.made_at.value: Timestamp out of range$"):
        of.decode(tag(16, 2) + sized(b"\x12" + sized(negative)))


def test_unknown_fields_between_numbers_of_two_bytes_are_skipped() -> None:
    of = case("pulse.v1.Job")
    wire = tag(999, 0) + b"\x01" + tag(18, 2) + b"\x01s" + tag(999, 2) + b"\x01x" + tag(20, 0) + b"\x05"
    assert of.decode(wire) == of.cls(schedule_id="s", payload_size=5)


def test_a_known_number_with_another_wire_type_is_unknown() -> None:
    of = case("pulse.v1.AttemptRef")
    assert of.decode(tag(1, 0) + b"\x05" + tag(2, 2) + b"\x01a") == of.cls()


def test_the_last_of_several_scalars_wins() -> None:
    of = case("pulse.v1.AttemptRef")
    assert of.decode(b"\x10\x01\x0a\x01a\x10\x02\x0a\x01b") == of.cls(job_id="b", attempt=2)


def test_occurrences_of_a_message_are_merged() -> None:
    of = case("golden.v1.Singular")
    part = case("golden.parts.v1.Part")
    first = part.cls(name="a", count=1, marks=["x"])
    second = part.cls(count=2, marks=["y"], sold=False)
    wire = b"".join(tag(17, 2) + sized(part.encode(one)) for one in (first, second))
    merged = part.cls(name="a", count=2, marks=["x", "y"], sold=False)
    assert of.decode(wire) == of.cls(part=merged)


def test_a_long_series_of_occurrences_takes_linear_time() -> None:
    of = case("pulse.v1.SubmitJobRequest")
    submission = case("pulse.v1.JobSubmission")
    big = tag(1, 2) + sized(submission.encode(submission.cls(payload=bytes(1_000_000))))
    wire = big + b"\x0a\x00" * 50_000
    assert len(of.decode(wire).job.payload) == 1_000_000


def test_another_member_of_a_oneof_clears_the_first() -> None:
    of = case("golden.v1.Choices")
    part = case("golden.parts.v1.Part")
    named = tag(11, 2) + sized(part.encode(part.cls(name="a")))
    counted = tag(11, 2) + sized(part.encode(part.cls(count=1)))
    assert of.decode(named + counted).part == part.cls(name="a", count=1)
    string = tag(5, 2) + b"\x01s"
    assert of.decode(named + string) == of.cls(string="s")
    assert of.decode(named + string + counted) == of.cls(part=part.cls(count=1))


def test_an_entry_of_a_map_may_have_unknown_fields() -> None:
    of = case("pulse.v1.JobOptions")
    wire = tag(8, 2) + b"\x09\x0a\x01k\x18\x05\x12\x02vv"
    assert of.decode(wire).metadata == {"k": "vv"}


def test_an_entry_of_a_map_may_lack_key_and_value() -> None:
    of = case("golden.v1.Maps")
    part = case("golden.parts.v1.Part")
    assert of.decode(tag(12, 2) + b"\x00").string == {"": False}
    assert of.decode(tag(15, 2) + b"\x03\x0a\x01k").part == {"k": part.cls()}
    assert of.decode(tag(1, 2) + b"\x02\x10\x07" + tag(1, 2) + b"\x00").int32 == {0: 0}


@pytest.mark.parametrize("last", [1, 2, 3, 0x7E, 0x7F])
@pytest.mark.parametrize("rest", [0x80, 0xFF])
def test_what_is_above_the_64th_bit_is_dropped(last: int, rest: int) -> None:
    of = case("golden.v1.Singular")
    for number in (1, 2, 3, 4, 5, 6, 13, 16):
        wire = tag(number, 0) + bytes([rest]) * 9 + bytes([last])
        assert meaning(of, of.decode(wire)) == read_by_google(of, wire)


@pytest.mark.parametrize(("value", "expected"), [(2**32 + 1, 1), (2**64 - 1, -1), (77, 77)])
def test_enums_are_open_and_have_32_bits(value: int, expected: int) -> None:
    of = case("pulse.v1.CancelJobResponse")
    message = of.decode(b"\x08" + varint(value))
    assert message.status == expected
    assert type(message.status) is type(of.cls().status)
    assert of.encode(message) == b"\x08" + varint(expected)
