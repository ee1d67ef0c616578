"""A worker process that writes down what it runs: one line at the start and one at the end of each attempt.

python ledger_worker.py ADDRESS LEDGER SECONDS
"""

import asyncio
import json
import os
import sys
import time
from typing import Any

import pulse

address, ledger, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
p = pulse.Pulse(address, concurrency=20)
book = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(event: str, job: pulse.Job) -> None:
    """Appends a line; one write, so that lines of several processes do not mix."""
    entry = {"event": event, "job": str(job.id), "attempt": job.attempt, "worker": os.getpid(), "at": time.monotonic()}
    os.write(book, json.dumps(entry).encode() + b"\n")


@p.task("ledger")
async def work(args: dict[str, Any], job: pulse.Job) -> None:
    """Takes its time."""
    note("start", job)
    await asyncio.sleep(seconds)
    note("end", job)


asyncio.run(p.run())
