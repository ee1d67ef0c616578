"""`pulse workers`."""

from typing import TYPE_CHECKING, Any

import click

from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.output import View
from pulse_cli.tables import Column
from pulse_cli.times import ago, iso

if TYPE_CHECKING:
    from datetime import datetime

    import pulse


def worker_record(worker: "pulse.WorkerInfo") -> dict[str, Any]:
    """A worker, for programs."""
    return {
        "worker_id": worker.id,
        "host": worker.host,
        "version": worker.version,
        "topics": list(worker.topics),
        "capacity": worker.capacity,
        "held": worker.held,
        "connected_at": iso(worker.connected_at),
        "last_seen_at": iso(worker.last_seen_at),
        "server_id": worker.server_id,
    }


def _ago(moment: "datetime | None") -> str:
    from pulse_cli.views import now

    return ago(moment, now())


WORKERS: "View[pulse.WorkerInfo]" = View(
    columns=(
        Column("WORKER", lambda worker: worker.id),
        Column("HOST", lambda worker: worker.host, narrowest=8),
        Column("HELD", lambda worker: f"{worker.held}/{worker.capacity}"),
        Column("TOPICS", lambda worker: ", ".join(worker.topics), narrowest=8),
        Column("SEEN", lambda worker: _ago(worker.last_seen_at), optional=True),
        Column("CONNECTED", lambda worker: _ago(worker.connected_at), optional=True),
        Column("VERSION", lambda worker: worker.version, narrowest=8, optional=True),
    ),
    record=worker_record,
    empty="no workers are connected",
)


@click.group()
def workers() -> None:
    """Look at workers."""


@workers.command(cls=ServerCommand, name="list")
@click.option("--topic", metavar="TOPIC", help="Only those that serve this topic.")
@operation
async def list_workers(session: Session, topic: str | None) -> None:
    """List the connected workers, the longest connected first."""
    async with session.client() as client:
        found = await client.workers(topic=topic)
    session.output.items(found, WORKERS)
