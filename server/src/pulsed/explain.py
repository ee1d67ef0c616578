"""Why a job is where it is, in plain words. Pure: the facts come in, a sentence comes out."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pulse_gen.db.models import DispatchControl, Job, JobStatus
from pulse_gen.db.workers import WorkersListRow
from pulse_gen.rpc.pulse.v1 import HoldReason


@dataclass(frozen=True)
class Explanation:
    """What holds a job, and the command that would change it."""

    reason: HoldReason
    text: str
    command: str = ""


def explain_job(
    job: Job,
    now: datetime,
    switches: Sequence[DispatchControl],
    workers: Sequence[WorkersListRow],
) -> Explanation:
    """The first thing in the job's way. `workers` are those that serve its topic."""
    if job.finished_at is not None:
        return _finished(job)
    if job.status is JobStatus.RUNNING:
        return _running(job)
    if job.next_run_at > now:
        return _later(job, now)
    for switch in switches:
        if switch.paused and switch.scope in ("", job.topic):
            return _paused(switch)
    if not workers:
        return Explanation(
            HoldReason.NO_WORKER,
            f"It is ready, but no connected worker serves the topic {job.topic!r}.",
            "pulse workers list",
        )
    if all(worker.held >= worker.capacity for worker in workers):
        busy = sum(worker.capacity for worker in workers)
        return Explanation(
            HoldReason.WORKERS_BUSY,
            f"It is ready and waits its turn: all {busy} slots of the {_count(len(workers), 'worker')}"
            f" that serve {job.topic!r} are taken.",
            f"pulse jobs priority {job.id} {job.priority + 1}",
        )
    return Explanation(HoldReason.NONE, "Nothing holds it: it is ready and will be given to a worker in a moment.")


def _finished(job: Job) -> Explanation:
    at = _moment(job.finished_at)
    if job.status is JobStatus.COMPLETED:
        return Explanation(HoldReason.FINISHED, f"It completed at {at}, in attempt {job.attempts}.")
    if job.status is JobStatus.CANCELED:
        text = f"It was canceled at {at}."
    else:
        error = (job.last_error or "").strip().splitlines() or ["no error was given"]
        text = f"It died at {at} after {_count(job.attempts, 'attempt')}; the last error: {error[-1]}"
    return Explanation(HoldReason.FINISHED, text, f"pulse jobs retry {job.id}")


def _running(job: Job) -> Explanation:
    text = (
        f"Worker {job.worker_id} has run it since {_moment(job.started_at)} (attempt"
        f" {job.attempts}); its lease holds until {_moment(job.lease_until)}."
    )
    if job.cancel_requested_at is not None:
        return Explanation(
            HoldReason.RUNNING,
            f"{text} It was asked to stop at {_moment(job.cancel_requested_at)}.",
        )
    return Explanation(HoldReason.RUNNING, text, f"pulse jobs cancel {job.id}")


def _later(job: Job, now: datetime) -> Explanation:
    wait = f"{_moment(job.next_run_at)}, in {_seconds((job.next_run_at - now).total_seconds())}"
    if job.status is JobStatus.RETRYING:
        spent = job.attempts - job.attempts_forgiven
        return Explanation(
            HoldReason.LATER,
            f"Attempt {job.attempts} failed; the next of {job.max_attempts - spent} that are left is at {wait}.",
            f"pulse jobs retry {job.id}",
        )
    return Explanation(HoldReason.LATER, f"Its time has not come: it may start at {wait}.")


def _paused(switch: DispatchControl) -> Explanation:
    what = f"The topic {switch.scope!r} is paused" if switch.scope else "Dispatch is paused"
    by = f" by {switch.paused_by}" if switch.paused_by else ""
    reason = f": {switch.reason}" if switch.reason else ""
    # Whoever pastes it runs it: a topic's name is not to be trusted.
    option = f" --topic {shlex.quote(switch.scope)}" if switch.scope else ""
    return Explanation(
        HoldReason.PAUSED,
        f"{what}{by} since {_moment(switch.paused_at)}{reason}.",
        f"pulse dispatch resume{option}",
    )


def _moment(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else "an unknown time"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _seconds(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
