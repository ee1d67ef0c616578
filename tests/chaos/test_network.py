"""Wires that go dead, answers that get lost, crowds that come at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from chaos.oracle import PATIENCE, until
from chaos.postgres import Cluster
from chaos.proxy import Proxy
from chaos.system import LEASE, Program, Storm, System, running_system
from support.server import BareWorker, Client

JOBS = 5000


async def fall_silent(system: System, wire: Proxy, lost: Program) -> None:
    """Cuts off a worker with its hands full until others have done its jobs, and then has it do some more alone.

    Its handlers outlast the lease: they must have stopped by themselves before anybody else began.
    """
    await system.until_connected()
    async with system.client() as client:
        await system.submit(client, 100, seconds=2 * LEASE.total_seconds())

    async def lost_is_at_work() -> bool:
        return lost.process.pid in {entry.worker for entry in system.oracle.ledger.read()}

    await until(lost_is_at_work, "the worker to have jobs")
    wire.freeze()
    await system.add_worker(system.address(0))
    await system.oracle.until_rest()
    wire.thaw()
    for worker in system.workers:
        if worker is not lost:
            await worker.stop()
    async with system.client() as client:
        await system.submit(client, 100)
    await system.judge()


async def test_a_black_hole_between_a_worker_and_its_server(storm: Storm, database_dsn: str) -> None:
    async with running_system(storm, database_dsn) as system, Proxy(*system.ports) as wire:
        await fall_silent(system, wire, await system.add_worker(wire.address))
    assert storm.figures["expired"] > 0


async def test_a_black_hole_between_a_server_and_postgres(storm: Storm, cluster: Cluster) -> None:
    async with running_system(storm, cluster.dsn, workers=1) as system, Proxy(cluster.socket) as wire:
        await system.add_server(PULSE_DATABASE_URL=cluster.dsn_through(wire))
        await fall_silent(system, wire, await system.add_worker(system.address(1)))
        await system.until_listening()
    assert storm.figures["expired"] > 0


class Wires(NamedTuple):
    """A system whose wires can be cut: from clients to the server, and from there to Postgres."""

    system: System
    server: Proxy
    postgres: Proxy


@asynccontextmanager
async def wired_system(storm: Storm, cluster: Cluster) -> AsyncIterator[Wires]:
    """One server, reached and reaching through proxies."""
    async with (
        running_system(storm, cluster.dsn, servers=0, workers=0) as system,
        Proxy(cluster.socket) as to_postgres,
    ):
        await system.add_server(PULSE_DATABASE_URL=cluster.dsn_through(to_postgres))
        async with Proxy(*system.ports) as to_server:
            yield Wires(system, to_server, to_postgres)


@pytest.mark.parametrize("place", ["server", "postgres"])
async def test_a_submit_whose_answer_is_lost_makes_one_row_a_job(storm: Storm, cluster: Cluster, place: str) -> None:
    async with wired_system(storm, cluster) as wires, wires.system.client(wires.server.address) as client:
        wire, oracle, rows = getattr(wires, place), wires.system.oracle, 0
        for jobs in (1, 10, 1, 500):
            number = str(wires.system.next_number).encode()
            wire.freeze_answers(number)
            rows += jobs
            submitting = asyncio.create_task(wires.system.submit(client, jobs))

            async def committed(rows: int = rows) -> bool:
                return await oracle.count() == rows

            await until(committed, "the commit")
            assert not submitting.done()
            await wire.cut()
            wire.thaw()
            assert await submitting
        assert await oracle.count() == rows == len(oracle.acknowledged)


@pytest.mark.parametrize("place", ["server", "postgres"])
async def test_answers_are_lost_under_load(storm: Storm, cluster: Cluster, place: str) -> None:
    """Submits, claims, heartbeats and reports commit, and whoever asked never hears of it."""
    async with wired_system(storm, cluster) as wires:
        system, wire = wires.system, getattr(wires, place)
        for _ in range(2):
            await system.add_worker(wires.server.address)
        async with system.load(JOBS, wires.server.address, backlog=500):
            for share in storm.shares(10):
                await system.until_ended(share * JOBS)
                wire.freeze_answers()
                async with asyncio.timeout(PATIENCE):
                    await wire.withholding.wait()
                await wire.cut()
                wire.thaw()
        await system.judge()


async def test_a_thousand_workers_reconnect_at_once(storm: Storm, database_dsn: str) -> None:
    """The server comes back and all of them are there in the same moment. One that holds jobs keeps them."""
    # Those of the crowd hold one job for a moment, and do not beat.
    async with running_system(
        storm, database_dsn, workers=1, PULSE_STATEMENT_TIMEOUT="30s", PULSE_TOPIC_LEASES="crowd=60s"
    ) as system:
        async with system.client() as client:
            await system.submit(client, 40, seconds=2 * LEASE.total_seconds())

        async def all_started() -> bool:
            return system.oracle.ledger.count("start") == 40

        await until(all_started, "the worker to hold its jobs")
        await system.servers[0].kill()
        await system.servers[0].start()
        crowd = [BareWorker(Client(system.ports[0]), ["crowd"], capacity=1) for _ in range(1000)]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(worker.__aenter__() for worker in crowd))
            await crowd[0].client.submit_many(1000, "crowd")
            for worker in crowd:
                await worker.complete(await worker.take_one())
            await asyncio.gather(*(worker.__aexit__(None, None, None) for worker in crowd))
        for worker in crowd:
            worker.client.channel.close()
        await system.judge()
    assert storm.figures["expired"] == 0
