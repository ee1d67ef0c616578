"""How long the dashboard's pages take with a million jobs in the table.

    nox -s bench -- --dashboard [--jobs 1000000] [--rounds 30] [--only PART] [--save]

Starts a Postgres of its own (or uses PULSE_TEST_DATABASE_URL), `pulsed` and `pulse-ui`, requests every page again and
again over HTTP, and prints the times as JSON. Exits with 1 when the 95th percentile of a page is above the limit.
"""

import argparse
import asyncio
import http.client
import json
import re
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from html import unescape
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import asyncpg
from ui.tests.world import running_dashboard

from pulsed.paging import write_token
from pulsed.rpc.job_service import read_filter
from support.postgres import Databases
from support.program import running_pulsed

LIMIT_MS = 300.0
SAVED = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "dashboard.json"

# Twenty topics and one that is rare, all statuses, submitted over the last twenty hours, alike errors in their variety.
FILL = """
INSERT INTO jobs (id, submitted_at, next_run_at, started_at, finished_at, lease_until, status, priority, attempts,
  max_attempts, ready, topic, payload, content_type, worker_id, schedule_id, tags, last_error, failures)
SELECT gen_random_uuid(), moment, CASE WHEN later THEN now() + interval '12 hours' ELSE moment END,
  CASE WHEN status NOT IN ('PENDING', 'CANCELED') THEN moment + interval '5 ms' END,
  CASE WHEN status IN ('COMPLETED', 'DEAD_LETTERED', 'CANCELED') THEN moment + interval '80 ms' END,
  CASE WHEN status = 'RUNNING' THEN now() + interval '1 day' END,
  status, number % 5, CASE WHEN status IN ('PENDING', 'CANCELED') THEN 0 ELSE 3 END, 5,
  status IN ('PENDING', 'RETRYING') AND NOT later,
  CASE WHEN number % 200000 = 77 THEN 'rare' ELSE 'topic-' || number % 20 END,
  convert_to(format('{"order": %s, "customer": "reader-%s@example.com"}', number, number % 1000), 'UTF8'),
  'application/json',
  CASE WHEN status <> 'PENDING' THEN '0199a111-0000-7000-8000-000000000001'::uuid END,
  CASE WHEN number % 500 = 0 THEN $2::uuid END,
  CASE WHEN number % 10 = 0 THEN ARRAY['eu', 'batch-' || number % 1000] END,
  CASE WHEN status IN ('DEAD_LETTERED', 'RETRYING') THEN error END,
  CASE WHEN status IN ('DEAD_LETTERED', 'RETRYING') THEN jsonb_build_array(jsonb_build_object(
    'attempt', 3, 'worker_id', '0199a111-0000-7000-8000-000000000001', 'started_at', extract(epoch FROM moment),
    'failed_at', extract(epoch FROM moment) + 1, 'error', error)) END
FROM (
  SELECT number, now() - interval '20 hours' * (1 - number / $1::float8) AS moment,
    number % 7 = 0 AND share < 0.30 AS later,
    (CASE WHEN share < 0.30 THEN 'PENDING' WHEN share < 0.32 THEN 'RETRYING' WHEN share < 0.3205 THEN 'RUNNING'
      WHEN share < 0.42 THEN 'DEAD_LETTERED' WHEN share < 0.45 THEN 'CANCELED' ELSE 'COMPLETED'
    END)::job_status AS status,
    E'Traceback (most recent call last):\\n  File "/srv/shop/tasks.py", line ' || number % 400 || E', in handler\\n'
      || (ARRAY['ConnectionResetError: [Errno 104] mail.example.com:587 closed the connection',
                'TimeoutError: no answer in 30 s', 'ValueError: order ' || number || ' has no customer',
                'KeyError: ''amount''', 'OSError: cannot identify image file'])[1 + number % 5] AS error
  FROM (SELECT number, random() AS share FROM generate_series(1, $1::integer) AS number) AS numbers
) AS rows
"""
TRAFFIC = """
INSERT INTO topic_minutes (topic, minute, submitted, completed, failed, dead_lettered, wait_histogram, run_histogram)
SELECT 'topic-' || number, minute, 40, 38, 4, 1, array_fill(3::bigint, ARRAY[64]), array_fill(3::bigint, ARRAY[64])
FROM generate_series(0, 19) AS number
CROSS JOIN generate_series(date_trunc('minute', now()) - interval '24 hours', now(), '1 minute') AS minute
"""
SCHEDULE = """
INSERT INTO schedules (id, name, kind, cron, timezone, misfire_policy, misfire_limit, next_run_at, created_at,
  updated_at, topic, payload, content_type, priority, max_attempts)
SELECT gen_random_uuid(), 'schedule ' || number, 'CRON', '0 3 * * *', 'Europe/Lisbon', 'ONCE', 10,
  now() + interval '1 day', now(), now(), 'topic-' || number % 20, '{}', 'application/json', 0, 5
FROM generate_series(1, 200) AS number
"""


async def fill(dsn: str, jobs: int) -> dict[str, str]:
    """Fill the database; what the pages need to be asked for."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(SCHEDULE)
        schedule = await connection.fetchval("SELECT id FROM schedules ORDER BY name LIMIT 1")
        await connection.execute(FILL, jobs, schedule, timeout=1200)
        await connection.execute(TRAFFIC)
        await connection.execute("VACUUM ANALYZE", timeout=600)
        found = {
            status.lower(): str(await connection.fetchval("SELECT id FROM jobs WHERE status = $1 LIMIT 1", status))
            for status in ("PENDING", "RUNNING", "COMPLETED", "DEAD_LETTERED")
        }
        early = await connection.fetchrow("SELECT seq, submitted_at FROM jobs ORDER BY seq OFFSET 2500 LIMIT 1")
    finally:
        await connection.close()
    assert early is not None
    return found | {
        "schedule": str(schedule),
        "early": early["submitted_at"].strftime("%Y-%m-%dT%H:%M:%SZ"),
        "near the end": write_token(str(read_filter(None)), early["seq"]),
    }


def pages(found: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Every page, with the questions that people put to it: a name and a path."""
    for window in ("1h", "6h", "24h"):
        yield f"overview {window}", f"/?window={window}"
    questions: dict[str, dict[str, str]] = {
        "all": {},
        "topic": {"topic": "topic-7"},
        "rare topic": {"topic": "rare"},
        "rare topic, rare status": {"topic": "rare", "status": "running"},
        "unknown topic": {"topic": "nothing"},
        "topic and status": {"topic": "topic-7", "status": "dead_lettered"},
        "tag": {"tag": "batch-990"},
        "schedule": {"schedule": found["schedule"]},
        "worker": {"worker": "0199a111-0000-7000-8000-000000000001"},
        "priority": {"min_priority": "4"},
        "common error": {"error": "TimeoutError"},
        "rare error": {"error": "no such text anywhere"},
        "rare error of dead letters": {"error": "no such text anywhere", "status": "dead_lettered"},
        "payload": {"payload": '{"order": 999999}'},
        "rare payload": {"payload": '{"order": -1}'},
        "earliest hour": {"before": found["early"]},
        "latest hour": {"after": found["early"]},
    }
    for status in ("pending", "running", "retrying", "completed", "dead_lettered", "canceled"):
        questions[status] = {"status": status}
        if status in found:
            yield f"job {status}", f"/jobs/{found[status]}"
    for name, question in questions.items():
        yield f"jobs: {name}", f"/jobs?{urlencode(question)}"
    yield "bulk retry of a topic's dead letters", "/jobs/bulk?action=retry&status=dead_lettered&topic=topic-7"
    yield "bulk delete of completed", "/jobs/bulk?action=delete&status=completed"
    yield "schedule", f"/schedules/{found['schedule']}"
    yield "schedule form", f"/schedules/{found['schedule']}/edit"
    for path in ("topics", "schedules", "workers", "dead-letters"):
        yield path, f"/{path}"


class Visitor:
    """Somebody who reads page after page over one connection."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def get(self, path: str) -> tuple[float, str]:
        """The milliseconds that it took, and the page."""
        began = time.perf_counter()
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        body = answer.read().decode()
        took = (time.perf_counter() - began) * 1000
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status}\n{body[:2000]}")
        return took, body

    def walk(self, path: str, most: int) -> Iterator[float]:
        """The time of each page to the last, at most so many."""
        for _ in range(most):
            took, body = self.get(path)
            yield took
            found = re.search(r'<a[^>]*rel="next"[^>]*>', body)
            if not found:
                return
            path = unescape(re.findall(r'href="([^"]+)"', found[0])[0])
        raise SystemExit(f"no last page within {most}")


def summary(times: list[float]) -> dict[str, float]:
    """What is told of a page."""
    return {
        "p50": round(statistics.median(times), 1),
        "p95": round(statistics.quantiles(times, n=20, method="inclusive")[-1], 1),
        "max": round(max(times), 1),
    }


def measure(url: str, found: dict[str, str], rounds: int, only: str) -> dict[str, dict[str, float]]:
    """The times of every page."""
    visitor = Visitor(url)
    asked = [(name, path) for name, path in pages(found) if only in name]
    times = {name: [visitor.get(path)[0] for _ in range(rounds)] for name, path in asked}
    if only in "jobs: to the last page":
        times["jobs: to the last page"] = list(visitor.walk(f"/jobs?cursor={found['near the end']}", most=100))
    return {name: summary(each) for name, each in times.items()}


async def run(jobs: int, rounds: int, only: str) -> dict[str, dict[str, float]]:
    """Everything from nothing."""
    async with AsyncExitStack() as stack:
        databases = stack.enter_context(Databases().running())
        dsn = stack.enter_context(databases.migrated())
        began = time.perf_counter()
        found = await fill(dsn, jobs)
        print(f"{jobs} jobs after {time.perf_counter() - began:.0f} s", file=sys.stderr)
        server = await stack.enter_async_context(running_pulsed(dsn=dsn))
        dashboard = await stack.enter_async_context(running_dashboard(server.address))
        return await asyncio.to_thread(measure, dashboard.url, found, rounds, only)


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", default="", help="pages whose name contains this")
    parser.add_argument("--save", action="store_true", help="write the times to docs/benchmarks")
    options = parser.parse_args()
    times = asyncio.run(run(options.jobs, options.rounds, options.only))
    slow = sorted(name for name, each in times.items() if each["p95"] > LIMIT_MS)
    figures = json.dumps({"jobs": options.jobs, "limit_ms": LIMIT_MS, "pages": times, "slow": slow}, indent=2)
    print(figures)
    if options.save:
        SAVED.write_text(figures + "\n")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
