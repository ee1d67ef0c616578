"""`pulse submit`: one job, or one a line."""

from datetime import datetime, timedelta
from typing import Any

import click

from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.job_options import job_options, read_flags
from pulse_cli.parameters import Duration, Id, Moment
from pulse_cli.payloads import JSON, read_payload


@click.command(cls=ServerCommand)
@click.argument("topic", required=False)
@click.argument("payload", required=False)
@click.option("-f", "--file", metavar="FILE", help="Read the payload from a file; - is standard input.")
@click.option("-l", "--lines", metavar="FILE", help="Submit one job a line, from a file; - is standard input.")
@click.option("--keep-going", is_flag=True, help="With --lines: submit the good lines although others are broken.")
@click.option("--rejects", metavar="FILE", help="With --lines: write the lines that were not submitted to this file.")
@click.option("--id", "job_id", type=Id("job"), metavar="UUID", help="The job's id: a repeat makes no second job.")
@click.option("--delay", type=Duration(), help="Not before this long from now.")
@click.option("--run-at", type=Moment(), metavar="WHEN", help="Not before this moment, such as 2026-01-31T09:00Z.")
@click.option("--content-type", metavar="TYPE", help=f"What the payload is. Default: {JSON}.")
@job_options
@operation
async def submit(
    session: Session,
    /,
    topic: str | None,
    payload: str | None,
    file: str | None,
    lines: str | None,
    keep_going: bool,
    rejects: str | None,
    job_id: str | None,
    delay: timedelta | None,
    run_at: datetime | None,
    content_type: str | None,
    **flags: Any,
) -> None:
    """Submit a job and print its id.

    PAYLOAD is JSON, sent as it is written; - reads it from standard input. Without any it is null.

    With --lines each line is the payload of a job of TOPIC. Without TOPIC each line is a whole job:
    {"topic": "mail", "payload": {"to": "a@b.c"}, "priority": 5, "delay": "10m"}. All lines are read and checked before
    the first is submitted; lines that the server refuses are reported by their numbers, with exit code 1.
    """
    if delay is not None and run_at is not None:
        raise click.UsageError("--delay and --run-at: give one of them")
    options = read_flags(flags)
    starts = {"delay": delay, "run_at": run_at, "content_type": content_type}
    options |= {name: value for name, value in starts.items() if value is not None}
    if lines is not None:
        if payload is not None or file is not None or job_id is not None:
            raise click.UsageError("--lines brings the payloads: no PAYLOAD, --file or --id beside it")
        from pulse_cli.submit_lines import submit_lines

        await submit_lines(session, topic, lines, options, keep_going=keep_going, rejects=rejects)
        return
    if not topic:
        raise click.UsageError("which topic? `pulse submit TOPIC PAYLOAD`")
    if keep_going or rejects:
        raise click.UsageError("--keep-going and --rejects are for --lines")
    content = read_payload(session, payload, file, content_type)
    async with session.client() as client:
        done = await client.submit(topic, content, **{"content_type": JSON, "job_id": job_id, **options})
    if session.output.for_people:
        session.output.line(done.job_id)
    else:
        session.output.record({"job_id": done.job_id, "existing": done.existing})
    if done.existing:
        session.output.note("it was there already: the id was seen before, or the unique key is taken")
