"""The overview: is the queue well?"""

import asyncio
from datetime import timedelta

from starlette.responses import Response

from pulse import JobStatus, StatusCount
from pulse_ui.charts import bar_chart
from pulse_ui.frame import load_frame
from pulse_ui.problems import BadField
from pulse_ui.visit import Visit

WINDOWS = {"1h": timedelta(hours=1), "6h": timedelta(hours=6), "24h": timedelta(hours=24)}
ERRORS_SHOWN = 5


async def show(visit: Visit) -> Response:
    """GET /"""
    window = visit.request.query_params.get("window") or "1h"
    if window not in WINDOWS:
        raise BadField("window", f"{window[:40]!r} is none of {', '.join(WINDOWS)}")
    frame, stats, topics, errors = await asyncio.gather(
        load_frame(visit.client),
        visit.client.stats(window=WINDOWS[window]),
        visit.client.topics(),
        visit.client.errors(),
    )
    traffic = stats.total.traffic
    counts = {each.status: each for each in stats.total.counts}
    return visit.render(
        "overview.html",
        frame,
        windows=list(WINDOWS),
        window=window,
        counts=[counts.get(status, StatusCount(status=status, count=0, estimated=False)) for status in JobStatus],
        total=stats.total,
        throughput=bar_chart("Completed jobs", traffic, ("submitted", "completed")),
        failures=bar_chart("Failed attempts", traffic, ("failed", "dead_lettered")),
        unserved=[topic for topic in topics if topic.ready and not topic.workers],
        paused_topics=[switch for switch in frame.dispatch.topics if switch.paused],
        errors=errors[:ERRORS_SHOWN],
        idle=not topics,
    )
