"""The embedded Postgres: a cluster in a data directory, run as a child of this process.

Postgres listens on no network address. Its socket lies in the cluster's folder, which only its
owner (and root) can enter: that is the access control, and why ``trust`` is safe behind it.

Three decisions are not obvious:

* **A killed pulsed takes its Postgres with it.** On Linux the kernel sends the child SIGINT (fast
  shutdown) when the thread that started it ends, kill -9 included; see ``embedded_child.py``. The
  next start still trusts nothing: ``postgres.lock`` is free only when the last Postgres process
  is gone, and until then the leftover is stopped, not joined: we can only watch our own child.
* **No folder of the user's is opened.** As root, Postgres runs as another user that may not be
  allowed to walk to the data directory (``/root``, a temporary directory). It need not: it starts
  inside its cluster and knows it as ``/proc/self/cwd``. Postgres before 16 insists on real paths.
* **The length of the path does not matter**, although a unix socket's address ends at 107 bytes:
  Postgres names its socket relative to the cluster, and for a long path we reach it
  through a symbolic link in a private temporary directory.

The one statement below is here and not in ``queries/``: it makes the database that queries need.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import NoReturn, Self
from urllib.parse import quote

import asyncpg

from pulsed.embedded_directory import DataDirectory, lock_within, try_lock
from pulsed.embedded_install import EmbeddedError, Install, prepare_install

__all__ = ["EmbeddedError", "EmbeddedPostgres", "default_data_dir"]

_DATABASE = "pulse"
_CHILD = Path(__file__).with_name("embedded_child.py")
_CONNECT_POLL = timedelta(milliseconds=10)
_GRACE = timedelta(seconds=5)
_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_directories": ".",
    "unix_socket_permissions": "0700",
    # Terse leaves out DETAIL, which quotes rows: a log never holds a job's payload.
    "log_error_verbosity": "terse",
}

_logger = logging.getLogger(__name__)


def default_data_dir() -> Path:
    """Where the data lives unless the settings say otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/pulse")
    data_home = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not data_home.is_absolute():  # unset, or to be ignored according to the XDG specification
        data_home = Path.home() / ".local" / "share"
    return data_home / "pulse"


class EmbeddedPostgres:
    """A Postgres of our own, running for as long as the ``async with`` block.

    Inside the block ``dsn`` leads to an existing database ``pulse``. Leaving it stops Postgres and
    waits for its last process. Whatever prevents the start is an ``EmbeddedError``.

    ``bin_dir`` names another Postgres' programs; ``settings`` are added to its configuration.
    The event loop's thread must live as long as the block: Postgres ends with that thread.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        bin_dir: Path | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        start_timeout: timedelta = timedelta(seconds=60),
        stop_timeout: timedelta = timedelta(seconds=30),
    ) -> None:
        self._directory = DataDirectory(data_dir)
        self._bin_dir = bin_dir
        self._settings = {**_SETTINGS, **settings}
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._stack: AsyncExitStack
        self._process: asyncio.subprocess.Process
        self._socket_dir: Path

    @property
    def dsn(self) -> str:
        """The address of the database ``pulse``, for asyncpg and libpq alike."""
        return self._dsn(_DATABASE)

    @property
    def pid(self) -> int:
        """The process id of the Postgres server."""
        return self._process.pid

    async def watch(self) -> NoReturn:
        """Wait until Postgres ends although nobody asked it to; then raise ``EmbeddedError``."""
        code = await self._process.wait()
        raise self._directory.explain(f"the embedded Postgres ended (code {code})")

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            try:
                await self._start(stack)
            except OSError as error:
                raise EmbeddedError(
                    f"the embedded Postgres cannot use {self._directory.path} ({error}): set"
                    " PULSE_DATA_DIR to a directory that pulsed may write, or PULSE_DATABASE_URL"
                ) from error
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def _start(self, stack: AsyncExitStack) -> None:
        directory = self._directory
        stack.enter_context(directory.owned())
        self._socket_dir = stack.enter_context(directory.reachable_socket_dir())
        install = await asyncio.to_thread(prepare_install, self._bin_dir, directory.cluster)
        directory.check_version(install.major)
        lock = await self._lock_cluster()
        try:
            directory.open_log()
            if not directory.is_initialised():
                await self._initialise(install, lock)
            settings = [f"--{name}={value}" for name, value in self._settings.items()]
            self._process = await self._run(install, "postgres", directory.cluster, settings, lock)
        finally:
            os.close(lock)  # from here on the Postgres processes alone hold it
        stack.push_async_callback(self._stop)
        await self._await_database()

    async def _lock_cluster(self) -> int:
        """The lock for a Postgres about to start; a killed pulsed' leftover is stopped first."""
        directory = self._directory
        if (lock := try_lock(directory.postgres_lock)) is not None:
            return lock
        pid = directory.postmaster_pid()
        for number, patience in ((signal.SIGINT, self._stop_timeout), (signal.SIGQUIT, _GRACE)):
            _logger.warning("stopping the Postgres (pid %s) that a killed pulsed left behind", pid)
            with suppress(ProcessLookupError):
                if pid is not None:  # None: it is an initdb, which soon ends
                    os.kill(pid, number)
            if (lock := await lock_within(directory.postgres_lock, patience)) is not None:
                return lock
        raise EmbeddedError(
            f"a Postgres that a killed pulsed left in {directory.path} does not stop:"
            f" end its process {pid or '(see fuser postgres.lock)'}"
        )

    async def _initialise(self, install: Install, lock: int) -> None:
        unfinished = self._directory.begin_cluster(install.account)
        options = ["--username=postgres", "--auth-local=trust", "--auth-host=reject"]
        options += ["--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions"]
        if install.major >= 17:  # upper and lower case for all letters, the same on every system
            options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        else:
            options.append("--lc-ctype=C.UTF-8")
        if self._settings.get("fsync") == "off":
            options.append("--no-sync")
        process = await self._run(install, "initdb", unfinished, options, lock)
        try:
            code = await process.wait()
        finally:
            with suppress(ProcessLookupError):  # there is one only when we are cancelled
                os.killpg(process.pid, signal.SIGKILL)
        if code != 0:
            raise self._directory.explain("initdb failed")
        unfinished.rename(self._directory.cluster)

    async def _run(
        self, install: Install, program: str, directory: Path, arguments: list[str], lock: int
    ) -> asyncio.subprocess.Process:
        """Start a program as the account, inside the directory, holding the lock.

        A session of its own keeps a terminal's Ctrl-C away: Postgres stops when the server has
        drained. The environment is bare: PG* variables would change Postgres, and our secrets are
        not its business.
        """
        account = install.account
        nameless = account.uid != os.geteuid() and install.major >= 16
        with self._directory.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _CHILD),
                *(str(account.uid), str(account.gid), str(os.getpid())),
                *(install.bin_dir / program, "-D", "/proc/self/cwd" if nameless else directory),
                *arguments,
                cwd=directory,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock,),
            )

    async def _await_database(self) -> None:
        """Wait until Postgres answers, and make the database if this is its first start."""
        seconds = self._start_timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                try:
                    connection = await self._connect(_DATABASE)
                except asyncpg.InvalidCatalogNameError:
                    connection = await self._connect("postgres")
                    await connection.execute(f"CREATE DATABASE {_DATABASE}")
                await connection.close()
        except TimeoutError:
            raise self._directory.explain(f"Postgres did not answer within {seconds:g} s") from None

    async def _connect(self, database: str) -> "asyncpg.Connection[asyncpg.Record]":
        not_yet = (OSError, asyncpg.CannotConnectNowError, asyncpg.ConnectionDoesNotExistError)
        while self._process.returncode is None:
            try:
                return await asyncpg.connect(self._dsn(database))
            except not_yet:
                await asyncio.sleep(_CONNECT_POLL.total_seconds())
        raise self._directory.explain("Postgres did not start")

    def _dsn(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={quote(str(self._socket_dir))}&port=5432"

    async def _stop(self) -> None:
        """Fast shutdown, then harder; return when every Postgres process has ended."""
        steps = (
            (signal.SIGINT, self._stop_timeout),
            (signal.SIGQUIT, _GRACE),
            (signal.SIGKILL, _GRACE),
        )
        for number, patience in steps:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            try:
                async with asyncio.timeout(patience.total_seconds()):
                    await self._process.wait()
                break
            except TimeoutError:
                _logger.warning("Postgres (pid %d) did not stop on %s", self.pid, number.name)
        if (lock := await lock_within(self._directory.postgres_lock, _GRACE)) is not None:
            os.close(lock)
