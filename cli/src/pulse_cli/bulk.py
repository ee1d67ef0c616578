"""Steps on many jobs: counted first, confirmed by a person or by --yes, and each job touched once.

The SDK's bulk calls take the latest jobs that match and say that there are more. A job whose priority was changed, or
that was asked to stop and still runs, matches again: calling until there are no more would never end. So the ids are
listed page by page, and the bulk call is made for each page, with the conditions checked again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pulse_cli.command import Session
from pulse_cli.connection import is_interactive
from pulse_cli.errors import CommandError
from pulse_cli.progress import progress

if TYPE_CHECKING:
    import pulse

PAGE = 1000

Step = Callable[["pulse.Pulse", dict[str, Any]], Awaitable["pulse.BulkResult"]]


@dataclass(frozen=True)
class Change:
    """A step: what is done, and the statuses from which it is allowed; `usual` are those meant without --status."""

    done: str
    allowed: tuple[str, ...]
    usual: tuple[str, ...]

    def narrow(self, conditions: dict[str, Any]) -> dict[str, Any]:
        """The conditions with the statuses that this step can be about, so that what is counted is what is changed."""
        asked = conditions.get("status") or list(self.usual)
        statuses = [status for status in asked if status in self.allowed]
        if not statuses:
            raise click.UsageError(
                f"jobs that are {' or '.join(asked).lower()} can't be {self.done}; "
                f"that works for {', '.join(self.allowed).lower()}"
            )
        return conditions | {"status": statuses}


def check_choice(jobs: tuple[str, ...], conditions: dict[str, Any], everything: bool) -> None:
    """Either ids, or conditions, or --all: what is meant must be said."""
    if jobs and (conditions or everything):
        raise click.UsageError("give either ids of jobs or conditions, not both")
    if not jobs and not conditions and not everything:
        raise click.UsageError("which jobs? Give their ids, conditions such as --topic or --status, or --all")


async def change_many(
    session: Session, conditions: dict[str, Any], change: Change, step: Step, *, dry_run: bool, yes: bool
) -> None:
    """Count, ask, change, tell."""
    conditions = change.narrow(conditions)
    output = session.output
    async with session.client() as client:
        found = await client.count_jobs(**conditions)
        shown = count_words(found)
        if dry_run:
            if output.for_people:
                output.line(f"{shown} would be {change.done}")
            else:
                output.record({"count": found.count, "capped": found.capped})
            return
        affected = 0
        if found.count:
            _confirm(f"{shown} would be {change.done}", yes)
            affected = await _change_pages(session, client, conditions, step, None if found.capped else found.count)
    output.note(f"{plural(affected)} {change.done}")
    if not output.for_people:
        output.record({"affected": affected})


async def _change_pages(
    session: Session, client: "pulse.Pulse", conditions: dict[str, Any], step: Step, total: int | None
) -> int:
    affected = 0
    token: str | None = ""
    with progress(session.output, total) as advance:
        while token is not None:
            page = await client.list_jobs_page(page_size=PAGE, page_token=token, **conditions)
            if len(page):
                result = await step(client, conditions | {"job_ids": [job.id for job in page], "limit": PAGE})
                affected += result.affected
                advance(len(page))
            token = page.next_page_token
    return affected


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not is_interactive():
        raise click.UsageError(f"{question}; add --yes to do it, or --dry-run to count only")
    if not click.confirm(f"{question}. Go on?", err=True):
        raise CommandError("not confirmed: nothing was changed; answer y to go on")


def plural(count: int, noun: str = "job") -> str:
    """`1 job`, `2,000 jobs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def count_words(found: "pulse.JobCount") -> str:
    """A count that may be capped."""
    return f"more than {plural(found.count)}" if found.capped else plural(found.count)
