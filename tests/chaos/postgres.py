"""Postgres clusters that can be killed, restarted, copied and promoted."""

import asyncio
import os
import signal
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import asyncpg

from chaos.oracle import PATIENCE
from chaos.proxy import Proxy
from pulsed.embedded import EmbeddedPostgres
from pulsed.embedded_install import prepare_install

# Processes are killed here, the machine is not: what was written stays, synced or not. Commits are synchronous.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on"}


class Cluster:
    """One Postgres, and a port of this machine that leads to it whether it runs or not."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self._directory = directory
        self._settings = SETTINGS | settings
        self._postgres: EmbeddedPostgres
        self._stack = AsyncExitStack()
        self.socket = directory / "pgdata" / ".s.PGSQL.5432"
        self.proxy = Proxy(self.socket)

    @property
    def dsn(self) -> str:
        """By its port."""
        return self.dsn_through(self.proxy)

    def dsn_through(self, wire: Proxy) -> str:
        """By another way to its socket."""
        return f"postgresql://postgres@{wire.address}/pulse"

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.proxy)
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._postgres.__aexit__(kind, error, traceback)
        await self._stack.aclose()

    async def start(self) -> None:
        """Starts it, or starts it again: then it recovers first."""
        self._postgres = await EmbeddedPostgres(self._directory, settings=self._settings).__aenter__()

    async def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends it without a chance to save anything: SIGKILL for the postmaster, or SIGQUIT, the immediate stop."""
        os.kill(self._postgres.pid, number)
        await self._postgres.__aexit__(None, None, None)

    async def copy(self, directory: Path) -> "Cluster":
        """A standby of this one, yet to be started."""
        await asyncio.to_thread(self._copy, directory / "pgdata")
        return Cluster(directory, **self._settings)

    def _copy(self, target: Path) -> None:
        install = prepare_install(None, self._directory / "pgdata")
        target.parent.mkdir()
        source = ("-h", "127.0.0.1", "-p", str(self.proxy.port), "-U", "postgres")
        command = (install.bin_dir / "pg_basebackup", *source, "-D", target, "-R", "-c", "fast")
        subprocess.run(command, check=True, capture_output=True)
        (target / ".s.PGSQL.5432.lock").unlink()  # of the socket, which is not copied
        for path in (target, *target.rglob("*")):
            os.chown(path, install.account.uid, install.account.gid)

    async def execute(self, statement: str) -> None:
        """Runs a statement outside of any transaction."""
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def await_standby(self) -> None:
        """From here on, a commit is acknowledged when the standby has it too."""
        await self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await self.execute("SELECT pg_reload_conf()")
        connection = await asyncpg.connect(self.dsn)
        is_synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        try:
            async with asyncio.timeout(PATIENCE):
                while not await connection.fetchval(is_synchronous):
                    await asyncio.sleep(0.05)
        finally:
            await connection.close()
