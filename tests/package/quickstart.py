"""Run in an environment with the wheels and without the repo: what the README promises works.

A server with its embedded Postgres in an empty directory, a job submitted and done by a worker, a
server that ends when it is told to.
"""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pydantic import BaseModel

import pulse

BIN = Path(sys.executable).parent
PATIENCE = 60


class Greeting(BaseModel):
    """The arguments of the job."""

    name: str


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_listening(server: subprocess.Popen[bytes], port: int) -> None:
    """End the program if the server does not accept connections."""
    deadline = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    sys.exit(f"quickstart: pulsed does not listen (status {server.returncode})")


async def submit_and_run(port: int) -> None:
    """One job from submit to COMPLETED."""
    async with asyncio.timeout(PATIENCE), pulse.Pulse(f"127.0.0.1:{port}", concurrency=1) as p:

        @p.task("greet")
        async def greet(greeting: Greeting, job: pulse.Job) -> None:
            print(f"hello {greeting.name}, from job {job.id}")

        job_id = await greet.enqueue(Greeting(name="world"))
        worker = asyncio.create_task(p.run())
        while (job := await p.get_job(job_id)).status is not pulse.JobStatus.COMPLETED:
            await asyncio.sleep(0.05)
        assert job.attempts == 1
        p.stop()
        await worker


def main() -> None:
    """End the program with a message if anything is not as promised."""
    subprocess.run([BIN / "pulsed", "--version"], check=True)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="pulse-quickstart-") as data:
        settings = {"PULSE_DATA_DIR": data, "PULSE_GRPC_ADDR": f"127.0.0.1:{port}"}
        server = subprocess.Popen([BIN / "pulsed"], env={**os.environ, **settings})
        try:
            wait_until_listening(server, port)
            asyncio.run(submit_and_run(port))
        finally:
            server.terminate()
            status = server.wait(PATIENCE)
    if status != 0:
        sys.exit(f"quickstart: pulsed ended with status {status}")
    print("quickstart: one job submitted, run and completed")


if __name__ == "__main__":
    main()
