"""`pulse explain`: what holds a job. The server knows; this prints it."""

import click

from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.parameters import Id


@click.command(cls=ServerCommand)
@click.argument("job", type=Id("job"))
@operation
async def explain(session: Session, job: str) -> None:
    """Say what holds a job, and what would change it.

    In one or two sentences, with the command that would change it. The dashboard says the same.
    """
    async with session.client() as client:
        found = await client.explain_job(job)
    if session.output.for_people:
        session.output.line(found.text)
        if found.suggested_command:
            session.output.line(f"To change that: {found.suggested_command}")
    else:
        session.output.record(
            {
                "job_id": found.job.id,
                "status": str(found.job.status),
                "reason": str(found.reason),
                "explanation": found.text,
                "suggested_command": found.suggested_command,
            }
        )
