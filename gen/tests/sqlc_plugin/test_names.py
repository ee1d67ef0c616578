"""The rules by which SQL names become Python names, as tables."""

import pytest

from sqlc_gen_asyncpg.names import class_name, enum_member, identifier, singular, snake_case


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("jobs", "Job"),
        ("schedules", "Schedule"),
        ("dispatch_control", "DispatchControl"),
        ("retry_policies", "RetryPolicy"),
        ("job_batches", "JobBatch"),
        ("addresses", "Address"),
        ("boxes", "Box"),
        ("leases", "Lease"),
        ("queue_status", "QueueStatus"),
        ("access", "Access"),
    ],
)
def test_class_of_a_table(table: str, name: str) -> None:
    assert class_name(singular(table)) == name


@pytest.mark.parametrize(
    ("query", "method"),
    [
        ("JobClaim", "job_claim"),
        ("job_claim", "job_claim"),
        ("JobGetByID", "job_get_by_id"),
        ("HTTPCheck", "http_check"),
        ("Top10Topics", "top10_topics"),
    ],
)
def test_method_of_a_query(query: str, method: str) -> None:
    assert snake_case(query) == method


@pytest.mark.parametrize(
    ("label", "member"),
    [
        ("PENDING", "PENDING"),
        ("dead-lettered", "DEAD_LETTERED"),
        ("2nd", "VALUE_2ND"),
        ("", "VALUE_"),
    ],
)
def test_member_of_an_enum(label: str, member: str) -> None:
    assert enum_member(label, taken=()) == member


def test_members_that_would_be_the_same_stay_apart() -> None:
    assert enum_member("in-use", taken={"IN_USE"}) == "IN_USE_"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("topic", "topic"),
        ("class", "class_"),
        ("count", "count_"),
        ("id", "id__"),
        ("+attempts", "attempts"),
        ("_hidden", "hidden"),
        ("?column?", "column"),
        ("1st", None),
        ("", None),
    ],
)
def test_identifier(name: str, expected: str | None) -> None:
    assert identifier(name, reserved={"count"}, taken={"id", "id_"}) == expected
