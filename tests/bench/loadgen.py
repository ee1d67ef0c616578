"""How fast pulse is on this machine.

    nox -s bench                        everything, medians of three, compared with the committed figures
    nox -s bench -- --runs 1 --only submit,latency
    nox -s bench -- --save              write the figures to docs/benchmarks

Figures of two machines can't be compared, nor those of a busy one: look at the ratios of one run.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from grpclib.client import Channel

from bench.plot import draw_bars
from bench.rig import Reading, Rig, durable_postgres, fresh_rig, median_of, payload, percentile, resident_mebibytes
from pulse_gen.codec import Codec
from pulse_gen.rpc.pulse.v1 import StreamJobsRequest, WorkerServiceStub
from pulsed.embedded import EmbeddedPostgres
from pulsed.identifiers import new_id

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
SAVED = RESULTS / "loadgen.json"
MILLION = 1_000_000
DRAINED = 100_000
CONCURRENCY = 1000
# Postgres counts what an idle connection did up to ten seconds later.
STATISTICS_ARE_LATE = 12.0

Figures = dict[str, float]
Results = dict[str, dict[str, Figures]]


async def drain(rig: Rig, workers: int, jobs: int = DRAINED) -> Figures:
    """Workers on a full queue: from the first start until so many are finished."""
    await rig.settle()
    await rig.workers.start(workers, rig.server.address, CONCURRENCY)
    await rig.workers.until_handled(1)
    before = await rig.read()
    await rig.workers.until_handled(jobs)
    await rig.until_finished(jobs)
    after = await rig.read()
    done = rig.workers.handled()
    cpu = {f"{part} CPU us/job": (after.cpu[part] - before.cpu[part]) / done * 1e6 for part in before.cpu}
    del cpu["producer CPU us/job"]
    return {
        "jobs/s": done / (after.at - before.at),
        "transactions/job": (after.transactions - before.transactions) / done,
        "rollbacks": after.rollbacks - before.rollbacks,
        "WAL bytes/job": (after.wal_bytes - before.wal_bytes) / done,
        "server MiB": resident_mebibytes(rig.server.process.pid),
        "worker MiB": resident_mebibytes(rig.workers.processes[0].pid),
        **cpu,
    }


def drained_by(workers: int) -> Callable[[Rig], Awaitable[Figures]]:
    """Throughput of so many workers."""

    async def measure(rig: Rig) -> Figures:
        await rig.fill(DRAINED)
        return await drain(rig, workers)

    return measure


def drained_beside(waiting: int, delayed: int) -> Callable[[Rig], Awaitable[Figures]]:
    """Throughput of one worker with others waiting: behind those that are measured, or for another day."""

    async def measure(rig: Rig) -> Figures:
        if delayed:
            await rig.fill(delayed, priority=10, delay="1 day")
        await rig.fill(waiting + DRAINED)
        return {"jobs/s": (await drain(rig, 1))["jobs/s"]}

    return measure


def submitted(count: int, before: Reading, after: Reading) -> Figures:
    """The rate of submits, and what each took of whom."""
    parts = ("producer", "server", "postgres")
    cpu = {f"{part} CPU us/job": (after.cpu[part] - before.cpu[part]) / count * 1e6 for part in parts}
    return {"jobs/s": count / (after.at - before.at), **cpu}


async def submit_in_sequence(rig: Rig, count: int = 2000) -> Figures:
    """One by one, each awaited."""
    before = await rig.read()
    for number in range(count):
        await rig.client.enqueue("noop", payload(number))
    return submitted(count, before, await rig.read())


async def submit_concurrently(rig: Rig, count: int = 20_000, producers: int = 50) -> Figures:
    """One by one by many at once."""

    async def produce() -> None:
        for number in range(count // producers):
            await rig.client.enqueue("noop", payload(number))

    before = await rig.read()
    await asyncio.gather(*(produce() for _ in range(producers)))
    return submitted(count, before, await rig.read())


async def submit_in_bulk(rig: Rig, count: int = DRAINED) -> Figures:
    """In calls of a thousand."""
    before = await rig.read()
    for start in range(0, count, 1000):
        await rig.client.enqueue_many("noop", [payload(number) for number in range(start, start + 1000)])
    return submitted(count, before, await rig.read())


async def latency(rig: Rig, count: int = 500, warm: int = 50) -> Figures:
    """From the begin of a submit to the start of its handler, on an idle server, one every 10 ms."""
    await rig.workers.start(1, rig.server.address, CONCURRENCY)
    await rig.client.enqueue("noop", payload(0))
    await rig.workers.until_handled(1)
    due = time.perf_counter()
    for number in range(warm + count):
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await rig.client.enqueue("noop", payload(number))
        due += 0.01
    await rig.workers.until_handled(1 + warm + count)
    waits = rig.workers.waits()[1 + warm :]
    return {"p50 ms": percentile(waits, 0.5), "p99 ms": percentile(waits, 0.99)}


async def idle(rig: Rig, streams: int = 1000, seconds: float = 20.0) -> Figures:
    """What a thousand connected workers cost that have nothing to do."""
    channels = [Channel("127.0.0.1", rig.server.port, codec=Codec()) for _ in range(20)]
    greeted = asyncio.Semaphore(0)

    async def listen(number: int) -> None:
        topics = ["shared", f"topic-{number % 50}"]
        request = StreamJobsRequest(worker_id=str(new_id()), topics=topics, capacity=10)
        async for _ in WorkerServiceStub(channels[number % len(channels)]).stream_jobs(request):
            greeted.release()

    listening = [asyncio.create_task(listen(number)) for number in range(streams)]
    for _ in range(streams):
        await greeted.acquire()
    # Its transactions would be counted as the server's.
    await rig.set_autovacuum("off")
    await asyncio.sleep(STATISTICS_ARE_LATE)
    before = await rig.read()
    await asyncio.sleep(seconds)
    after = await rig.read()
    await rig.set_autovacuum("on")
    for task in listening:
        task.cancel()
    await asyncio.wait(listening)
    for channel in channels:
        channel.close()
    elapsed = after.at - before.at
    return {
        # The two readings in between are ours.
        "statements/s": (after.transactions - before.transactions - 2) / elapsed,
        "server CPU %": (after.cpu["server"] - before.cpu["server"]) / elapsed * 100,
        "server MiB": resident_mebibytes(rig.server.process.pid),
    }


async def start_up(rig: Rig, rounds: int = 15) -> Figures:
    """How long `pulse --help` takes, beside a Python that does nothing."""

    def seconds(*command: str) -> float:
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            times.append(time.perf_counter() - began)
        return percentile(times, 0.5)

    nothing, helping = seconds("-c", "pass"), seconds("-m", "pulse_cli", "--help")
    return {"python -c pass ms": nothing * 1000, "pulse --help ms": helping * 1000, "ratio": helping / nothing}


MEASUREMENTS: dict[str, dict[str, Callable[[Rig], Awaitable[Figures]]]] = {
    "throughput": {f"{count} worker{'s' * (count > 1)}": drained_by(count) for count in (1, 2, 8)},
    "depth": {
        "empty": drained_beside(0, 0),
        "500k waiting": drained_beside(500_000, 0),
        "1M waiting": drained_beside(MILLION, 0),
        "1M delayed": drained_beside(0, MILLION),
    },
    "submit": {"in sequence": submit_in_sequence, "50 at once": submit_concurrently, "in bulk": submit_in_bulk},
    "latency": {"submit to start": latency},
    "idle": {"1,000 streams": idle},
    "start-up": {"command line": start_up},
}


async def measure(postgres: EmbeddedPostgres, group: str, runs: int) -> dict[str, Figures]:
    """The medians of several runs of a group, each on a fresh database.

    By turns: the machine's speed drifts within minutes, and the figures of a group are there to be compared.
    """
    figures: dict[str, list[Figures]] = {name: [] for name in MEASUREMENTS[group]}
    for _ in range(runs):
        for name, one in MEASUREMENTS[group].items():
            async with fresh_rig(postgres) as rig:
                figures[name].append(await one(rig))
    return {name: median_of(each) for name, each in figures.items()}


def describe(name: str, figures: Figures, committed: Figures) -> str:
    """One line; each figure with its ratio to the committed one."""
    parts = []
    for figure, value in figures.items():
        ratio = f" (x{value / committed[figure]:.2f})" if committed.get(figure) else ""
        parts.append(f"{value:,.{0 if value >= 1000 else 3 if value < 1 else 1}f} {figure}{ratio}")
    return f"{name:>24}  {', '.join(parts)}"


async def measure_all(directory: Path, groups: list[str], runs: int, committed: Results) -> Results:
    """Every measurement of the groups, told as it is made."""
    results: Results = {}
    async with durable_postgres(directory) as postgres:
        for group in groups:
            results[group] = await measure(postgres, group, runs)
            for name, figures in results[group].items():
                print(describe(f"{group}: {name}", figures, committed.get(group, {}).get(name, {})), flush=True)
    return results


def save(results: Results, runs: int) -> None:
    """Write the figures, with their conditions, and the plot."""
    conditions = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "postgres": "18, embedded; stock settings but max_wal_size, so fsync is on",
        "runs": runs,
        "date": time.strftime("%Y-%m-%d"),
    }
    RESULTS.mkdir(exist_ok=True)
    SAVED.write_text(json.dumps({"conditions": conditions, "figures": results}, indent=1) + "\n")
    bars = {
        f"{group}: {name}": figures["jobs/s"]
        for group, measured in results.items()
        for name, figures in measured.items()
        if "jobs/s" in figures
    }
    SAVED.with_suffix(".svg").write_text(draw_bars("jobs a second", bars))
    print(f"written to {RESULTS}")


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="take the median of so many (default 3)")
    parser.add_argument("--only", default=",".join(MEASUREMENTS), help=f"some of {','.join(MEASUREMENTS)}")
    parser.add_argument("--save", action="store_true", help="write figures and plot to docs/benchmarks")
    arguments = parser.parse_args()
    committed: Results = json.loads(SAVED.read_text())["figures"] if SAVED.exists() else {}
    with tempfile.TemporaryDirectory(prefix="pulse-bench-") as directory:
        Path(directory).chmod(0o711)  # as root, Postgres runs as another user
        groups = arguments.only.split(",")
        results = asyncio.run(measure_all(Path(directory), groups, arguments.runs, committed))
    if arguments.save:
        save({**committed, **results}, arguments.runs)


if __name__ == "__main__":
    main()
