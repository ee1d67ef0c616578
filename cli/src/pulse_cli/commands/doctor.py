"""`pulse doctor`: from this machine to the database, step by step, and what is wrong."""

from typing import Any

import click

from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.output import View
from pulse_cli.tables import Column

Row = dict[str, Any]

CHECKS: View[Row] = View(
    columns=(
        Column("CHECK", lambda row: row["check"]),
        Column("RESULT", lambda row: row["result"]),
        Column("DETAIL", lambda row: row["detail"], narrowest=20),
    ),
    record=lambda row: row,
    empty="",
)


@click.command(cls=ServerCommand)
@operation
async def doctor(session: Session) -> None:
    """Check the way to the server, and say what is wrong.

    Settings, address, TLS, credentials, versions, database, clock, dispatch and workers.
    The exit code is that of the first check that failed; warnings don't count.
    """
    from pulse_cli.diagnosis import Diagnosis

    diagnosis = Diagnosis(session)
    await diagnosis.run()
    rows = [
        {"check": finding.check, "result": finding.result, "detail": finding.detail, "advice": finding.advice}
        for finding in diagnosis.findings
    ]
    session.output.items(rows, CHECKS)
    if session.output.for_people:
        for row in rows:
            if row["advice"]:
                session.output.note(f"{row['check']}: {row['advice']}")
    if diagnosis.code:
        raise click.exceptions.Exit(int(diagnosis.code))
