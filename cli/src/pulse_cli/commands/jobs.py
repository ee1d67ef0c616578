"""`pulse jobs`: look at jobs."""

from typing import Any

import click

from pulse_cli.command import LazyGroup, ServerCommand, Session, operation
from pulse_cli.filters import filter_options, read_conditions
from pulse_cli.parameters import Id

CHANGES = {
    "cancel": ("jobs_change:cancel", "Cancel jobs that wait, and ask the workers of running ones to stop."),
    "retry": ("jobs_change:retry", "Run jobs again now, with fresh attempts."),
    "delete": ("jobs_change:delete", "Delete jobs for good; there is no way back."),
    "priority": ("jobs_change:priority", "Change the priority of jobs that wait: higher runs first."),
    "watch": ("jobs_watch:watch", "Follow jobs until they are finished, and tell every change."),
}


@click.group(cls=LazyGroup, lazy=CHANGES)
def jobs() -> None:
    """Look at jobs and change their fate."""


@jobs.command(cls=ServerCommand, name="list")
@filter_options
@click.option("--limit", type=click.IntRange(0), default=50, metavar="N", help="How many at most; 0: all. Default: 50.")
@operation
async def list_jobs(session: Session, /, limit: int, **options: Any) -> None:
    """List jobs, the latest submitted first.

    Conditions must all hold. Payloads are not listed; `pulse jobs get` shows them.
    """
    from pulse_cli.views import JOBS

    conditions = read_conditions(options)
    async with session.client() as client:
        found = client.list_jobs(limit=limit + 1 if limit else None, page_size=min(limit + 1, 500) or 500, **conditions)
        more = f"there are more than {limit}: raise --limit, or add conditions"
        await session.output.stream(found, JOBS, limit=limit or None, more=more)


@jobs.command(cls=ServerCommand)
@click.argument("job", type=Id("job"))
@click.option("--payload", is_flag=True, help="Print the payload alone, byte for byte.")
@operation
async def get(session: Session, job: str, payload: bool) -> None:
    """Show one job with its payload and its failed attempts."""
    from pulse_cli.views import job_pairs, whole_job_record

    async with session.client() as client:
        found = await client.get_job(job)
    if payload:
        session.output.write_bytes(found.payload)
    elif session.output.for_people:
        session.output.pairs(job_pairs(found))
    else:
        session.output.record(whole_job_record(found))
