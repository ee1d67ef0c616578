"""`pulse schedules create`."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.job_options import job_options, read_flags
from pulse_cli.parameters import Duration, Id, Moment, read_json
from pulse_cli.payloads import read_payload
from pulse_cli.times import full

if TYPE_CHECKING:
    import pulse

POLICIES = ("skip", "once", "all")


@click.command(cls=ServerCommand)
@click.argument("name")
@click.argument("topic")
@click.argument("payload", required=False)
@click.option("-f", "--file", metavar="FILE", help="Read the payload from a file; - is standard input.")
@click.option("--cron", metavar="EXPRESSION", help="Five fields, or six with seconds in front: '0 9 * * *'.")
@click.option("--tz", metavar="ZONE", help="With --cron: an IANA zone such as Europe/Berlin. Default: UTC.")
@click.option("--every", type=Duration(), help="In a rhythm.")
@click.option(
    "--start", type=Moment(), metavar="WHEN", help="With --every: its first run. Default: one interval from now."
)
@click.option("--at", type=Moment(), metavar="WHEN", help="Once, at this moment, such as 2026-01-31T09:00Z.")
@click.option("--misfire", type=click.Choice(POLICIES), help="What to do about missed runs. Default: once.")
@click.option("--misfire-limit", type=click.IntRange(1, 1000), metavar="N", help="With all: how many. Default: 100.")
@click.option("--id", "schedule_id", type=Id("schedule"), metavar="UUID", help="Its id: a repeat makes no second one.")
@job_options
@operation
async def create(
    session: Session,
    /,
    name: str,
    topic: str,
    payload: str | None,
    file: str | None,
    cron: str | None,
    tz: str | None,
    every: timedelta | None,
    start: datetime | None,
    at: datetime | None,
    misfire: str | None,
    misfire_limit: int | None,
    schedule_id: str | None,
    **flags: Any,
) -> None:
    """Create a schedule and print its id.

    NAME is for people, and unique; TOPIC and PAYLOAD are those of the jobs:
    `pulse schedules create report mail '{"to": "a@b.c"}' --cron '0 9 * * *'`
    """
    from pulse_cli.views import now, schedule_record

    timing = _read_timing(cron, tz, every, start, at)
    options = read_flags(flags)
    # The SDK takes values here, not text: what is written is an equal value.
    value = read_json(read_payload(session, payload, file, None).decode())
    async with session.client() as client:
        made = await client.create_schedule(
            topic,
            value,
            timing,
            name=name,
            schedule_id=schedule_id,
            misfire=misfire,
            misfire_limit=misfire_limit,
            **options,
        )
    if session.output.for_people:
        session.output.line(made.id)
        session.output.note(f"its next run: {full(made.next_run_at, now())}")
    else:
        session.output.record(schedule_record(made))


def _read_timing(
    cron: str | None, tz: str | None, every: timedelta | None, start: datetime | None, at: datetime | None
) -> "pulse.Timing":
    import pulse

    if sum(each is not None for each in (cron, every, at)) != 1:
        raise click.UsageError("when? Give one of --cron, --every and --at")
    if tz is not None and cron is None:
        raise click.UsageError("--tz is for --cron")
    if start is not None and every is None:
        raise click.UsageError("--start is for --every")
    if cron is not None:
        return pulse.Cron(cron, tz or "UTC")
    if every is not None:
        return pulse.Every(every, start)
    assert at is not None
    return pulse.At(at)
