"""`pulse schedules`: jobs that are submitted by the clock."""

from typing import TYPE_CHECKING
from uuid import UUID

import click

from pulse_cli.command import LazyGroup, ServerCommand, Session, operation
from pulse_cli.errors import CommandError, ExitCode
from pulse_cli.times import full, iso, span

if TYPE_CHECKING:
    import pulse


@click.group(cls=LazyGroup, lazy={"create": ("schedules_create:create", "Create a schedule and print its id.")})
def schedules() -> None:
    """Look at schedules and change them.

    A schedule is named by its name or by its id.
    """


async def find_id(client: "pulse.Pulse", name: str) -> str:
    """The id of the schedule that somebody named, by id or by name."""
    try:
        return str(UUID(name))
    except ValueError:
        async for schedule in client.list_schedules(page_size=1000):
            if schedule.name == name:
                return schedule.id
    raise CommandError(
        f"there is no schedule {name!r}; `pulse schedules list` shows those there are", ExitCode.NOT_FOUND
    ) from None


@schedules.command(cls=ServerCommand, name="list")
@click.option("--topic", metavar="TOPIC", help="Only those of this topic.")
@operation
async def list_schedules(session: Session, topic: str | None) -> None:
    """List schedules in the order of their names."""
    from pulse_cli.views import SCHEDULES

    async with session.client() as client:
        await session.output.stream(client.list_schedules(topic=topic), SCHEDULES, limit=None, more="")


@schedules.command(cls=ServerCommand)
@click.argument("schedule")
@operation
async def get(session: Session, schedule: str) -> None:
    """Show one schedule with its next occurrences."""
    from pulse_cli.views import schedule_record

    async with session.client() as client:
        found = await client.get_schedule(await find_id(client, schedule))
    if session.output.for_people:
        session.output.pairs(schedule_pairs(found))
    else:
        session.output.record(schedule_record(found))


def schedule_pairs(schedule: "pulse.ScheduleInfo") -> list[tuple[str, str]]:
    """A whole schedule for people."""
    from pulse_cli.views import now, shown_payload, timing_words

    moment = now()
    pairs = [
        ("schedule", schedule.id),
        ("name", schedule.name),
        ("topic", schedule.topic),
        ("when", timing_words(schedule.timing)),
        ("state", "paused" if schedule.paused else "active"),
        ("last fired", full(schedule.last_fired_at, moment)),
        ("next runs", "\n".join(full(each, moment) for each in schedule.upcoming) or "-"),
        ("missed runs", schedule.misfire_policy.lower()),
        ("priority", str(schedule.options.priority)),
        ("attempts", str(schedule.options.max_attempts)),
        ("time limit", span(schedule.options.timeout)),
        ("tags", ", ".join(schedule.options.tags) or "-"),
        ("created", full(schedule.created_at, moment)),
        ("payload", shown_payload(schedule.payload, schedule.content_type)),
    ]
    return [pair for pair in pairs if pair[1] != "-"]


@schedules.command(cls=ServerCommand)
@click.argument("schedule")
@operation
async def pause(session: Session, schedule: str) -> None:
    """Stop it from firing; occurrences that pass meanwhile are not made up for."""
    async with session.client() as client:
        schedule_id = await find_id(client, schedule)
        await client.pause_schedule(schedule_id)
    session.output.note(f"paused {schedule}; go on with `pulse schedules resume {schedule_id}`")
    if not session.output.for_people:
        session.output.record({"schedule_id": schedule_id, "paused": True})


@schedules.command(cls=ServerCommand)
@click.argument("schedule")
@operation
async def resume(session: Session, schedule: str) -> None:
    """Let it fire again, from its next occurrence on."""
    from pulse_cli.views import now

    async with session.client() as client:
        schedule_id = await find_id(client, schedule)
        next_run_at = await client.resume_schedule(schedule_id)
    session.output.note(f"resumed {schedule}; its next run: {full(next_run_at, now())}")
    if not session.output.for_people:
        session.output.record({"schedule_id": schedule_id, "paused": False, "next_run_at": iso(next_run_at)})


@schedules.command(cls=ServerCommand)
@click.argument("schedule")
@operation
async def run(session: Session, schedule: str) -> None:
    """Make one job now, beside the occurrences, and print its id."""
    async with session.client() as client:
        schedule_id = await find_id(client, schedule)
        done = await client.trigger_schedule(schedule_id)
    if session.output.for_people:
        session.output.line(done.job_id)
    else:
        session.output.record({"schedule_id": schedule_id, "job_id": done.job_id, "existing": done.existing})
    if done.existing:
        session.output.note("no new job: its unique key is taken by this one")


@schedules.command(cls=ServerCommand)
@click.argument("schedule")
@operation
async def delete(session: Session, schedule: str) -> None:
    """Delete a schedule; the jobs that it made stay."""
    async with session.client() as client:
        schedule_id = await find_id(client, schedule)
        await client.delete_schedule(schedule_id)
    session.output.note(f"deleted {schedule}; see what it left with `pulse schedules fires {schedule_id}`")
    if not session.output.for_people:
        session.output.record({"schedule_id": schedule_id, "deleted": True})


@schedules.command(cls=ServerCommand)
@click.argument("schedule")
@click.option("--limit", type=click.IntRange(0), default=50, metavar="N", help="How many at most; 0: all. Default: 50.")
@operation
async def fires(session: Session, schedule: str, limit: int) -> None:
    """List the jobs that a schedule made, the latest first."""
    from pulse_cli.views import FIRES

    async with session.client() as client:
        schedule_id = await find_id(client, schedule)
        found = client.list_schedule_fires(schedule_id, limit=limit + 1 if limit else None)
        await session.output.stream(
            found, FIRES, limit=limit or None, more=f"there are more than {limit}: raise --limit"
        )
