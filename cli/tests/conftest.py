"""The program as people and scripts run it, on a real server: one for most modules, so that it stays quick."""

import asyncio
import codecs
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

import pulse
from support.postgres import Databases
from support.program import running_pulsed

PATIENCE = 30.0
Result = TypeVar("Result")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Done:
    """A run that ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The output, read as one JSON document."""
        return json.loads(self.out)

    def lines(self) -> list[Any]:
        """The output, read as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Terminal:
    """A run on a terminal: what it shows is read, what a person types is sent."""

    def __init__(self, command: list[str], env: dict[str, str], columns: int) -> None:
        self._own, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**env, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40"},
            start_new_session=True,
        )
        os.close(theirs)
        # What is read at once may end within a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.raw = ""

    @property
    def text(self) -> str:
        """What was shown, without colours and movements."""
        return ESCAPES.sub("", self.raw).replace("\r\n", "\n")

    def expect(self, text: str, times: int = 1) -> None:
        """Read until this was shown so often."""
        deadline = time.monotonic() + PATIENCE
        while self.text.count(text) < times:
            assert self._read(deadline), f"{text!r} was not shown, but:\n{self.text}"

    def send(self, text: str) -> None:
        """Type a line."""
        os.write(self._own, f"{text}\n".encode())

    def wait(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """End what is left of it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._own)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._own], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more in {PATIENCE} s after:\n{self.text}"
        try:
            chunk = os.read(self._own, 65536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.raw += self._decoder.decode(chunk)
        return bool(chunk)


@dataclass
class Program:
    """`pulse`, with an environment of its own."""

    home: Path
    env: dict[str, str]
    terminals: list[Terminal] = field(default_factory=list)

    @property
    def config(self) -> Path:
        """Where profiles are kept."""
        return self.home / ".config" / "pulse" / "config.json"

    def environment(self, env: dict[str, str | None] | None = None) -> dict[str, str]:
        """The environment of a run; None takes a variable out."""
        return {name: value for name, value in {**self.env, **(env or {})}.items() if value is not None}

    def command(self, *arguments: str) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "pulse_cli", *arguments]

    def run(self, *arguments: str, stdin: str | bytes = b"", env: dict[str, str | None] | None = None) -> Done:
        """To its end, off a terminal. No run may ever show a traceback."""
        content = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            self.command(*arguments),
            input=content,
            capture_output=True,
            env=self.environment(env),
            timeout=PATIENCE,
            check=False,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in err, err
        return Done(done.returncode, out, err)

    def ok(self, *arguments: str, **options: Any) -> Done:
        """A run that must succeed."""
        done = self.run(*arguments, **options)
        assert done.code == 0, (arguments, done)
        return done

    def refused(self, code: int, *arguments: str, **options: Any) -> str:
        """A run that must fail with this code and one line, which is returned."""
        done = self.run(*arguments, **options)
        assert done.code == code, (arguments, done)
        assert done.err.startswith("error: "), done
        assert done.err.count("\n") == 1, done
        assert done.err.endswith("\n"), done
        return done.err

    def json(self, *arguments: str, **options: Any) -> Any:
        """What a run prints with -o json."""
        return self.ok(*arguments, "-o", "json", **options).json()

    def on_terminal(self, *arguments: str, columns: int = 100, env: dict[str, str | None] | None = None) -> Terminal:
        """On a terminal, for a person."""
        terminal = Terminal(self.command(*arguments), self.environment(env), columns)
        self.terminals.append(terminal)
        return terminal

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """A run that goes on, off a terminal."""
        return subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(),
            text=True,
        )

    def submit(self, topic: str, payload: str = "{}", *options: str) -> str:
        """A job; its id."""
        return self.ok("submit", topic, payload, *options).out.strip()


class Hands:
    """The SDK beside the program: for what a test needs and is not about, without another process."""

    def __init__(self, background: "Background", address: str) -> None:
        self._background = background
        self._client = pulse.Pulse(address)

    def submit(self, topic: str, args: object = None, **options: Any) -> str:
        """A job; its id."""
        return self._background.run(self._client.enqueue(topic, args, **options))

    def job(self, job_id: str) -> pulse.JobInfo:
        """The job as it stands."""
        return self._background.run(self._client.get_job(job_id))

    def until_counted(self, topic: str, **counts: int) -> None:
        """Wait until the figures of a topic are these: the server's are up to a second old, and have no signal."""

        async def look() -> None:
            async with asyncio.timeout(PATIENCE):
                while True:
                    # A topic that has nothing any more may be left out.
                    listed = {each.name: each for each in await self._client.topics()}
                    if counts == {name: getattr(listed.get(topic), name, 0) for name in counts}:
                        return
                    await asyncio.sleep(0.05)

        self._background.run(look())

    def statuses(self, *jobs: str) -> list[str]:
        """Where jobs are."""
        return [str(self.job(job).status) for job in jobs]

    def close(self) -> None:
        """Close the connection."""
        self._background.run(self._client.close())


class Background:
    """An event loop in a thread, for servers and workers that run beside the test."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="background")

    def __enter__(self) -> "Background":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine to its end."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    @contextmanager
    def using(self, manager: AbstractAsyncContextManager[Result]) -> Iterator[Result]:
        """An async context manager in a plain test."""
        value = self.run(manager.__aenter__())
        try:
            yield value
        finally:
            self.run(manager.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def background() -> Iterator[Background]:
    """The loop beside the tests."""
    with Background() as background:
        yield background


@pytest.fixture(scope="session")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all runs of all workers keep their bytecode: users have it, and it makes a start three times as fast."""
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(directory / "bytecode"))
        yield directory / "bytecode"


@pytest.fixture(scope="session")
def start_server(databases: Databases, background: Background, bytecode: Path) -> Iterator[Callable[..., str]]:
    """Starts `pulsed` on a database of its own; its address."""
    with ExitStack() as stack:

        def start(**settings: Any) -> str:
            dsn = stack.enter_context(databases.migrated())
            return stack.enter_context(background.using(running_pulsed(dsn=dsn, **settings))).address

        yield start


@pytest.fixture(scope="session")
def shared_server(start_server: Callable[..., str]) -> str:
    """Open to everybody."""
    return start_server()


@pytest.fixture(scope="module")
def server(shared_server: str) -> str:
    """The server of a module's tests; modules that look at everything in it have one of their own."""
    return shared_server


@pytest.fixture(scope="module")
def hands(background: Background, server: str) -> Iterator[Hands]:
    """The SDK on the module's server."""
    hands = Hands(background, server)
    yield hands
    hands.close()


@pytest.fixture
def stranger(tmp_path: Path, bytecode: Path) -> Iterator[Program]:
    """The program on a machine where nothing is set up."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PULSE_", "XDG_"))}
    for name in ("NO_COLOR", "COLUMNS"):
        env.pop(name, None)
    program = Program(tmp_path, {**env, "HOME": str(tmp_path)})
    yield program
    for terminal in program.terminals:
        terminal.close()


@pytest.fixture
def program(stranger: Program, server: str) -> Program:
    """The program with PULSE_ADDR set to the module's server."""
    stranger.env["PULSE_ADDR"] = server
    return stranger


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own: the server is shared."""
    return re.sub(r"\W+", "-", request.node.name)[-60:]


Handler = Callable[[pulse.Job], Any]


@pytest.fixture
def working(background: Background, server: str) -> Callable[..., Any]:
    """`with working({"topic": handler}):` a worker runs meanwhile."""

    @contextmanager
    def work(handlers: dict[str, Handler], **options: Any) -> Iterator[None]:
        with background.using(_worker(server, handlers, options)):
            yield

    return work


def _worker(server: str, handlers: dict[str, Handler], options: dict[str, Any]) -> AbstractAsyncContextManager[None]:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def run() -> AsyncIterator[None]:
        async with pulse.Pulse(server, **options) as client:
            for name, handler in handlers.items():
                client.register(name, handler)
            worker = asyncio.create_task(client.run(handle_signals=False))
            async with asyncio.timeout(PATIENCE):
                while not any(set(handlers) <= set(each.topics) for each in await client.workers()):
                    await asyncio.sleep(0.02)
            yield
            client.stop()
            await worker

    return run()


@pytest.fixture
def interrupt() -> Callable[["subprocess.Popen[str]"], tuple[int, str]]:
    """Ctrl-C; the exit code and what was said."""

    def send(process: "subprocess.Popen[str]") -> tuple[int, str]:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        return process.returncode, err

    return send
