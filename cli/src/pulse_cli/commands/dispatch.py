"""`pulse dispatch`: the switch that stops jobs from being given out."""

from typing import TYPE_CHECKING, Any

import click

from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.output import View
from pulse_cli.tables import Column
from pulse_cli.times import full, iso

if TYPE_CHECKING:
    import pulse


def switch_record(switch: "pulse.DispatchSwitch") -> dict[str, Any]:
    """One switch, for programs; the one for everything has no topic."""
    return {
        "topic": switch.topic,
        "paused": switch.paused,
        "reason": switch.reason,
        "paused_by": switch.paused_by,
        "paused_at": iso(switch.paused_at),
    }


def _last_paused(switch: "pulse.DispatchSwitch") -> str:
    from pulse_cli.views import now

    return full(switch.paused_at, now())


SWITCHES: "View[pulse.DispatchSwitch]" = View(
    columns=(
        Column("SCOPE", lambda switch: "everything" if switch.topic is None else f"topic {switch.topic}", narrowest=10),
        Column("DISPATCH", lambda switch: "paused" if switch.paused else "running"),
        Column("REASON", lambda switch: switch.reason or "-", narrowest=12),
        Column("BY", lambda switch: switch.paused_by or "-", narrowest=4, optional=True),
        Column("LAST PAUSED", _last_paused, narrowest=19, optional=True),
    ),
    record=switch_record,
    empty="",
)


@click.group()
def dispatch() -> None:
    """Pause and resume the giving out of jobs.

    For everything, or for one topic.
    """


def _topic_option(command: Any) -> Any:
    return click.option("--topic", metavar="TOPIC", help="This topic only. Default: everything.")(command)


def _check_topic(topic: str | None) -> None:
    # An empty topic is everything on the wire: an unset variable in a script must not pause the whole queue.
    if topic == "":
        raise click.UsageError("--topic is empty: leave it out for everything, or name a topic")


def _scope(switch: "pulse.DispatchSwitch") -> str:
    return "dispatch" if switch.topic is None else f"dispatch of topic {switch.topic!r}"


@dispatch.command(cls=ServerCommand)
@_topic_option
@click.option("--reason", default="", help="Why, for whoever finds it paused.")
@operation
async def pause(session: Session, topic: str | None, reason: str) -> None:
    """Give out no more jobs. Running ones go on, submits are taken; the pause outlives restarts."""
    _check_topic(topic)
    async with session.client() as client:
        switch = await client.pause_dispatch(topic, reason=reason)
    option = f" --topic {topic}" if topic else ""
    session.output.note(f"{_scope(switch)} is paused; go on with `pulse dispatch resume{option}`")
    if not session.output.for_people:
        session.output.record(switch_record(switch))


@dispatch.command(cls=ServerCommand)
@_topic_option
@operation
async def resume(session: Session, topic: str | None) -> None:
    """Give out jobs again. Topics that were paused on their own stay so."""
    _check_topic(topic)
    async with session.client() as client:
        switch = await client.resume_dispatch(topic)
        status = await client.dispatch_status()
    still = [each.topic for each in status.topics if each.paused and each.topic]
    if topic and status.paused:
        session.output.note(f"{_scope(switch)} is resumed, but everything is paused: `pulse dispatch resume`")
    elif not topic and still:
        session.output.note(f"dispatch is resumed; still paused on their own: {', '.join(still)}")
    else:
        session.output.note(f"{_scope(switch)} is resumed")
    if not session.output.for_people:
        session.output.record(switch_record(switch))


@dispatch.command(cls=ServerCommand)
@operation
async def status(session: Session) -> None:
    """Show what is paused, since when, by whom and why."""
    async with session.client() as client:
        found = await client.dispatch_status()
    if session.output.for_people:
        session.output.items([found.everything, *found.topics], SWITCHES)
    else:
        switches = [switch_record(switch) for switch in found.topics]
        session.output.record({"everything": switch_record(found.everything), "topics": switches})
