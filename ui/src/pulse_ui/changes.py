"""Steps on many jobs: which are allowed from where, what they do, and how they are taken page by page.

Every job is touched once: the ids are listed a page at a time, from the latest submitted on, and each page is changed
with the conditions checked again. A job that comes to match meanwhile, or matches again, is left alone.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pulse
from pulse import JobFilter, JobStatus
from pulse_ui.job_query import JobQuery
from pulse_ui.problems import BadField

PAGE = 1000
# A browser, and any proxy before it, should not be kept waiting for longer. What is left can be gone on with.
TIME_LIMIT = 20.0

WAITING = (JobStatus.PENDING, JobStatus.RETRYING)
FINISHED = (JobStatus.COMPLETED, JobStatus.DEAD_LETTERED, JobStatus.CANCELED)

Step = Callable[[pulse.Pulse, JobFilter, int], Awaitable[pulse.BulkResult]]


@dataclass(frozen=True)
class Change:
    """A step. `allowed` are the statuses it can be taken from, `usual` those meant where none is named."""

    name: str
    verb: str
    done: str
    effect: str
    allowed: tuple[JobStatus, ...]
    usual: tuple[JobStatus, ...]
    step: Step
    is_destructive: bool = False

    @property
    def short(self) -> str:
        """For a button."""
        return self.name.capitalize()

    def suits(self, statuses: list[JobStatus]) -> bool:
        """Whether jobs of any of these statuses can be changed; none stands for all."""
        return not statuses or any(status in self.allowed for status in statuses)

    def narrow(self, query: JobQuery) -> JobQuery:
        """The query for what this step can be about, so that what is counted is what is changed."""
        by_hand = "job_ids" in query.conditions
        asked = query.statuses or (self.allowed if by_hand else self.usual)
        statuses = [status for status in asked if status in self.allowed]
        if not statuses:
            raise BadField(
                "status", f"{_words(asked)} jobs can't be {self.done}; that works for {_words(self.allowed)} ones"
            )
        return query.with_status(*statuses)


def _words(statuses: tuple[JobStatus, ...] | list[JobStatus]) -> str:
    return " or ".join(status.lower().replace("_", " ") for status in statuses)


CHANGES = {
    change.name: change
    for change in (
        Change(
            "retry",
            "Retry",
            "retried",
            "Each becomes ready at once, with fresh attempts. Its history is kept.",
            (JobStatus.DEAD_LETTERED, JobStatus.CANCELED, JobStatus.RETRYING),
            (JobStatus.DEAD_LETTERED,),
            lambda client, conditions, _: client.retry_jobs(limit=PAGE, **conditions),
        ),
        Change(
            "cancel",
            "Cancel",
            "canceled",
            "Those that wait will not run. Workers of running ones are asked to stop; one that finishes first wins.",
            (*WAITING, JobStatus.RUNNING),
            (*WAITING, JobStatus.RUNNING),
            lambda client, conditions, _: client.cancel_jobs(limit=PAGE, **conditions),
            is_destructive=True,
        ),
        Change(
            "delete",
            "Delete",
            "deleted",
            "They are removed for good, with their payloads and histories. This can't be undone.",
            (*FINISHED, *WAITING),
            FINISHED,
            lambda client, conditions, _: client.delete_jobs(limit=PAGE, **conditions),
            is_destructive=True,
        ),
        Change(
            "priority",
            "Change the priority of",
            "given another priority",
            "Higher priorities run first, strictly. Only jobs that wait are changed.",
            WAITING,
            WAITING,
            lambda client, conditions, priority: client.update_jobs_priority(priority, limit=PAGE, **conditions),
        ),
    )
}


@dataclass(frozen=True)
class Progress:
    """How many jobs were changed, and where to go on; None: there is no more."""

    affected: int
    cursor: str | None


async def change_all(client: pulse.Pulse, change: Change, query: JobQuery, priority: int, cursor: str) -> Progress:
    """Take the step on everything that a narrowed query matches, until it is done or the time is up."""
    deadline = time.monotonic() + TIME_LIMIT
    affected = 0
    following: str | None = cursor
    while following is not None and time.monotonic() < deadline:
        page = await client.list_jobs_page(page_size=PAGE, page_token=following, **query.conditions)
        if len(page):
            conditions = JobFilter(**{**query.conditions, "job_ids": [job.id for job in page]})
            affected += (await change.step(client, conditions, priority)).affected
        following = page.next_page_token
    return Progress(affected, following)
