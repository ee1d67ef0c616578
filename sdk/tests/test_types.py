"""mypy --strict finds a wrong argument where a person would expect it."""

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SAMPLE = """
    from dataclasses import dataclass
    from datetime import timedelta

    import pulse
    import pulse.sync

    p = pulse.Pulse()

    @dataclass
    class EmailArgs:
        to: str

    @p.task("send-email", max_attempts=8, timeout=30)
    async def send_email(args: EmailArgs, job: pulse.Job) -> None: ...

    @p.task("resize")
    def resize(args: bytes) -> None: ...

    @p.task("tick")
    async def tick() -> None: ...

    async def right() -> None:
        job_id: str = await send_email.enqueue(EmailArgs(to="a"), priority=1, delay=timedelta(seconds=1))
        await p.enqueue(send_email, EmailArgs(to="a"))
        await p.enqueue("send-email", {"to": "a"})
        ids: list[str] = await send_email.enqueue_many([EmailArgs(to="a")])
        await resize.enqueue(b"")
        await tick.enqueue()
        await send_email.schedule(EmailArgs(to="a"), pulse.Every(5))
        async for job in p.list_jobs(status="pending", topic="t"):
            info: pulse.JobInfo = job

    def right_too(s: pulse.sync.Pulse) -> None:
        job_id: str = s.enqueue(send_email, EmailArgs(to="a"), priority=1)
        info: pulse.JobInfo = s.get_job(job_id)
        for job in s.list_jobs(topic="t"):
            info = job

    async def wrong(s: pulse.sync.Pulse) -> None:
        await send_email.enqueue("a@b.c")  # error
        await p.enqueue(send_email, "a@b.c")  # error
        await send_email.enqueue_many(["a"])  # error
        await send_email.enqueue(EmailArgs(to="a"), priority="high")  # error
        await send_email.enqueue(EmailArgs(to="a"), priorty=1)  # error
        await send_email.enqueue()  # error
        await tick.enqueue(3)  # error
        await p.get_job(3)  # error
        s.get_job(3)  # error
        s.enqueue(send_email, "a")  # error
"""


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_wrong_arguments_are_errors_on_their_lines_and_nothing_else_is(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(textwrap.dedent(SAMPLE))
    cache = Path(os.environ.get("MYPY_CACHE_DIR", tmp_path / "cache"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(cache), str(sample)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    expected = {number for number, line in enumerate(sample.read_text().splitlines(), 1) if line.endswith("# error")}
    assert found == expected, done.stdout + done.stderr
