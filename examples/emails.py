"""A worker and a producer: `python emails.py worker`, and in another terminal `python emails.py producer`.

In a real program the tasks stand in a module of their own that both import. Ctrl-C drains the worker.
"""

import asyncio
import logging
import sys

from pydantic import BaseModel

import pulse

p = pulse.Pulse(concurrency=20)  # PULSE_ADDR says where the server is


class EmailArgs(BaseModel):
    """What the task takes: checked when it is enqueued, and again when it is run."""

    to: str
    subject: str = "Hello"


@p.task("send-email", max_attempts=8, timeout=30)
async def send_email(args: EmailArgs, job: pulse.Job) -> None:
    """Async handlers share one event loop."""
    if "@" not in args.to:
        raise pulse.Discard(f"{args.to!r} is not an address")  # no retry would mend it
    await asyncio.sleep(0.01)
    print(f"sent {args.subject!r} to {args.to}, attempt {job.attempt}", flush=True)


@p.task("resize-photo")
def resize_photo(photo: bytes) -> None:
    """Plain functions run in threads, so they may block."""
    print(f"resized a photo of {len(photo)} bytes", flush=True)


async def produce() -> None:
    """One job, a thousand jobs, and a look at what became of the first."""
    async with p:
        job_id = await send_email.enqueue(EmailArgs(to="ada@example.com"), priority=10)
        await resize_photo.enqueue(b"\xff\xd8...")
        readers = [EmailArgs(to=f"reader-{number}@example.com", subject="News") for number in range(1000)]
        await send_email.enqueue_many(readers, on_progress=lambda stored: print(f"{stored} stored"))
        await p.enqueue("send-email", {"to": "nobody"})  # by name; goes to the dead letters, see above

        job = await p.wait_job(job_id, timeout=30)
        print(f"job {job.id} is {job.status} after {job.attempts} attempt")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(p.run() if sys.argv[1:] == ["worker"] else produce())
