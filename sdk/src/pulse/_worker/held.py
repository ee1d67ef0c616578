"""What the worker holds: everything that was given to it and whose report is not yet known to have arrived."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from pulse_gen.rpc.pulse.v1 import AttemptRef, JobAssignment, JobResult

_DEFAULT_LEASE = timedelta(seconds=30)


class HeldJobs:
    """Lives on the transport's loop. A job stays here, and is beaten for, until the server has its report."""

    def __init__(self) -> None:
        # Attempt, lease, and when it was received.
        self._jobs: dict[str, tuple[int, timedelta, float]] = {}
        # When the last beat that was answered was sent: it renewed everything received before.
        self._renewed_at = float("-inf")

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, assignments: Iterable[JobAssignment], now: float) -> list[tuple[str, int]]:
        """Jobs that are ours now. Returns earlier attempts of them that we still thought ours: those are lost."""
        jobs = self._jobs
        lost = []
        for each in assignments:
            job_id = each.job_id
            if job_id in jobs:
                lost.append((job_id, jobs[job_id][0]))
            jobs[job_id] = (each.attempt, each.lease or _DEFAULT_LEASE, now)
        return lost

    def holds(self, job_id: str, attempt: int) -> bool:
        """Whether this attempt is ours."""
        held = self._jobs.get(job_id)
        return held is not None and held[0] == attempt

    def remove(self, reported: Iterable[AttemptRef | JobResult]) -> None:
        """They are no longer ours; a later attempt of the same job stays."""
        jobs = self._jobs
        for each in reported:
            held = jobs.get(each.job_id)
            if held is not None and held[0] == each.attempt:
                del jobs[each.job_id]

    def references(self) -> list[AttemptRef]:
        """All of it, for a heartbeat."""
        return [AttemptRef(job_id, held[0]) for job_id, held in self._jobs.items()]

    def renewed(self, sent_at: float) -> None:
        """A heartbeat that was sent then has been answered."""
        self._renewed_at = sent_at

    def shortest_lease(self) -> float | None:
        """In seconds; None if nothing is held."""
        if not self._jobs:
            return None
        return min({held[1] for held in self._jobs.values()}).total_seconds()

    def take_expired(self, now: float) -> list[tuple[str, int]]:
        """Attempts whose lease has run out as far as we can know; they are no longer ours."""
        expired = list(self._find_expired(now))
        for job_id, _ in expired:
            del self._jobs[job_id]
        return expired

    def _find_expired(self, now: float) -> Iterator[tuple[str, int]]:
        for job_id, (attempt, lease, received_at) in self._jobs.items():
            if now > max(received_at, self._renewed_at) + lease.total_seconds():
                yield job_id, attempt
