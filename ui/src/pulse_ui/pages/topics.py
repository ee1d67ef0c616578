"""The topics: how deep, how old, how fast, and who serves them."""

import asyncio
from datetime import timedelta

from starlette.responses import Response

from pulse import TopicStats
from pulse_ui.charts import sparkline
from pulse_ui.frame import load_frame
from pulse_ui.visit import Visit

WINDOW = timedelta(hours=1)
MOST_SHOWN = 200


async def show(visit: Visit) -> Response:
    """GET /topics"""
    wanted = visit.request.query_params.get("name", "").strip()
    frame, topics, stats = await asyncio.gather(
        load_frame(visit.client), visit.client.topics(), visit.client.stats(window=WINDOW)
    )
    switches = {switch.topic: switch for switch in frame.dispatch.topics if switch.paused}
    by_topic = {each.topic: each for each in stats.topics}
    # A paused topic without jobs is in no other list, and has to be found to be resumed.
    matching = [topic for topic in topics if wanted.lower() in topic.name.lower()]
    silent = switches.keys() - {topic.name for topic in topics}
    return visit.render(
        "topics.html",
        frame,
        wanted=wanted,
        rows=[
            (topic, switches.get(topic.name), by_topic.get(topic.name), _rate(by_topic.get(topic.name)))
            for topic in matching[:MOST_SHOWN]
        ],
        silent=[switches[name] for name in sorted(silent, key=str)],
        left_out=max(0, len(matching) - MOST_SHOWN),
    )


def _rate(stats: TopicStats | None) -> list[float]:
    return sparkline([each.completed for each in stats.traffic]) if stats else []
