"""A worker that keeps a ledger: one line at the start and one at the end of each attempt.

    python worker.py ADDRESS LEDGER

The ledger is a file, out of reach of every fault. A line is one write, so that those of several processes do not mix.
"""

import asyncio
import os
import signal
import sys
import time

import pulse

address, ledger = sys.argv[1:]
p = pulse.Pulse(address, concurrency=50, connect_timeout=120)
book = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(event: str, job: pulse.Job) -> None:
    """Writes a line; CLOCK_MONOTONIC is the same for all processes of a machine."""
    os.write(book, f"{event} {job.id} {job.attempt} {os.getpid()} {time.monotonic()}\n".encode())


@p.task("work")
async def work(args: dict[str, float], job: pulse.Job) -> None:
    """Takes its time."""
    note("start", job)
    await asyncio.sleep(args["seconds"])
    note("end", job)


@p.task("quiet")
async def quiet() -> None:
    """Does nothing, not even write it down."""


@p.task("poison")
async def poison(job: pulse.Job) -> None:
    """Takes the whole process with it."""
    note("start", job)
    os.kill(os.getpid(), signal.SIGKILL)


@p.task("tick")
async def tick(job: pulse.Job) -> None:
    """What schedules submit."""
    note("start", job)
    note("end", job)


asyncio.run(p.run())
