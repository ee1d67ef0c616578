"""Which comments belong to a query, and where its file is."""

from pathlib import Path

import pytest

from sqlc_gen_asyncpg.errors import GenerationError
from sqlc_gen_asyncpg.query_file import count_comments_apart, read_query_file


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("-- name: A :one\nSELECT 1;", {"A": 0}),
        ("-- file\n\n-- name: A :one\nSELECT 1;", {"A": 1}),
        ("-- file\n--\n-- more\n\n\n-- A's\n-- name: A :one\nSELECT 1;", {"A": 3}),
        ("-- A's\n-- name: A :one\n-- A's\nSELECT 1;", {"A": 0}),
        ("-- name: A :one\n-- A's\n\nSELECT 1;\n-- B's\n-- name: B :one\nSELECT 2;", {"A": 0, "B": 0}),
        ("-- name: A :one\nSELECT -- in A\n  1;\n\n-- part two\n\n-- name: B :one\n", {"A": 0, "B": 1}),
    ],
)
def test_comments_set_off_by_a_blank_line_are_counted(text: str, counts: dict[str, int]) -> None:
    assert count_comments_apart(text) == counts


def test_file_is_found_in_one_of_several_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "more").mkdir()
    for path in ("alone.sql", "more/jobs.sql"):
        (tmp_path / path).write_text("-- name: A :one\nSELECT 1;")
    monkeypatch.chdir(tmp_path)
    assert read_query_file("jobs.sql", ["alone.sql", "more/"]).path == "more/jobs.sql"
    assert read_query_file("alone.sql", ["alone.sql", "more/"]).path == "alone.sql"
    with pytest.raises(GenerationError, match=r"lost\.sql: not found"):
        read_query_file("lost.sql", ["alone.sql", "more/"])
