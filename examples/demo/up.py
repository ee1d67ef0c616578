"""All of pulse in one terminal: `python3 noxfile.py -s up`.

Starts the server with its embedded Postgres, then dashboard, worker and producer, and shows what
they print. Ctrl-C ends them in reverse, the server last; so does the end of any of them.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

DEMO = Path(__file__).resolve().parent
REPO = DEMO.parents[1]
BIN = Path(sys.executable).parent
START_TIMEOUT = 60
STOP_TIMEOUT = 20
COLOURS = {"server": 36, "dashboard": 35, "worker": 32, "producer": 33}


class UpError(Exception):
    """The demo cannot go on; the message is one line for a person."""


class Program:
    """A child process whose lines we show. `ended` gives its exit status."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process
        self.ended = asyncio.create_task(self._show_output())

    async def _show_output(self) -> int:
        assert self._process.stdout is not None
        label = f"{self.name:>9} |"
        if sys.stdout.isatty():
            label = f"\N{ESCAPE}[{COLOURS[self.name]}m{label}\N{ESCAPE}[0m"
        async for line in self._process.stdout:
            print(label, line.decode(errors="replace").rstrip(), flush=True)
        return await self._process.wait()

    async def stop(self) -> None:
        """Ask it to end, and insist after a while."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            ended, _ = await asyncio.wait({self.ended}, timeout=STOP_TIMEOUT)
            if ended:
                return


@asynccontextmanager
async def running(name: str, *command: str | Path, env: Mapping[str, str]) -> AsyncIterator[Program]:
    """A program for as long as the block."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        # A terminal's Ctrl-C is for us alone: the programs are stopped one after the other.
        start_new_session=True,
    )
    program = Program(name, process)
    try:
        yield program
    finally:
        await program.stop()


async def first_end(*programs: Program) -> None:
    """Wait until one of the programs ends by itself, which none of them should."""
    await asyncio.wait({each.ended for each in programs}, return_when=asyncio.FIRST_COMPLETED)
    program = next(each for each in programs if each.ended.done())
    raise UpError(f"the {program.name} has ended, with status {program.ended.result()}")


async def until_listening(program: Program, address: str) -> None:
    """Wait until the program accepts connections."""
    host, _, port = address.rpartition(":")
    with suppress(TimeoutError):
        async with asyncio.timeout(START_TIMEOUT):
            while not program.ended.done():
                with suppress(OSError):
                    _, writer = await asyncio.open_connection(host, int(port))
                    writer.close()
                    return
                await asyncio.sleep(0.05)
            await first_end(program)
    raise UpError(f"the {program.name} does not listen on {address} after {START_TIMEOUT} s")


def free_address(port: int) -> str:
    """The port on this machine if nobody has it, else any other."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def banner(env: Mapping[str, str]) -> str:
    """What runs where, and what to try next."""
    database = "a Postgres of yours (PULSE_DATABASE_URL)"
    if "PULSE_DATABASE_URL" not in os.environ:
        database = f"an embedded Postgres in {env['PULSE_DATA_DIR']}"
    rows = [f"  server      {env['PULSE_ADDR']}, on {database}"]
    rows += [f"  metrics     http://{env['PULSE_METRICS_ADDR']}/metrics"]
    rows += [f"  dashboard   http://{env['PULSE_UI_ADDR']}"]
    rows += [f"  worker      {DEMO / 'worker.py'}", f"  producer    {DEMO / 'producer.py'}"]
    rows += ["", "Try this in another terminal, and watch the worker:", f"  cd {REPO}"]
    rows += [f"  export PULSE_ADDR={env['PULSE_ADDR']} PATH=$PWD/{BIN.relative_to(REPO)}:$PATH"]
    rows += ["  pulse topics list", "  pulse jobs list --status dead_lettered", "  pulse dispatch pause --reason lunch"]
    rows += ["  pulse stats --watch", "  pulse dispatch resume"]
    return "\n".join(["", "pulse is up. Ctrl-C ends it.", *rows, ""])


async def run() -> None:
    """Until somebody stops us or a program ends; always leaves nothing behind."""
    server_address = free_address(50051)
    env = {
        "PULSE_ADDR": server_address,
        "PULSE_GRPC_ADDR": server_address,
        "PULSE_METRICS_ADDR": free_address(9464),
        "PULSE_UI_ADDR": free_address(8080),
        "PULSE_DATA_DIR": os.environ.get("PULSE_DATA_DIR", str(REPO / ".nox" / "demo-data")),
        "PULSE_LOG_LEVEL": os.environ.get("PULSE_LOG_LEVEL", "warning"),
    }
    async with AsyncExitStack() as stack:

        async def start(name: str, *command: str | Path) -> Program:
            return await stack.enter_async_context(running(name, *command, env=env))

        server = await start("server", BIN / "pulsed")
        await until_listening(server, server_address)
        dashboard = await start("dashboard", BIN / "pulse-ui")
        await until_listening(dashboard, env["PULSE_UI_ADDR"])
        print(banner(env), flush=True)
        worker = await start("worker", sys.executable, DEMO / "worker.py")
        producer = await start("producer", sys.executable, DEMO / "producer.py")
        await first_end(server, dashboard, worker, producer)


async def main() -> int:
    """Return the exit status: to be stopped is what we are for."""
    running_demo = asyncio.create_task(run())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop_once, running_demo)
    try:
        await running_demo
    except asyncio.CancelledError:
        return 0
    except UpError as error:
        print(f"up: {error}", file=sys.stderr)
    return 1


def stop_once(task: asyncio.Task[None]) -> None:
    """Cancel, unless that is under way: impatience must not cut the stopping short."""
    if not task.cancelling():
        print("\nstopping", flush=True)
        task.cancel()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
