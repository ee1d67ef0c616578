"""A TCP proxy on loopback that forwards until it is told to misbehave."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

# A port of this machine, or a unix socket.
Target = int | Path

CHUNK = 1 << 16


class Proxy:
    """Each new connection goes to the next target that takes it."""

    def __init__(self, *targets: Target) -> None:
        self._targets: Sequence[Target] = targets
        self._next = 0
        self._to_target = asyncio.Event()
        self._to_client = asyncio.Event()
        self._markers: tuple[bytes, ...] = ()
        # Set when something is kept from somebody.
        self.withholding = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.port: int
        self.thaw()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=2048)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        await self.cut()

    @property
    def address(self) -> str:
        """For clients."""
        return f"127.0.0.1:{self.port}"

    def freeze(self) -> None:
        """A black hole: nothing passes in either direction, new connections neither, and nobody is told."""
        self._to_target.clear()
        self._to_client.clear()

    def freeze_answers(self, *markers: bytes) -> None:
        """Half a black hole: what clients send arrives, what they are answered does not.

        With markers it begins when one connection has sent all of them, one after the other.
        """
        self._markers = markers
        if not markers:
            self._to_client.clear()

    def thaw(self) -> None:
        """Forwards again, what was kept first."""
        self.withholding.clear()
        self._markers = ()
        self._to_target.set()
        self._to_client.set()

    async def cut(self) -> None:
        """Ends every connection. What was kept is lost."""
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        if connections:
            await asyncio.wait(connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            await self._to_target.wait()
            target_reader, target_writer = await self._connect()
            try:
                pumps = [
                    asyncio.ensure_future(self._pump(reader, target_writer, self._to_target)),
                    asyncio.ensure_future(self._pump(target_reader, writer, self._to_client)),
                ]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in pumps:
                        each.cancel()
                    await asyncio.wait(pumps)
            finally:
                target_writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass  # refused, or cut
        finally:
            writer.transport.abort()
            self._connections.discard(connection)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in self._targets:
            target = self._targets[self._next % len(self._targets)]
            self._next += 1
            try:
                if isinstance(target, Path):
                    return await asyncio.open_unix_connection(target)
                return await asyncio.open_connection("127.0.0.1", target)
            except OSError:
                continue
        raise ConnectionRefusedError("no target is there")

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_open: asyncio.Event) -> None:
        """Forwards one direction until either side ends."""
        markers: tuple[bytes, ...] = ()
        left: list[bytes] = []
        try:
            while data := await reader.read(CHUNK):
                if markers is not self._markers:
                    markers, left = self._markers, list(self._markers)
                if left and left[0] in data:
                    left.pop(0)
                    if not left:
                        self._to_client.clear()
                if not is_open.is_set():
                    self.withholding.set()
                    await is_open.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # the other direction tells the other side
