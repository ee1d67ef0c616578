"""What lies in the embedded Postgres' data directory, and who may use it. Files only, no process.

* ``pulsed.lock``: held by the pulsed that uses the directory
* ``postgres.lock``: held by the Postgres processes themselves, which inherit it
* ``postgres.log``: what Postgres says
* ``pgdata/``: the cluster, and its unix socket
"""

import asyncio
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from pulsed.embedded_install import Account, EmbeddedError

_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_ADDRESS_BYTES = 103  # macOS ends there, Linux at 107
_LOG_KEPT_BYTES = 10_000_000
_LOCK_POLL = timedelta(milliseconds=10)


class DataDirectory:
    """The folder that one pulsed keeps its Postgres in."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.cluster = self.path / "pgdata"
        self.log = self.path / "postgres.log"
        self.postgres_lock = self.path / "postgres.lock"
        self._log_start = 0

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Make the directory and keep every other pulsed out of it; a killed one holds nothing."""
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / "pulsed.lock"
        lock = try_lock(path)
        if lock is None:
            raise EmbeddedError(
                f"another pulsed (pid {path.read_text() or 'unknown'}) uses {self.path}:"
                " stop it, or set PULSE_DATA_DIR to another directory"
            )
        try:
            os.truncate(lock, 0)
            os.write(lock, str(os.getpid()).encode())
            yield
        finally:
            os.close(lock)

    def is_initialised(self) -> bool:
        """Whether there is a cluster; one that was never finished does not count."""
        return (self.cluster / "PG_VERSION").exists()

    def check_version(self, major: int) -> None:
        """Refuse a cluster of another Postgres: the formats differ between major versions."""
        if not self.is_initialised():
            return
        found = (self.cluster / "PG_VERSION").read_text().strip()
        if found != str(major):
            raise EmbeddedError(
                f"{self.cluster} was made by Postgres {found} and this is Postgres {major}: move"
                " its content with pg_dump, or set PULSE_DATA_DIR to another directory"
            )

    def begin_cluster(self, account: Account) -> Path:
        """An empty folder for initdb, under another name until it is whole."""
        unfinished = self.path / "pgdata.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        os.chown(unfinished, account.uid, account.gid)
        return unfinished

    def postmaster_pid(self) -> int | None:
        """The process id that the last Postgres wrote down, or None after a clean stop."""
        try:
            return int((self.cluster / "postmaster.pid").read_text().split()[0])
        except (FileNotFoundError, IndexError):
            return None

    @contextmanager
    def reachable_socket_dir(self) -> Iterator[Path]:
        """The cluster, or for a path that no socket address can hold, a short link to it."""
        length = len(os.fsencode(self.cluster / _SOCKET_NAME))
        if length <= _SOCKET_ADDRESS_BYTES and "," not in str(self.cluster):  # comma: two hosts
            yield self.cluster
            return
        with TemporaryDirectory(prefix="pulse-") as private:  # mode 0700
            link = Path(private, "pgdata")
            link.symlink_to(self.cluster)
            yield link

    def open_log(self) -> None:
        """Begin a run's part of the log; the log of long ago is dropped."""
        if self.log.exists() and self.log.stat().st_size > _LOG_KEPT_BYTES:
            self.log.replace(self.log.with_name("postgres.log.1"))
        self.log.touch(mode=0o600)
        self._log_start = self.log.stat().st_size

    def explain(self, summary: str) -> EmbeddedError:
        """An error of one line: the summary, and the last that Postgres said in this run."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read()[-2000:].decode(errors="replace").splitlines()
        return EmbeddedError(" | ".join([f"{summary}: see {self.log}", *lines[-4:]]))


def try_lock(path: Path) -> int | None:
    """An open descriptor that holds the lock, or None while another process does."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


async def lock_within(path: Path, patience: timedelta) -> int | None:
    """``try_lock``, again and again until the patience ends."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience.total_seconds()):
            # Nothing tells when a file lock becomes free.
            while (lock := try_lock(path)) is None:  # noqa: ASYNC110
                await asyncio.sleep(_LOCK_POLL.total_seconds())
            return lock
    return None
