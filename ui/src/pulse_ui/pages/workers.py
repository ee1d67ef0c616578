"""The connected workers."""

import asyncio

from starlette.responses import Response

from pulse_ui.frame import load_frame
from pulse_ui.visit import Visit

MOST_SHOWN = 200


async def show(visit: Visit) -> Response:
    """GET /workers"""
    topic = visit.request.query_params.get("topic", "")
    frame, workers = await asyncio.gather(load_frame(visit.client), visit.client.workers(topic=topic or None))
    return visit.render(
        "workers.html",
        frame,
        topic=topic,
        workers=workers[:MOST_SHOWN],
        total=len(workers),
        held=sum(worker.held for worker in workers),
        capacity=sum(worker.capacity for worker in workers),
    )
