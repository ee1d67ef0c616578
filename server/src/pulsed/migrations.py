"""The schema, moved forward: numbered SQL files, applied in order, once each.

``migrations/NNNN_name.sql`` at the repository's root is the source; inside the package the same
folder is ``pulsed/schema``. There is no way back: a mistake is mended by the next file.

* One migration is one transaction, its row in ``schema_migrations`` written first, so a migration
  is applied whole or not at all. ``CREATE INDEX CONCURRENTLY`` can therefore not be in a file.
* Replicas that start together take turns by an advisory lock of that transaction: the first one
  applies, the others wait and find nothing to do. A lock of the session would be simpler and
  would break behind pgbouncer in transaction mode, where a session changes its connection.
* A file that was applied is never edited: its checksum is on record and is compared every time.

The statements below are the exception to "SQL lives in queries/": they make the table that tells
which schema there is, so nothing generated from the schema can be used to run them.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, TypeAlias

import asyncpg

from pulsed.errors import StartupError

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

_LOCK_KEY = 0x70756C7365  # "pulse": the same for every version of the program, for ever
_TURN_TIMEOUT = timedelta(minutes=10)
# A change that waits for a table makes everyone behind it wait: better to give up and try again.
_TABLE_LOCK_TIMEOUT = timedelta(seconds=30)
_NO_HURRY = timedelta(days=1)

_SET_LOCAL = "SELECT set_config($1, $2, true)"
_TAKE_TURN = "SELECT pg_advisory_xact_lock($1)"
_TABLE_EXISTS = "SELECT to_regclass('schema_migrations') IS NOT NULL"
_CREATE_TABLE = """
    CREATE TABLE IF NOT EXISTS schema_migrations (
        version    integer PRIMARY KEY,
        name       text NOT NULL,
        checksum   text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )"""
_READ = "SELECT version, name, checksum, applied_at FROM schema_migrations ORDER BY version"
_RECORD = "INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)"

_FILE_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class MigrationError(StartupError):
    """The schema cannot be what this program needs; the text is one line that says why."""


@dataclass(frozen=True)
class Migration:
    """One file."""

    version: int
    name: str
    sql: str

    @property
    def file_name(self) -> str:
        return f"{self.version:04}_{self.name}.sql"

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True)
class AppliedMigration:
    """One row of ``schema_migrations``."""

    version: int
    name: str
    checksum: str
    applied_at: datetime


@dataclass(frozen=True)
class MigrationStatus:
    """What the database has, and what this program would add to it."""

    applied: tuple[AppliedMigration, ...]
    pending: tuple[Migration, ...]

    @property
    def version(self) -> int:
        """The schema's version; 0 for an empty database."""
        return self.applied[-1].version if self.applied else 0


def load_migrations(directory: Traversable | None = None) -> tuple[Migration, ...]:
    """Read the package's migrations, or a directory's; refuse gaps, doubles and stray names."""
    directory = directory or files("pulsed") / "schema"
    migrations = []
    for path in directory.iterdir():
        if not path.name.endswith(".sql"):
            continue
        match = _FILE_NAME.fullmatch(path.name)
        if match is None:
            raise MigrationError(f"{path.name} is not named as a migration: use NNNN_name.sql")
        migrations.append(Migration(int(match[1]), match[2], path.read_text(encoding="utf-8")))
    migrations.sort(key=lambda migration: (migration.version, migration.name))
    for expected, migration in enumerate(migrations, start=1):
        if migration.version < expected:
            double = migrations[expected - 2].file_name
            raise MigrationError(f"{double} and {migration.file_name} share a number: rename one")
        if migration.version > expected:
            raise MigrationError(f"there is no migration {expected:04}: name the files in sequence")
    if not migrations:
        raise MigrationError(f"there are no migrations in {directory}: install pulse-server again")
    return tuple(migrations)


async def status(connection: "Connection", migrations: Sequence[Migration] | None = None) -> MigrationStatus:
    """Compare the database with the program. Reads only, and refuses nothing."""
    if migrations is None:
        migrations = load_migrations()
    applied: tuple[AppliedMigration, ...] = ()
    if await connection.fetchval(_TABLE_EXISTS):
        try:
            applied = tuple(AppliedMigration(**row) for row in await connection.fetch(_READ))
        except asyncpg.UndefinedColumnError as error:
            raise MigrationError(
                "the table schema_migrations belongs to another program:"
                " give pulse a database of its own, or a schema through search_path"
            ) from error
    known = {row.version for row in applied}
    return MigrationStatus(applied, tuple(m for m in migrations if m.version not in known))


async def check(connection: "Connection", migrations: Sequence[Migration] | None = None) -> None:
    """Raise unless the database's schema is exactly the one that this program knows."""
    if migrations is None:
        migrations = load_migrations()
    found = await status(connection, migrations)
    _refuse_unknown(found, migrations)
    if found.pending:
        raise MigrationError(
            f"the database's schema ({found.version}) is older than this program needs"
            f" ({migrations[-1].version}): run `pulsed migrate`"
        )


async def migrate(connection: "Connection", migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """Apply what is missing, each file in its own transaction; return what was applied here.

    The connection must not be in a transaction. Any number of processes may do this at once.
    """
    if migrations is None:
        migrations = load_migrations()
    applied = []
    while (migration := await _apply_next(connection, migrations)) is not None:
        applied.append(migration)
    return applied


async def _apply_next(connection: "Connection", migrations: Sequence[Migration]) -> Migration | None:
    # Read committed, whatever the database's default: what we read after the wait must be new.
    async with connection.transaction(isolation="read_committed"):
        await _take_turn(connection)
        if not await connection.fetchval(_TABLE_EXISTS):
            await connection.execute(_CREATE_TABLE)
        found = await status(connection, migrations)
        _refuse_unknown(found, migrations)
        if not found.pending:
            return None
        migration = found.pending[0]
        await connection.execute(_RECORD, migration.version, migration.name, migration.checksum)
        with _named_in_errors(migration):
            await connection.execute(migration.sql, timeout=_NO_HURRY.total_seconds())
        return migration


async def _take_turn(connection: "Connection") -> None:
    """Wait until no other process migrates this database; the turn ends with the transaction."""
    await connection.execute(_SET_LOCAL, "statement_timeout", "0")
    await connection.execute(_SET_LOCAL, "lock_timeout", _milliseconds(_TURN_TIMEOUT))
    try:
        await connection.execute(_TAKE_TURN, _LOCK_KEY, timeout=_NO_HURRY.total_seconds())
    except asyncpg.LockNotAvailableError as error:
        raise MigrationError(
            f"another process has been migrating this database for {_TURN_TIMEOUT}:"
            " look for it in pg_stat_activity, then start again"
        ) from error
    await connection.execute(_SET_LOCAL, "lock_timeout", _milliseconds(_TABLE_LOCK_TIMEOUT))


def _milliseconds(duration: timedelta) -> str:
    return str(duration // timedelta(milliseconds=1))


def _refuse_unknown(found: MigrationStatus, migrations: Sequence[Migration]) -> None:
    """Refuse a schema that a newer program made, or that other files than ours made."""
    newest = migrations[-1].version
    if found.version > newest:
        raise MigrationError(
            f"the database's schema ({found.version}) is newer than this program knows ({newest}): upgrade pulsed"
        )
    by_version = {migration.version: migration for migration in migrations}
    for row in found.applied:
        migration = by_version[row.version]
        if row.checksum != migration.checksum:
            raise MigrationError(
                f"{migration.file_name} is not the file that was applied to this database on"
                f" {row.applied_at:%Y-%m-%d}: restore it, and put the change into a new migration"
            )


@contextmanager
def _named_in_errors(migration: Migration) -> Iterator[None]:
    try:
        yield
    except asyncpg.PostgresError as error:
        position = getattr(error, "position", None)
        before = migration.sql[: int(position) - 1] if position else ""
        line = f" line {before.count(chr(10)) + 1}" if position else ""
        message = str(error).splitlines()[0]
        raise MigrationError(f"{migration.file_name}{line}: {message}; nothing of this file was applied") from error
