"""`pulsed` as a process of its own, as an operator runs it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

PATIENCE = 60.0


class Pulsed:
    """A running server process."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port

    @property
    def address(self) -> str:
        """Where it serves."""
        return f"127.0.0.1:{self.port}"

    async def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """SIGTERM; the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


@asynccontextmanager
async def running_pulsed(
    *, port: int = 0, dsn: str | None = None, data_dir: Path | None = None, **settings: str
) -> AsyncIterator[Pulsed]:
    """Starts `pulsed serve` on loopback and waits until it serves; ends it afterwards, by SIGTERM."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULSE_")}
    environment |= {f"PULSE_{name.upper()}": value for name, value in settings.items()}
    environment["PULSE_GRPC_ADDR"] = f"127.0.0.1:{port}"
    if dsn is not None:
        environment["PULSE_DATABASE_URL"] = dsn
    if data_dir is not None:
        environment["PULSE_DATA_DIR"] = str(data_dir)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pulsed", "serve", env=environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE):
            serving = await _serving_port(process)
        reading = asyncio.create_task(_discard(process))
        try:
            yield (server := Pulsed(process, serving))
            await server.stop()
        finally:
            reading.cancel()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _serving_port(process: asyncio.subprocess.Process) -> int:
    """Reads the log up to the line that says where it serves."""
    assert process.stderr is not None
    seen = []
    async for line in process.stderr:
        seen.append(line.decode())
        if line.startswith(b"{") and json.loads(line)["message"] == "serving":
            return int(json.loads(line)["port"])
    raise AssertionError("pulsed did not start:\n" + "".join(seen))


async def _discard(process: asyncio.subprocess.Process) -> None:
    """Keeps the pipe from filling up."""
    assert process.stderr is not None
    async for _ in process.stderr:
        pass
