"""One worker of the benchmark: `python -m bench.worker ADDRESS CONCURRENCY LOG`.

Its job appends 16 bytes to the log: when it was submitted and when it started.
"""

import os
import sys
import time

import uvloop

import pulse
from bench.rig import RECORD, TOPIC

address, concurrency, log_path = sys.argv[1:]
log = os.open(log_path, os.O_WRONLY | os.O_APPEND)
worker = pulse.Pulse(address, concurrency=int(concurrency))


@worker.task(TOPIC)
async def note(job: dict[str, object]) -> None:
    """All that a job does."""
    started = time.monotonic_ns() // 1000
    os.write(log, RECORD.pack(int(str(job["t"])), started))


uvloop.run(worker.run())
