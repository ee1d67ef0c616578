"""Pause: nothing is given out, everything else goes on, on every server and over restarts."""

import asyncio

import pytest

from pulse_gen.rpc.pulse.v1 import (
    GetDispatchStatusRequest,
    JobStatus,
    PauseDispatchRequest,
    ResumeDispatchRequest,
)
from pulsed.errors import RequestError
from support.server import Server, running_server


async def pause(server: Server, topic: str = "", reason: str = "maintenance") -> None:
    await server.dispatch.pause_dispatch(PauseDispatchRequest(topic=topic, reason=reason))


async def resume(server: Server, topic: str = "") -> None:
    await server.dispatch.resume_dispatch(ResumeDispatchRequest(topic=topic))


async def test_while_paused_nothing_starts_and_everything_else_goes_on(server: Server) -> None:
    await server.submit_many(2)
    async with server.worker(capacity=2) as worker:
        running, other = await worker.take(2)
        await pause(server)
        waiting = await server.submit()
        assert not (await worker.beat(running, other)).lost
        await worker.complete(running)
        await worker.fail(other, discard=True)
        await server.app.reports.reap_expired()
        await server.app.scheduler.run_once()
        await server.app.dispatcher.run_once()
        assert (await server.job(waiting)).status is JobStatus.PENDING
        assert worker.arrived.empty()
        await resume(server)
        assert (await worker.take_one()).job_id == waiting


async def test_a_paused_topic_leaves_the_others_alone(server: Server) -> None:
    await pause(server, "a")
    held = await server.submit("a", priority=100)
    free = await server.submit("b")
    async with server.worker("a", "b") as worker:
        assert (await worker.take_one()).job_id == free
        await resume(server, "a")
        assert (await worker.take_one()).job_id == held


async def test_resuming_everything_leaves_topics_that_were_paused_on_their_own(server: Server) -> None:
    await pause(server)
    await pause(server, "a")
    await resume(server)
    assert not server.app.gate.is_open("a")
    assert server.app.gate.is_open("b")


async def test_a_pause_holds_over_a_restart_of_everything(database_dsn: str) -> None:
    async with running_server(database_dsn) as server:
        await pause(server)
    async with running_server(database_dsn) as server, server.worker() as worker:
        job_id = await server.submit()
        await server.app.dispatcher.run_once()
        assert (await server.job(job_id)).status is JobStatus.PENDING
        await resume(server)
        await worker.take_one()


async def test_a_pause_reaches_the_other_servers_by_notification(server: Server, database_dsn: str) -> None:
    async with running_server(database_dsn) as other:
        await other.app.listener.connected.wait()
        changed = asyncio.Event()
        other.app.gate.on_change(changed.set)
        await pause(server)
        async with asyncio.timeout(10):
            await changed.wait()
        assert not other.app.gate.is_open("work")


async def test_a_pause_is_found_by_the_refresh_when_nobody_told(server: Server) -> None:
    await server.database.execute("UPDATE dispatch_control SET paused = true, paused_at = now()")
    assert server.app.gate.is_open("work")
    await server.app.gate.refresh()
    assert not server.app.gate.is_open("work")


async def test_a_refresh_that_fails_keeps_the_last_known_state(server: Server) -> None:
    await pause(server, "a")
    await server.database.execute("ALTER TABLE dispatch_control RENAME TO away")
    with pytest.raises(Exception, match="dispatch_control"):
        await server.app.gate.refresh()
    assert not server.app.gate.is_open("a")
    assert server.app.gate.is_open("b")
    await server.database.execute("ALTER TABLE away RENAME TO dispatch_control")


async def test_a_pause_that_could_not_be_written_does_not_take_effect(server: Server) -> None:
    await server.database.execute("ALTER TABLE dispatch_control RENAME TO away")
    with pytest.raises(Exception, match="INTERNAL"):
        await pause(server)
    assert server.app.gate.is_open("work")
    await server.database.execute("ALTER TABLE away RENAME TO dispatch_control")


async def test_a_server_that_cannot_read_the_switch_does_not_start(database_dsn: str, server: Server) -> None:
    await server.database.execute("ALTER TABLE dispatch_control RENAME TO away")
    with pytest.raises((RequestError, Exception), match="dispatch_control"):
        async with running_server(database_dsn):
            pytest.fail("it started")
    await server.database.execute("ALTER TABLE away RENAME TO dispatch_control")


async def test_resume_forgets_the_reason_and_keeps_the_time(server: Server) -> None:
    await pause(server, reason="disk swap")
    status = await server.dispatch.get_dispatch_status(GetDispatchStatusRequest())
    assert status.everything is not None
    assert (status.everything.paused, status.everything.reason) == (True, "disk swap")
    paused_at = status.everything.paused_at
    assert paused_at is not None
    await resume(server)
    status = await server.dispatch.get_dispatch_status(GetDispatchStatusRequest())
    assert status.everything is not None
    assert (status.everything.paused, status.everything.reason) == (False, "")
    assert status.everything.paused_at == paused_at


async def test_resuming_a_topic_that_was_never_paused_is_fine(server: Server) -> None:
    answer = await server.dispatch.resume_dispatch(ResumeDispatchRequest(topic="never"))
    assert answer.switch is not None
    assert not answer.switch.paused
