"""`pulse jobs cancel|retry|delete|priority`: by id, or everything that conditions match."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pulse_cli.bulk import Change, change_many, check_choice
from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.filters import filter_options, read_conditions
from pulse_cli.parameters import Id

if TYPE_CHECKING:
    import pulse

Command = TypeVar("Command", bound=Callable[..., Any])
# Does the step on one job; the words for what became of it, and its status where that is known.
One = Callable[["pulse.Pulse", str], Awaitable[tuple[str, str | None]]]

WAITING = ("PENDING", "RETRYING")
FINISHED = ("COMPLETED", "DEAD_LETTERED", "CANCELED")
CANCEL = Change("canceled", (*WAITING, "RUNNING"), (*WAITING, "RUNNING"))
# Whoever retries a topic means what failed in it, not what somebody canceled on purpose.
RETRY = Change("retried", ("DEAD_LETTERED", "CANCELED", "RETRYING"), ("DEAD_LETTERED",))
# Nor does whoever cleans up mean the jobs that wait to be run.
DELETE = Change("deleted", (*FINISHED, *WAITING), FINISHED)
PRIORITY = Change("given another priority", WAITING, WAITING)


def bulk_options(command: Command) -> Command:
    """What all of these share."""
    for option in (
        click.option("-y", "--yes", is_flag=True, help="Do not ask: for scripts."),
        click.option("-n", "--dry-run", is_flag=True, help="Only count the jobs that match."),
        click.option("--all", "everything", is_flag=True, help="No conditions: all jobs that this is usually about."),
        filter_options,
    ):
        command = option(command)
    return command


async def change_each(session: Session, jobs: tuple[str, ...], one: One) -> None:
    """Takes the step on each job. One that fails does not keep the others from it; the first gives the exit code."""
    import pulse

    codes = []
    records = []
    async with session.client() as client:
        for job in jobs:
            try:
                words, status = await one(client, job)
            except (pulse.NotFound, pulse.Conflict) as error:
                failure = session.translate(error, client)
                codes.append(failure.code)
                session.output.note(f"error: {failure.format_message()}")
                records.append({"job_id": job, "status": None, "error": str(error)})
            else:
                session.output.note(words)
                records.append({"job_id": job, "status": status, "error": None})
    if not session.output.for_people:
        session.output.record(records[0] if len(records) == 1 else records)
    if codes:
        raise click.exceptions.Exit(codes[0])


def check_ids(jobs: tuple[str, ...], dry_run: bool) -> None:
    """Counting is for conditions."""
    if jobs and dry_run:
        raise click.UsageError("--dry-run counts what conditions match; ids need no counting")


@click.command(cls=ServerCommand)
@click.argument("jobs", metavar="[JOB]...", type=Id("job"), nargs=-1)
@bulk_options
@operation
async def cancel(
    session: Session, /, jobs: tuple[str, ...], everything: bool, dry_run: bool, yes: bool, **options: Any
) -> None:
    """Cancel jobs that wait, and ask the workers of running ones to stop.

    By id, or all that match the conditions. A worker that finishes first wins.
    """
    conditions = read_conditions(options)
    check_choice(jobs, conditions, everything)
    check_ids(jobs, dry_run)

    async def one(client: "pulse.Pulse", job: str) -> tuple[str, str | None]:
        status = await client.cancel_job(job)
        return (f"asked the worker of {job} to stop" if status == "RUNNING" else f"canceled {job}"), str(status)

    if jobs:
        await change_each(session, jobs, one)
    else:
        await change_many(
            session, conditions, CANCEL, lambda client, chosen: client.cancel_jobs(**chosen), dry_run=dry_run, yes=yes
        )


@click.command(cls=ServerCommand)
@click.argument("jobs", metavar="[JOB]...", type=Id("job"), nargs=-1)
@bulk_options
@operation
async def retry(
    session: Session, /, jobs: tuple[str, ...], everything: bool, dry_run: bool, yes: bool, **options: Any
) -> None:
    """Run jobs again now, with fresh attempts.

    By id: dead letters, canceled jobs, and jobs that wait for their next attempt. By conditions: dead letters, unless
    --status names others of these.
    """
    conditions = read_conditions(options)
    check_choice(jobs, conditions, everything)
    check_ids(jobs, dry_run)

    async def one(client: "pulse.Pulse", job: str) -> tuple[str, str | None]:
        await client.retry_job(job)
        return f"retried {job}; follow it with `pulse jobs watch {job}`", "PENDING"

    if jobs:
        await change_each(session, jobs, one)
    else:
        await change_many(
            session, conditions, RETRY, lambda client, chosen: client.retry_jobs(**chosen), dry_run=dry_run, yes=yes
        )


@click.command(cls=ServerCommand)
@click.argument("jobs", metavar="[JOB]...", type=Id("job"), nargs=-1)
@bulk_options
@operation
async def delete(
    session: Session, /, jobs: tuple[str, ...], everything: bool, dry_run: bool, yes: bool, **options: Any
) -> None:
    """Delete jobs for good; there is no way back.

    By id: any that does not run. By conditions: finished ones, unless --status names pending or retrying.
    """
    conditions = read_conditions(options)
    check_choice(jobs, conditions, everything)
    check_ids(jobs, dry_run)

    async def one(client: "pulse.Pulse", job: str) -> tuple[str, str | None]:
        await client.delete_job(job)
        return f"deleted {job}", None

    if jobs:
        await change_each(session, jobs, one)
    else:
        await change_many(
            session, conditions, DELETE, lambda client, chosen: client.delete_jobs(**chosen), dry_run=dry_run, yes=yes
        )


# A priority may be negative: what begins with a minus and is no option of ours is left for the arguments.
@click.command(cls=ServerCommand, context_settings={"ignore_unknown_options": True})
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@click.argument("priority", type=click.IntRange(-(2**31) + 1, 2**31 - 1))
@bulk_options
@click.pass_context
def priority(ctx: click.Context, /, jobs: tuple[str, ...], **options: Any) -> None:
    """Change the priority of jobs that wait: higher runs first.

    The last argument is the priority: `pulse jobs priority JOB 10`, `pulse jobs priority --topic mail -5`.
    """
    for job in jobs:
        if job.startswith("-"):
            raise click.NoSuchOption(job, ctx=ctx)
    ids = tuple(Id("job").convert(job, None, ctx) for job in jobs)
    _set_priority(ids, **options)


@operation
async def _set_priority(
    session: Session,
    /,
    jobs: tuple[str, ...],
    priority: int,
    everything: bool,
    dry_run: bool,
    yes: bool,
    **options: Any,
) -> None:
    conditions = read_conditions(options)
    check_choice(jobs, conditions, everything)
    check_ids(jobs, dry_run)

    async def one(client: "pulse.Pulse", job: str) -> tuple[str, str | None]:
        await client.update_job_priority(job, priority)
        return f"{job} has priority {priority} now", None

    async def many(client: "pulse.Pulse", chosen: dict[str, Any]) -> "pulse.BulkResult":
        return await client.update_jobs_priority(priority, **chosen)

    if jobs:
        await change_each(session, jobs, one)
    else:
        await change_many(session, conditions, PRIORITY, many, dry_run=dry_run, yes=yes)
