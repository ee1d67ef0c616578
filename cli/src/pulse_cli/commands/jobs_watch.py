"""`pulse jobs watch`: follow jobs to their end."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.errors import CommandError, ExitCode
from pulse_cli.parameters import Duration, Id

if TYPE_CHECKING:
    import pulse

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
# A server that is restarted is back before this.
PATIENCE = 60.0


@click.command(cls=ServerCommand)
@click.argument("jobs", metavar="JOB...", type=Id("job"), nargs=-1, required=True)
@click.option("--for", "longest", type=Duration(), help="Give up after this long, with exit code 5. Default: never.")
@operation
async def watch(session: Session, jobs: tuple[str, ...], longest: timedelta | None) -> None:
    """Follow jobs until they are finished, and tell every change.

    Exit code 0 when all completed, 1 when one died or was canceled. With -o jsonl each change is a line; with -o json
    the finished jobs are printed at the end.
    """
    from pulse_cli.views import job_record

    seconds = None if longest is None else longest.total_seconds()
    async with session.client() as client:
        try:
            async with asyncio.timeout(seconds):
                finished = [await _follow(session, client, job) for job in dict.fromkeys(jobs)]
        except TimeoutError:
            raise CommandError(
                f"not finished after {seconds:g} s; `pulse explain JOB` says what holds it", ExitCode.UNAVAILABLE
            ) from None
    if session.output.format == "json":
        records = [job_record(job) for job in finished]
        session.output.record(records[0] if len(records) == 1 else records)
    if failed := [job for job in finished if job.status != "COMPLETED"]:
        names = ", ".join(f"{job.id} is {job.status}" for job in failed[:5])
        raise CommandError(f"{names}; look with `pulse jobs get {failed[0].id}`, then `pulse jobs retry` it")


async def _follow(session: Session, client: "pulse.Pulse", job_id: str) -> "pulse.JobInfo":
    """To the end of one job; the ends of others that come meanwhile are told when it is their turn."""
    seen: tuple[str, int] | None = None
    pause = FIRST_PAUSE
    # The first look must succeed: an address that is wrong is told at once.
    job = await client.get_job(job_id)
    while True:
        if (str(job.status), job.attempts) != seen:
            seen = (str(job.status), job.attempts)
            pause = FIRST_PAUSE
            _tell(session, job)
        if job.status.finished:
            return job
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE, pause * 1.5)
        job = await _look_again(session, client, job_id)


async def _look_again(session: Session, client: "pulse.Pulse", job_id: str) -> "pulse.JobInfo":
    """The job as it stands; over a restart of the server, if need be."""
    import pulse

    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    told = False
    while True:
        try:
            return await client.get_job(job_id)
        except pulse.Unavailable:
            if loop.time() > deadline:
                raise
        if not told:
            session.output.note(f"{client.address} does not answer; trying again for {PATIENCE:g} s")
            told = True
        await asyncio.sleep(LONGEST_PAUSE)


def _tell(session: Session, job: "pulse.JobInfo") -> None:
    from pulse_cli.views import job_record, last_line

    if session.output.format == "jsonl":
        session.output.record(job_record(job))
    elif session.output.for_people:
        error = f": {last_line(job.last_error)}" if job.last_error and job.status != "COMPLETED" else ""
        attempt = f", attempt {job.attempts}" if job.attempts else ""
        session.output.line(f"{job.id} {job.status}{attempt}{error}")
