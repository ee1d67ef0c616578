"""What every page shows around its own content: whether jobs are given out, and whether they die."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import pulse
from pulse import JobStatus

RECENT = timedelta(minutes=5)


@dataclass(frozen=True)
class Frame:
    """The state of the queue in short; `recent` looks back five minutes."""

    dispatch: pulse.DispatchStatus
    recent: pulse.TopicStats

    @property
    def deaths(self) -> int:
        """Jobs that went to the dead letters lately."""
        return sum(each.dead_lettered for each in self.recent.traffic)

    @property
    def state(self) -> str:
        """What title and icon show."""
        if self.dispatch.paused:
            return "paused"
        return "failing" if self.deaths else "ok"

    @property
    def dead_letters(self) -> str:
        """How many there are, for the navigation; empty if none."""
        for each in self.recent.counts:
            if each.status is JobStatus.DEAD_LETTERED and each.count:
                return f"{each.count:,}{'+' if each.estimated else ''}"
        return ""


async def load_frame(client: pulse.Pulse) -> Frame:
    """Ask the server."""
    dispatch, stats = await asyncio.gather(client.dispatch_status(), client.stats(window=RECENT))
    return Frame(dispatch, stats.total)
