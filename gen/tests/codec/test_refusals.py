"""Messages that can't be written: CodecError, with the path to the field."""

from typing import Any

import pytest

from .reference import case

SINGULAR = case("golden.v1.Singular")
EXPLICIT = case("golden.v1.Explicit")
REPEATED = case("golden.v1.Repeated")
MAPS = case("golden.v1.Maps")
SUBMIT = case("pulse.v1.SubmitJobsRequest")
SUBMISSION = case("pulse.v1.JobSubmission")
OPTIONS = case("pulse.v1.JobOptions")

WRONG: dict[str, list[Any]] = {
    "int32": [2**31, -(2**31) - 1, 1.5, 1000.0, float("nan"), "1", "", None, [], {}],
    "int64": [2**63, -(2**63) - 1, 1.0, "1", b""],
    "uint32": [2**32, -1, 1.0, "1"],
    "uint64": [2**64, -1, 1.0, "1"],
    "sint32": [2**31, -(2**31) - 1, 1.0, "1"],
    "sint64": [2**63, -(2**63) - 1, 1.0, "1"],
    "fixed32": [2**32, -1, 1.0, "1"],
    "fixed64": [2**64, -1, 1.0, "1"],
    "sfixed32": [2**31, -(2**31) - 1, 1.0, "1"],
    "sfixed64": [2**63, -(2**63) - 1, 1.0, "1"],
    "float": [1e39, "1.0", [], b""],
    "double": ["1.0", [], b"", 1j],
    "bool": [1, 0, 2, "no", "", [], 1.0],
    "string": ["\ud800", "a\udfff", b"a", b"", 1, 0, ["a"]],
    "bytes": ["a", "", 5, 0, [1, 2], [b"a"]],
    "color": [2**31, -(2**31) - 1, "COLOR_RED", 1.0, []],
    "part": ["a", 1, {}, b"", SINGULAR.cls(), SINGULAR.cls],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG.items() for value in values],
    ids=repr,
)
def test_a_wrong_value_is_refused_by_name(name: str, value: Any) -> None:
    for of, held in ((SINGULAR, value), (EXPLICIT, value), (REPEATED, [value])):
        if value is None and of is EXPLICIT:
            continue  # not set
        with pytest.raises(of.error) as refusal:
            of.encode(of.cls(**{name: held}))
        path = f"{name}[0]" if of is REPEATED else name
        assert str(refusal.value).startswith(f"field {path}: "), str(refusal.value)


@pytest.mark.parametrize("value", ["abc", b"abc", {"a": 1}, {"a"}, 5], ids=repr)
def test_only_a_list_is_a_list(value: Any) -> None:
    with pytest.raises(REPEATED.error, match=r"^field string: "):
        REPEATED.encode(REPEATED.cls(string=value))


def test_wrong_keys_and_values_of_maps_are_refused() -> None:
    with pytest.raises(MAPS.error, match=r"^field string\['k'\]: "):
        MAPS.encode(MAPS.cls(string={"a": True, "k": "yes"}))
    with pytest.raises(MAPS.error, match=r"^field string\[5\]: "):
        MAPS.encode(MAPS.cls(string={5: True}))
    with pytest.raises(MAPS.error, match=r"^field string: "):
        MAPS.encode(MAPS.cls(string=[("k", True)]))


def test_the_path_leads_through_lists_and_messages() -> None:
    good = SUBMISSION.cls(topic="t", options=OPTIONS.cls(priority=1))
    bad = SUBMISSION.cls(topic="t", options=OPTIONS.cls(priority=2**40))
    with pytest.raises(SUBMIT.error) as refusal:
        SUBMIT.encode(SUBMIT.cls(jobs=[good, good, bad, good]))
    reason = "1099511627776 is out of range for int32"
    assert str(refusal.value) == f"field jobs[2].options.priority: {reason}"


def test_the_path_leads_into_maps() -> None:
    bad = SUBMISSION.cls(options=OPTIONS.cls(metadata={"a": "b", "c": "\ud800"}))
    with pytest.raises(SUBMIT.error) as refusal:
        SUBMIT.encode(SUBMIT.cls(jobs=[bad]))
    reason = "text that has no UTF-8 form"
    assert str(refusal.value) == f"field jobs[0].options.metadata['c']: {reason}"


def test_a_message_of_another_class_is_refused() -> None:
    with pytest.raises(SUBMIT.error, match=r"^field jobs\[0\]: .*JobOptions.*JobSubmission"):
        SUBMIT.encode(SUBMIT.cls(jobs=[OPTIONS.cls()]))
    for wrong in (OPTIONS.cls(priority=1), None, "a", SUBMIT.cls):
        with pytest.raises(SUBMIT.error, match=r"expected SubmitJobsRequest$"):
            SUBMIT.encode(wrong)


def test_two_members_of_a_oneof_are_refused() -> None:
    of = case("golden.v1.Choices")
    with pytest.raises(of.error, match=r"^both int32 and double of oneof first are set$"):
        of.encode(of.cls(int32=0, double=0.0))
    assert of.encode(of.cls(int32=0, string="")) == b"\x10\x00\x2a\x00"


def test_the_text_of_a_refusal_does_not_show_a_payload() -> None:
    with pytest.raises(SUBMISSION.error) as refusal:
        SUBMISSION.encode(SUBMISSION.cls(payload="secret"))
    assert "secret" not in str(refusal.value)


def test_a_class_derived_from_a_message_is_a_message() -> None:
    class Mine(SUBMISSION.cls):  # type: ignore[misc, name-defined]
        pass

    assert SUBMISSION.encode(Mine(topic="t")) == SUBMISSION.encode(SUBMISSION.cls(topic="t"))
