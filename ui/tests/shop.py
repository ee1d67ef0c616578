"""A photo shop that has been open for a day: what the pages look like with life in them."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pulse

from .world import Worker, World

# A day of traffic by the minute, busy in waves; each topic has times of its own to wait and to run.
TRAFFIC = """
WITH minutes AS (
  SELECT generate_series(date_trunc('minute', now()) - interval '24 hours', now(), '1 minute') AS minute
), topics (topic, rate, failing, middle) AS (
  VALUES ('send-newsletter', 60, 0.00, 17), ('send-receipt', 42, 0.08, 20), ('charge-card', 38, 0.02, 22),
         ('resize-photo', 14, 0.01, 25), ('count-stock', 3, 0.00, 29)
), busy AS (
  SELECT topic, minute, failing, middle,
    (rate * (1 + 0.5 * sin(extract(epoch FROM minute) / 5400) + 0.25 * (random() - 0.5)))::bigint AS submitted,
    CASE WHEN now() - minute BETWEEN interval '14 minutes' AND interval '21 minutes' THEN 5 ELSE 1 END AS trouble
  FROM minutes CROSS JOIN topics
)
INSERT INTO topic_minutes (topic, minute, submitted, completed, failed, dead_lettered, wait_histogram, run_histogram)
SELECT topic, minute, submitted, submitted - (submitted * failing / 8)::bigint, (submitted * failing * trouble)::bigint,
  (submitted * failing * (trouble - 1) / 8)::bigint, waits, runs
FROM busy
CROSS JOIN LATERAL (
  SELECT array_agg((400 * exp(-power(step - middle / 2, 2) / 18.0))::bigint ORDER BY step) AS waits,
    array_agg((400 * exp(-power(step - middle, 2) / 14.0))::bigint ORDER BY step) AS runs
  FROM generate_series(1, 64) AS step
) AS times
"""

# Finished jobs of several kinds, each `count` times, `every` so often up to now; stored in the order of time.
FINISHED = """
INSERT INTO jobs (id, submitted_at, next_run_at, started_at, finished_at, status, priority, attempts, max_attempts,
  ready, topic, payload, content_type, worker_id, tags, last_error, failures)
SELECT gen_random_uuid(), moment - CASE WHEN attempts > 1 THEN interval '98 s' ELSE interval '10 ms' END, moment,
  moment + interval '6 ms', moment + interval '106 ms', status, priority,
  attempts, 5, false, topic, convert_to(replace(payload, '#', (70000 + number)::text), 'UTF8'), 'application/json',
  $2::uuid, tags, error,
  CASE WHEN error IS NOT NULL THEN (
    SELECT jsonb_agg(jsonb_build_object(
      'attempt', attempt, 'worker_id', $2::uuid, 'error', error,
      'started_at', extract(epoch FROM moment) + 0.006 - 4 * (attempts * attempts - attempt * attempt),
      'failed_at', extract(epoch FROM moment) + 0.106 - 4 * (attempts * attempts - attempt * attempt)))
    FROM generate_series(1, attempts) AS attempt)
  END
FROM jsonb_to_recordset($1) AS kinds (status job_status, topic text, payload text, priority integer, attempts integer,
  tags text[], error text, every interval, count integer)
CROSS JOIN LATERAL (
  SELECT number, now() - number * every - interval '4 s' AS moment FROM generate_series(1, count) AS number
) AS moments
ORDER BY moment
"""

MAIL_DOWN = """\
Traceback (most recent call last):
  File "/srv/shop/tasks/mail.py", line 41, in send_receipt
    await smtp.send(receipt, to=order.customer)
  File "/srv/shop/smtp.py", line 88, in send
    code, reply = await self._command(b"DATA")
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ConnectionResetError: [Errno 104] mail.example.com:587 closed the connection during DATA"""
DECLINED = "the bank declined the card: insufficient funds (code 51)"
BAD_PHOTO = """\
Traceback (most recent call last):
  File "/srv/shop/tasks/photos.py", line 23, in resize_photo
    image = open_image(photo.name)
OSError: cannot identify image file 'holiday-71234.jpg'"""
ORDER = '{"number": #, "customer": "ada@example.com", "amount": 84.2}'
PHOTO = '{"order": #, "name": "holiday-71234.jpg"}'
READER = '{"issue": 12, "reader": "reader-#"}'


def _kind(status: str, topic: str, payload: str, *, every: int, **columns: Any) -> dict[str, Any]:
    given = {"status": status, "topic": topic, "payload": payload, "every": f"{every} s", **columns}
    return {"priority": 0, "attempts": 1, "tags": None, "error": None} | given


KINDS = (
    _kind("COMPLETED", "send-newsletter", READER, every=31, count=120, priority=-10),
    _kind("COMPLETED", "charge-card", ORDER, every=17, count=90, priority=10, tags=["eu"]),
    _kind("COMPLETED", "send-receipt", ORDER, every=19, count=90, tags=["eu", "mail"]),
    _kind("COMPLETED", "resize-photo", PHOTO, every=49, count=40),
    _kind("DEAD_LETTERED", "send-receipt", ORDER, every=83, count=23, attempts=5, tags=["eu", "mail"], error=MAIL_DOWN),
    _kind("DEAD_LETTERED", "charge-card", ORDER, every=211, count=9, priority=10, tags=["eu"], error=DECLINED),
    _kind("DEAD_LETTERED", "resize-photo", PHOTO, every=900, count=3, attempts=5, error=BAD_PHOTO),
    _kind("CANCELED", "send-newsletter", READER, every=150, count=6, attempts=0),
)


def fill(world: World, most: int = 1000) -> None:
    """Everything but those who work; at most so many jobs of a kind."""
    world.execute("SELECT setseed(0.42)")
    world.execute(TRAFFIC)
    world.execute(
        FINISHED,
        json.dumps([kind | {"count": min(kind["count"], most)} for kind in KINDS]),
        "0199a111-0000-7000-8000-000000000001",
    )
    later = datetime.now(UTC) + timedelta(hours=2)
    for number in range(4):
        world.pulse.enqueue("send-newsletter", {"issue": 13, "reader": f"reader-{number}"}, run_at=later, priority=-10)
        world.pulse.enqueue("print-calendar", {"order": 70400 + number, "pages": 13})
    make_schedules(world)


def make_schedules(world: World) -> None:
    """One of each kind; one rests."""
    declare = world.pulse.create_schedule
    lisbon = pulse.Cron("0 3 * * *", tz="Europe/Lisbon")
    by_night = declare("count-stock", {"city": "Lisbon"}, lisbon, name="count stock, Lisbon", lease=3600)
    declare("count-stock", {"city": "Berlin"}, pulse.Every(timedelta(hours=6)), name="count stock, Berlin")
    declare("send-newsletter", {"issue": 13}, pulse.Cron("30 9 * * 1-5", tz="Europe/Berlin"), name="weekday newsletter")
    christmas = pulse.At(datetime.now(UTC) + timedelta(days=30))
    declare("print-calendar", {"pages": 13}, christmas, name="calendars go to print")
    resting = declare("resize-photo", {"all": True}, pulse.Cron("*/15 * * * *"), name="thumbnails")
    world.pulse.pause_schedule(resting.id)
    world.pulse.trigger_schedule(by_night.id)


@contextmanager
def at_work(world: World) -> Iterator[list[Worker]]:
    """Two workers that hold jobs, some jobs that wait to be tried again; nobody prints calendars."""
    with ExitStack() as stack:
        one = stack.enter_context(world.worker("charge-card", "send-receipt", host="shop-worker-1", capacity=20))
        two = stack.enter_context(world.worker("resize-photo", "count-stock", host="shop-worker-2", capacity=8))
        for number in range(3):
            world.pulse.enqueue("send-receipt", {"number": 70500 + number}, tags=["mail"])
            one.fail(MAIL_DOWN, retry_after=timedelta(minutes=9))
        for number in range(5):
            # Nobody beats for them: their leases have to outlast the test.
            order, photo = {"number": 70600 + number, "amount": 12.5}, {"order": 70600 + number, "name": "beach.jpg"}
            world.pulse.enqueue("charge-card", order, priority=10, tags=["eu"], lease=3600)
            world.pulse.enqueue("resize-photo", photo, lease=3600)
        one.take(5)
        two.take(6)
        yield [one, two]
