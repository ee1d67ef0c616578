"""`pulse topics`."""

from typing import TYPE_CHECKING, Any

import click

from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.output import View
from pulse_cli.tables import Column
from pulse_cli.times import seconds, span

if TYPE_CHECKING:
    import pulse


def topic_record(topic: "pulse.TopicInfo") -> dict[str, Any]:
    """A topic, for programs."""
    return {
        "topic": topic.name,
        "ready": topic.ready,
        "later": topic.later,
        "running": topic.running,
        "workers": topic.workers,
        "free_slots": topic.free_slots,
        "paused": topic.paused,
        "oldest_waiting_seconds": seconds(topic.oldest_waiting),
    }


def _state(topic: "pulse.TopicInfo") -> str:
    if topic.paused:
        return "paused"
    return "no worker" if topic.ready and not topic.workers else "ok"


TOPICS: "View[pulse.TopicInfo]" = View(
    columns=(
        Column("TOPIC", lambda topic: topic.name, narrowest=12),
        Column("STATE", _state),
        Column("READY", lambda topic: str(topic.ready)),
        Column("LATER", lambda topic: str(topic.later)),
        Column("RUNNING", lambda topic: str(topic.running)),
        Column("OLDEST", lambda topic: span(topic.oldest_waiting)),
        Column("WORKERS", lambda topic: str(topic.workers), optional=True),
        Column("FREE SLOTS", lambda topic: str(topic.free_slots), optional=True),
    ),
    record=topic_record,
    empty="no topics yet; `pulse submit TOPIC` makes one",
)


@click.group()
def topics() -> None:
    """Look at topics."""


@topics.command(cls=ServerCommand, name="list")
@operation
async def list_topics(session: Session) -> None:
    """List the topics that have jobs, workers, schedules or recent traffic."""
    async with session.client() as client:
        found = await client.topics()
    session.output.items(found, TOPICS)
