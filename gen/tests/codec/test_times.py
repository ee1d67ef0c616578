"""Timestamps and durations: exact to the microsecond, refused where they are none."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from google.protobuf.duration_pb2 import Duration  # type: ignore[import-untyped]
from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from pulse_gen.codec import CodecError, _times

from .reference import case
from .wire import sized, tag, varint

PROFILE = settings(deadline=None, derandomize=True, database=None, max_examples=400)

# Each has one field, with number 1.
MOMENT = case("pulse.v1.ResumeScheduleResponse")
SPAN = case("pulse.v1.GetStatsRequest")

FIRST, LAST = -62_135_596_800, 253_402_300_799
LONGEST = 315_576_000_000


def read_moment(wire: bytes) -> datetime:
    moment: datetime = MOMENT.decode(tag(1, 2) + sized(wire)).next_run_at
    return moment


def write_moment(moment: datetime) -> Any:
    return Timestamp.FromString(MOMENT.encode(MOMENT.cls(next_run_at=moment))[2:])


def read_span(wire: bytes) -> timedelta:
    span: timedelta = SPAN.decode(tag(1, 2) + sized(wire)).window
    return span


def write_span(span: timedelta) -> Any:
    return Duration.FromString(SPAN.encode(SPAN.cls(window=span))[2:])


@PROFILE
@given(st.datetimes(timezones=st.just(UTC)))
def test_moments_survive_to_the_microsecond(moment: datetime) -> None:
    written = write_moment(moment)
    assert written.ToDatetime(UTC) == moment
    assert read_moment(written.SerializeToString()) == moment


@pytest.mark.parametrize("second", [0, 1, 2**28 - 1, 2**28, 1_763_430_000, 2**31, 2**32 - 1, 2**32])
@settings(PROFILE, max_examples=100)
@given(micros=st.integers(0, 999_999) | st.sampled_from([0, 1, 268_435, 268_436, 999_999]))
def test_no_microsecond_is_lost_to_floats(second: int, micros: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second, microseconds=micros)
    written = write_moment(moment)
    assert (written.seconds, written.nanos) == (second, micros * 1000)
    assert read_moment(written.SerializeToString()) == moment
    # And once more, now that the memos know the second and the moment.
    assert write_moment(moment) == written
    assert read_moment(written.SerializeToString()) == moment


@PROFILE
@given(st.timedeltas(timedelta(seconds=-LONGEST), timedelta(seconds=LONGEST)))
def test_spans_survive_to_the_microsecond(span: timedelta) -> None:
    written = write_span(span)
    assert written.ToTimedelta() == span
    assert written.seconds * written.nanos >= 0
    assert read_span(written.SerializeToString()) == span


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_a_moment_does_not_depend_on_its_zone(zone: str) -> None:
    moment = datetime(2025, 7, 1, 12, 30, 0, 123456, tzinfo=UTC)
    assert write_moment(moment.astimezone(ZoneInfo(zone))) == write_moment(moment)


def test_both_passes_of_a_repeated_hour_are_kept_apart() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    summer = datetime(2025, 10, 26, 2, 30, tzinfo=berlin, fold=0)
    winter = datetime(2025, 10, 26, 2, 30, tzinfo=berlin, fold=1)
    assert summer == winter
    assert write_moment(winter).seconds - write_moment(summer).seconds == 3600


def test_what_is_below_a_microsecond_is_cut_off_towards_zero() -> None:
    assert read_moment(b"\x10" + varint(1_999)) == datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    before = read_moment(b"\x08" + varint(-1) + b"\x10" + varint(999_999_999))
    assert before == datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert read_span(b"\x10" + varint(1_999)) == timedelta(microseconds=1)
    assert read_span(b"\x10" + varint(-1_999)) == timedelta(microseconds=-1)


SECOND = b"\x08" + varint(1_763_430_000)


@pytest.mark.parametrize(
    ("rest", "micros"),
    [
        (b"", 0),
        (b"\x10\x00", 0),
        (b"\x10" + varint(5_000), 5),
        (b"\x10" + varint(5_000, padding=3), 5),
        (b"\x10" + varint(5_000) + b"\x10" + varint(6_000), 6),
        (b"\x10" + varint(5_000) + tag(9, 0) + b"\x01", 5),
        (tag(9, 2) + b"\x01a" + b"\x10" + varint(5_000), 5),
        (b"\x90\x00" + varint(5_000), 5),
        (b"\x10" + varint(5_000 + 2**32), 5),
    ],
)
def test_a_second_that_is_known_says_nothing_about_the_rest(rest: bytes, micros: int) -> None:
    start = read_moment(SECOND + b"\x10" + varint(999_999_000))
    assert read_moment(SECOND + rest) == start.replace(microsecond=micros)


@pytest.mark.parametrize("rest", [b"\x10", b"\x10\x88", b"\x0a", b"\x10\x01\x10", b"\x10\x01\x00\x00"])
def test_a_known_second_with_a_damaged_rest_is_refused(rest: bytes) -> None:
    read_moment(SECOND + b"\x10" + varint(999_999_000))
    behind = tag(1, 2) + sized(SECOND)
    with pytest.raises(CodecError):
        MOMENT.decode(tag(1, 2) + sized(SECOND + rest) + behind)


def test_the_bounds_are_inside() -> None:
    top = b"\x10" + varint(999_999_999)
    assert read_moment(b"\x08" + varint(FIRST)) == datetime.min.replace(tzinfo=UTC)
    assert read_moment(b"\x08" + varint(LAST) + top) == datetime.max.replace(tzinfo=UTC)
    assert read_span(b"\x08" + varint(LONGEST)) == timedelta(seconds=LONGEST)
    assert read_span(b"\x08" + varint(-LONGEST)) == timedelta(seconds=-LONGEST)


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [
        (LAST + 1, 0),
        (FIRST - 1, 0),
        (2**63 - 1, 0),
        (-(2**63), 0),
        (0, -1),
        (0, 1_000_000_000),
        (1_763_430_000, 1_000_000_000),
        (1_763_430_000, -1),
        (1_763_430_000, 2**31 - 1),
    ],
)
def test_a_timestamp_out_of_range_is_refused(seconds: int, nanos: int) -> None:
    read_moment(b"\x08" + varint(1_763_430_000) + b"\x10" + varint(1))
    with pytest.raises(CodecError, match=r"^field ResumeScheduleResponse.next_run_at: Timestamp"):
        read_moment(b"\x08" + varint(seconds) + b"\x10" + varint(nanos))


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [
        (LONGEST + 1, 0),
        (-LONGEST - 1, 0),
        (2**63 - 1, 0),
        (0, 1_000_000_000),
        (0, -1_000_000_000),
        (1, -1),
        (-1, 1),
    ],
)
def test_a_duration_out_of_range_is_refused(seconds: int, nanos: int) -> None:
    with pytest.raises(CodecError, match=r"^field GetStatsRequest.window: Duration"):
        read_span(b"\x08" + varint(seconds) + b"\x10" + varint(nanos))


def test_occurrences_of_a_time_are_merged() -> None:
    seconds, nanos = tag(1, 2) + sized(b"\x08\x05"), tag(1, 2) + sized(b"\x10" + varint(7_000))
    moment = datetime(1970, 1, 1, 0, 0, 5, 7, tzinfo=UTC)
    for wire in (seconds + nanos, nanos + seconds):
        assert MOMENT.decode(wire).next_run_at == moment
        assert SPAN.decode(wire).window == timedelta(seconds=5, microseconds=7)
    negative = tag(1, 2) + sized(b"\x08" + varint(-5)), tag(1, 2) + sized(b"\x10" + varint(-7_000))
    assert SPAN.decode(b"".join(negative)).window == -timedelta(seconds=5, microseconds=7)


def test_an_empty_time_is_the_zero_of_its_kind() -> None:
    assert read_moment(b"") == datetime(1970, 1, 1, tzinfo=UTC)
    assert read_span(b"") == timedelta()
    assert MOMENT.encode(MOMENT.cls(next_run_at=datetime(1970, 1, 1, tzinfo=UTC))) == b"\x0a\x00"
    assert SPAN.encode(SPAN.cls(window=timedelta())) == b"\x0a\x00"


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2025, 1, 1),  # noqa: DTZ001
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
        timedelta(),
        1_763_430_000,
        "2025-01-01T00:00:00Z",
    ],
)
def test_what_is_no_moment_is_not_written(moment: Any) -> None:
    with pytest.raises(CodecError, match=r"^field next_run_at: "):
        MOMENT.encode(MOMENT.cls(next_run_at=moment))


@pytest.mark.parametrize(
    "span",
    [
        timedelta(seconds=LONGEST + 1),
        timedelta(seconds=-LONGEST - 1),
        timedelta.max,
        datetime(2025, 1, 1, tzinfo=UTC),
        30,
        30.0,
        [],
    ],
)
def test_what_is_no_span_is_not_written(span: Any) -> None:
    with pytest.raises(CodecError, match=r"^field window: "):
        SPAN.encode(SPAN.cls(window=span))


def test_memory_for_times_is_bounded() -> None:
    for number in range(3 * _times.MEMO_LIMIT):
        wire = b"\x08" + varint(1_763_430_000 + number) + b"\x10" + varint(number * 1000)
        write_moment(read_moment(wire))
        write_span(read_span(wire))
    for name in ("TIMESTAMPS", "DURATIONS", "_SECONDS"):
        assert 0 < len(getattr(_times, name)) <= _times.MEMO_LIMIT
        assert 0 < len(getattr(_times, f"{name}_OUT")) <= _times.MEMO_LIMIT
