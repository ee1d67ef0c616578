"""Presence: any server lists the workers of all of them, with what they hold, and forgets those that are gone."""

import asyncio
from datetime import timedelta

from pulse_gen.rpc.pulse.v1 import GetServerInfoRequest, ListTopicsRequest, ListWorkersRequest, Worker
from pulsed.presence import INTERVAL, SILENCE
from support.server import PATIENCE, Server, VirtualClock, running_server


async def listed(server: Server, topic: str = "") -> dict[str, Worker]:
    answer = await server.stats.list_workers(ListWorkersRequest(topic=topic))
    return {worker.worker_id: worker for worker in answer.workers}


async def server_id(server: Server) -> str:
    return (await server.stats.get_server_info(GetServerInfoRequest())).server_id


async def no_streams(server: Server) -> None:
    """Waits until the server has seen its workers leave."""
    async with asyncio.timeout(PATIENCE):
        while server.app.dispatcher.workers:
            await asyncio.sleep(0)


async def test_workers_of_two_servers_are_listed_by_both(database_dsn: str) -> None:
    clock = VirtualClock()
    async with (
        running_server(database_dsn, clock=clock) as one,
        running_server(database_dsn, clock=clock) as two,
        one.worker("mail", "work", capacity=3) as first,
    ):
        await one.submit_many(2)
        await first.take(2)
        await one.app.presence.run_once()
        connected_at = clock.moment
        clock.advance(seconds=10)
        async with two.worker("mail", capacity=7) as second:
            for server in (one, two):
                await server.app.presence.run_once()
            for server in (one, two):
                workers = await listed(server)
                assert list(workers) == [first.worker_id, second.worker_id]  # the longest connected first
                mine, other = workers.values()
                assert (mine.topics, mine.capacity, mine.held) == (["mail", "work"], 3, 2)
                assert (other.topics, other.capacity, other.held) == (["mail"], 7, 0)
                assert (mine.host, mine.version) == ("test", "1")
                assert [mine.server_id, other.server_id] == [await server_id(one), await server_id(two)]
                assert (mine.connected_at, mine.last_seen_at) == (connected_at, clock.moment)
                assert other.connected_at == clock.moment
                assert list(await listed(server, "work")) == [first.worker_id]
                assert list(await listed(server, "nobody's")) == []
            topics = (await two.stats.list_topics(ListTopicsRequest())).topics
            assert [(topic.name, topic.workers, topic.free_slots, topic.running) for topic in topics] == [
                ("mail", 2, 8, 0),
                ("work", 1, 1, 2),
            ]


async def test_a_worker_that_arrives_is_written_without_being_asked_for(server: Server) -> None:
    async with server.worker() as worker, asyncio.timeout(PATIENCE):
        while worker.worker_id not in await listed(server):
            await asyncio.sleep(0)


async def test_a_worker_that_disconnects_is_gone(timed_server: Server) -> None:
    server = timed_server
    async with server.worker() as stays:
        async with server.worker() as leaves:
            await server.app.presence.run_once()
            assert set(await listed(server)) == {stays.worker_id, leaves.worker_id}
        async with asyncio.timeout(PATIENCE):
            while len(server.app.dispatcher.workers) > 1:
                await asyncio.sleep(0)
        await server.app.presence.run_once()
        assert set(await listed(server)) == {stays.worker_id}


async def test_a_worker_that_moved_belongs_to_its_new_server(database_dsn: str) -> None:
    clock = VirtualClock()
    async with running_server(database_dsn, clock=clock) as one, running_server(database_dsn, clock=clock) as two:
        async with one.worker() as before:
            await one.app.presence.run_once()
        await no_streams(one)
        async with two.worker(worker_id=before.worker_id):
            await two.app.presence.run_once()
            await one.app.presence.run_once()  # its goodbye comes late, and is for its own stream only
            workers = await listed(one)
            assert list(workers) == [before.worker_id]
            assert workers[before.worker_id].server_id == await server_id(two)


async def test_the_workers_of_a_killed_server_are_forgotten_after_the_silence(database_dsn: str) -> None:
    stopped, clock = VirtualClock(), VirtualClock()
    async with (
        running_server(database_dsn, clock=clock) as alive,
        # For a server whose clock stands still, nobody is vouched for any more: as if it were killed.
        running_server(database_dsn, clock=stopped) as killed,
        alive.worker() as mine,
        killed.worker() as orphan,
    ):
        await killed.app.presence.run_once()
        clock.advance(seconds=SILENCE.total_seconds())
        await alive.app.presence.run_once()
        assert set(await listed(alive)) == {mine.worker_id, orphan.worker_id}
        clock.advance(seconds=1)
        await alive.app.presence.run_once()
        assert set(await listed(alive)) == {mine.worker_id}


async def test_a_server_that_stops_takes_its_workers_off_the_list(database_dsn: str) -> None:
    async with running_server(database_dsn) as stays:
        async with running_server(database_dsn) as stops, stops.worker() as worker:
            await stops.app.presence.run_once()
            assert set(await listed(stays)) == {worker.worker_id}
        assert await listed(stays) == {}


def test_a_server_may_miss_two_of_its_words() -> None:
    assert timedelta(0) < 3 * INTERVAL < SILENCE
