"""What cannot become code stops the generation with one clear line, and nothing is written."""

from pathlib import Path

import pytest
from sqlc_runner import Outcome, Package, run_sqlc

SCHEMA = """
CREATE TYPE job_status AS ENUM ('PENDING', 'RUNNING');
CREATE TABLE jobs (id uuid NOT NULL PRIMARY KEY, topic text NOT NULL, worker_id uuid);
"""

FINE = "-- name: Fine :many\nSELECT id FROM jobs;"

# A query that cannot become code, and the end of the line that says so.
BROKEN_QUERIES = {
    "command": (
        "-- name: Broken :execresult\nDELETE FROM jobs;",
        "command :execresult is not supported, use one of :one, :many, :exec, :execrows",
    ),
    "copy_command": (
        "-- name: Broken :copyfrom\nINSERT INTO jobs (id, topic) VALUES ($1, $2);",
        "command :copyfrom is not supported, use one of :one, :many, :exec, :execrows",
    ),
    "type_of_a_column": (
        "-- name: Broken :many\nSELECT id, now()::timestamp AS at FROM jobs;",
        "column 'at': type 'timestamp' is not supported",
    ),
    "type_of_a_parameter": (
        "-- name: Broken :exec\nDELETE FROM jobs WHERE @address::inet IS NULL;",
        "parameter 'address': type 'inet' is not supported",
    ),
    "guessed_type": (
        "-- name: Broken :many\nSELECT id, now() + interval '1 second' AS later FROM jobs;",
        "column 'later': sqlc does not know the type (its guess is 'int'), add a ::cast",
    ),
    "unknown_type": (
        "-- name: Broken :many\nSELECT t.topic FROM unnest(@topics::text[]) AS t(topic);",
        "column 'topic': sqlc does not know the type (its guess is 'any'), add a ::cast",
    ),
    "array_of_arrays": (
        "-- name: Broken :exec\nDELETE FROM jobs WHERE @grid::text[][] IS NULL;",
        "parameter 'grid': text[][] is not supported, arrays have one dimension",
    ),
    "embed": (
        "-- name: Broken :many\nSELECT sqlc.embed(jobs), 1::int AS one FROM jobs;",
        "column 'jobs': sqlc.embed and sqlc.slice are not supported",
    ),
    "slice": (
        "-- name: Broken :many\nSELECT id FROM jobs WHERE topic IN (sqlc.slice('topics'));",
        "parameter 'topics': sqlc.embed and sqlc.slice are not supported",
    ),
    "nameless_parameter": (
        "-- name: Broken :exec\nDELETE FROM jobs WHERE $1::text[] IS NULL;",
        "parameter $1 has no usable name, write @name",
    ),
    "nameless_column": (
        "-- name: Broken :many\nSELECT id, 1::int FROM jobs;",
        "column 2 has no usable name, write AS name",
    ),
    "nullable_column_that_is_not_there": (
        "-- name: Broken :many\n-- nullable: topics\nSELECT topic FROM jobs;",
        "nullable: no result column is named 'topics'",
    ),
    "nullable_parameter": (
        "-- name: Broken :exec\n-- nullable: id\nDELETE FROM jobs WHERE id = @id;",
        "nullable: no result column is named 'id' (for a parameter use sqlc.narg)",
    ),
    "nullable_elements_of_what_is_no_array": (
        "-- name: Broken :exec\n-- nullable elements: id\nDELETE FROM jobs WHERE id = @id;",
        "nullable elements: no array is named 'id'",
    ),
    "method_that_exists": (
        "-- name: Bro_ken :exec\nDELETE FROM jobs;\n-- name: BroKen :exec\nDELETE FROM jobs;",
        "another query is the method bro_ken",
    ),
}

# The whole line, with `where` for the folder of the case.
BROKEN_PACKAGES = {
    "type_of_a_table": (
        Package(SCHEMA + "CREATE TABLE hosts (address inet);", {"fine.sql": FINE}),
        "where/schema.sql: table hosts: column 'address': type 'inet' is not supported",
    ),
    "name_of_a_column": (
        Package(SCHEMA + 'CREATE TABLE hosts ("1st" text);', {"fine.sql": FINE}),
        "where/schema.sql: table hosts: column '1st' gives no Python name",
    ),
    "two_classes_of_one_name": (
        Package(SCHEMA + "CREATE SCHEMA other; CREATE TABLE other.jobs (id uuid);", {"fine.sql": FINE}),
        "where/schema.sql: two tables or enums would be the class Job, rename one",
    ),
    "query_file_called_as_our_module": (
        Package(SCHEMA, {"models.sql": FINE}),
        "where/queries/models.sql: no module can be named after this file, rename it",
    ),
    "unknown_option": (
        Package(SCHEMA, {"fine.sql": FINE}, options="{emit_sync_querier: true}"),
        "sqlc.yaml: unknown option 'emit_sync_querier': sqlc_gen_asyncpg takes none",
    ),
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """All broken packages through one run of sqlc: it reports each by itself."""
    packages = {
        name: Package(SCHEMA, {"fine.sql": FINE, "broken.sql": query}) for name, (query, _) in BROKEN_QUERIES.items()
    }
    packages |= {name: package for name, (package, _) in BROKEN_PACKAGES.items()}
    return run_sqlc(packages, tmp_path_factory.mktemp("refusals"))


def assert_refused(outcome: Outcome, package: str, line: str) -> None:
    assert f" {line}\n" in outcome.stderr
    assert outcome.files(package) == {}


@pytest.mark.parametrize("name", BROKEN_QUERIES)
def test_query_is_refused(outcome: Outcome, name: str) -> None:
    query, why = BROKEN_QUERIES[name]
    query_name = "BroKen" if "BroKen" in query else "Broken"
    assert_refused(outcome, name, f"{name}/queries/broken.sql: {query_name}: {why}")


@pytest.mark.parametrize("name", BROKEN_PACKAGES)
def test_package_is_refused(outcome: Outcome, name: str) -> None:
    _, line = BROKEN_PACKAGES[name]
    assert_refused(outcome, name, line.replace("where", name, 1))


def test_refusal_is_one_line_and_fails_the_run(tmp_path: Path) -> None:
    query = "-- name: Broken :execresult\nDELETE FROM jobs;"
    outcome = run_sqlc({"only": Package(SCHEMA, {"broken.sql": query})}, tmp_path)
    assert outcome.status != 0
    title, line = outcome.stderr.split("\n", 1)
    assert title == "# package asyncpg"
    assert "Broken: command :execresult is not supported" in line
    assert line.strip().count("\n") == 0
