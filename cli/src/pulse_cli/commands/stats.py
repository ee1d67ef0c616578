"""`pulse stats`: how the queue is doing, once or all the time."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.output import View
from pulse_cli.parameters import Duration
from pulse_cli.tables import Column
from pulse_cli.times import iso, seconds, span

if TYPE_CHECKING:
    import pulse

CLEAR = "\x1b[H\x1b[2J"
STATUSES = ("PENDING", "RUNNING", "RETRYING", "DEAD_LETTERED", "CANCELED", "COMPLETED")
EVENTS = ("submitted", "completed", "failed", "dead_lettered")


def topic_record(topic: "pulse.TopicStats", window: timedelta) -> dict[str, Any]:
    """One topic or everything, for programs."""
    counts: dict[str, int] = dict.fromkeys((status.lower() for status in STATUSES), 0)
    for count in topic.counts:
        counts[count.status.lower()] = count.count
    totals = {event: total(topic, event) for event in EVENTS}
    return {
        "topic": topic.topic,
        "counts": counts,
        "estimated": [count.status.lower() for count in topic.counts if count.estimated],
        "oldest_waiting_seconds": seconds(topic.oldest_waiting),
        "wait": _latency_record(topic.wait),
        "run": _latency_record(topic.run),
        **totals,
        "completed_per_second": round(totals["completed"] / window.total_seconds(), 3),
    }


def _latency_record(latency: "pulse.Latency") -> dict[str, Any]:
    # The times of nothing are not zero.
    shares = {"p50": latency.p50, "p95": latency.p95, "p99": latency.p99}
    record = {f"{name}_seconds": seconds(share) if latency.count else None for name, share in shares.items()}
    return record | {"count": latency.count}


def _latency(latency: "pulse.Latency") -> str:
    return f"{span(latency.p50)}/{span(latency.p95)}" if latency.count else "-"


def total(topic: "pulse.TopicStats", event: str) -> int:
    """How often something happened in the window."""
    return sum(getattr(part, event) for part in topic.traffic)


def _count(status: str) -> Any:
    def text(topic: "pulse.TopicStats") -> str:
        found = [count for count in topic.counts if count.status == status]
        return "".join(f"{'~' if count.estimated else ''}{count.count}" for count in found) or "0"

    return text


def _view(window: timedelta) -> "View[pulse.TopicStats]":
    return View(
        columns=(
            Column("TOPIC", lambda topic: topic.topic or "everything", narrowest=10),
            Column("PENDING", _count("PENDING")),
            Column("RUNNING", _count("RUNNING")),
            Column("RETRYING", _count("RETRYING")),
            Column("DEAD", _count("DEAD_LETTERED")),
            Column("OLDEST", lambda topic: span(topic.oldest_waiting)),
            Column("DONE", lambda topic: str(total(topic, "completed"))),
            Column("FAILED", lambda topic: str(total(topic, "failed"))),
            Column("WAIT P50/P95", lambda topic: _latency(topic.wait), optional=True),
            Column("RUN P50/P95", lambda topic: _latency(topic.run), optional=True),
            Column("COMPLETED", _count("COMPLETED"), optional=True),
            Column("CANCELED", _count("CANCELED"), optional=True),
        ),
        record=lambda topic: topic_record(topic, window),
        empty="",
    )


@click.command(cls=ServerCommand)
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic besides the whole; repeatable."
)
@click.option("--window", type=Duration(), default="1h", help="How far back rates look: 1m to 24h. Default: 1h.")
@click.option("--watch", is_flag=True, help="Again and again, until Ctrl-C.")
@click.option("--interval", type=Duration(), default="2s", help="With --watch: how often. Default: 2s.")
@operation
async def stats(session: Session, topics: tuple[str, ...], window: timedelta, watch: bool, interval: timedelta) -> None:
    """Show counts, rates, the oldest waiting job and latencies.

    For everything and by topic. DONE and FAILED count what happened within the window; a count with ~ is an estimate.
    """
    if interval < timedelta(milliseconds=100):
        raise click.UsageError("--interval: at least 100ms")
    output = session.output
    async with session.client() as client:
        while True:
            found = await client.stats(window=window, topics=list(topics))
            # A terminal is redrawn in place; anything else gets one table or one line after the other.
            if watch and output.for_people and output.coloured:
                output.write(CLEAR)
            _show(session, found, window)
            if not watch:
                return
            await asyncio.sleep(interval.total_seconds())


def _show(session: Session, found: "pulse.Stats", window: timedelta) -> None:
    view = _view(window)
    if session.output.for_people:
        session.output.items([found.total, *found.topics], view)
    else:
        session.output.record(
            {
                "taken_at": iso(found.taken_at),
                "window_seconds": window.total_seconds(),
                "total": view.record(found.total),
                "topics": [view.record(topic) for topic in found.topics],
            }
        )
