"""Which jobs: the options that lists and bulk steps share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pulse_cli.parameters import Id, Json, Moment, Status, join_statuses

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--status", "status", type=Status(), multiple=True, help="A status; several with commas."),
    click.option("--topic", "topic", multiple=True, metavar="TOPIC", help="A topic; may be repeated."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag; repeated, all of them."),
    click.option("--schedule", "schedule_id", type=Id("schedule"), metavar="ID", help="Made by this schedule."),
    click.option("--worker", "worker_id", type=Id("worker"), metavar="ID", help="Held by this worker now."),
    click.option("--error", "error_contains", metavar="TEXT", help="The latest error contains this, in any case."),
    click.option("--payload", "payload_contains", type=Json(), metavar="JSON", help="The payload contains this."),
    click.option(
        "--submitted-after", type=Moment(ago=True), metavar="WHEN", help="2026-01-31T09:00Z, or 2h for two hours ago."
    ),
    click.option("--submitted-before", type=Moment(ago=True), metavar="WHEN", help="Likewise."),
    click.option("--min-priority", type=int, metavar="N", help="The priority is at least this."),
    click.option("--max-priority", type=int, metavar="N", help="The priority is at most this."),
)
NAMES = (
    "status",
    "topic",
    "tags",
    "schedule_id",
    "worker_id",
    "error_contains",
    "payload_contains",
    "submitted_after",
    "submitted_before",
    "min_priority",
    "max_priority",
)


def filter_options(command: Command) -> Command:
    """Adds the options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_conditions(options: dict[str, Any]) -> dict[str, Any]:
    """Takes the conditions out of a command's options, in the SDK's words; those not given are left out."""
    conditions = {name: options.pop(name) for name in NAMES}
    conditions["status"] = join_statuses(conditions["status"])
    # An empty topic or text is a slip of a script, an unset variable, say: it must not widen a bulk step.
    for name, value in conditions.items():
        if value == "" or (isinstance(value, tuple) and "" in value):
            raise click.UsageError(
                f"an empty value for {name.replace('_', ' ')}: leave the option out, or give a value"
            )
    return {name: value for name, value in conditions.items() if value is not None and value not in ((), [])}
