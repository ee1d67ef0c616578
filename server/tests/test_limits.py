"""Limits of the wire: nothing too long is read, nobody too many is let in, nobody who is gone stays."""

import asyncio
from dataclasses import replace

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse_gen.codec import Codec
from pulse_gen.rpc.grpc.health.v1 import HealthCheckRequest
from pulse_gen.rpc.pulse.v1 import GetJobRequest, GetServerInfoRequest, JobSubmission, SubmitJobRequest
from pulsed import http2
from support.server import PATIENCE, Client, Server, running_server
from support.wire import frame, raw_connection

SUBMIT = "/pulse.v1.JobService/SubmitJob"
INFO = "/pulse.v1.StatsService/GetServerInfo"


async def test_an_enormous_length_is_refused_before_a_byte_of_it_is_read(server: Server) -> None:
    async with raw_connection(server.app.port) as raw:
        call = await raw.open(SUBMIT)
        await raw.send(call, frame(length=0xFFFFFFFF))
        answer = await raw.answer(call)
        assert answer.status is Status.RESOURCE_EXHAUSTED
        assert "4294967295" in answer.message
        assert "PULSE_MAX_MESSAGE_BYTES" in answer.message
    await server.submit()


async def test_refused_bodies_do_not_stall_the_other_calls_of_their_connection(database_dsn: str) -> None:
    """What was sent and never read counts against the window of the whole connection, unless it is given back."""
    async with (
        running_server(database_dsn, max_message_bytes=1 << 16) as server,
        raw_connection(server.app.port) as raw,
    ):
        for _ in range(3):
            call = await raw.open(SUBMIT)
            await raw.send(call, frame(b"x" * (3 << 20)))
            assert (await raw.answer(call)).status is Status.RESOURCE_EXHAUSTED
        assert (await raw.call(INFO, frame())).status is Status.OK


async def test_a_message_of_exactly_the_limit_is_read(database_dsn: str) -> None:
    limit = 1 << 16
    async with running_server(database_dsn, max_message_bytes=limit) as server:
        fitting = SubmitJobRequest(job=JobSubmission(topic="t", content_type="x"))
        assert fitting.job is not None
        fitting.job.payload = b"x" * (limit - 20)
        fitting.job.payload += b"x" * (limit - len(Codec().encode(fitting, SubmitJobRequest)))
        stored = await server.jobs.submit_job(fitting)
        assert len((await server.job(stored.job_id)).payload) == len(fitting.job.payload)
        fitting.job.payload += b"x"
        with pytest.raises(GRPCError) as caught:
            await server.jobs.submit_job(fitting)
        assert caught.value.status is Status.RESOURCE_EXHAUSTED


async def test_a_call_that_was_opened_and_left_harms_nobody(server: Server) -> None:
    async with raw_connection(server.app.port) as raw:
        for _ in range(50):
            await raw.send(await raw.open(SUBMIT), frame(length=100))
        await server.submit()


async def test_what_is_not_http2_is_hung_up_on(server: Server) -> None:
    async with asyncio.timeout(PATIENCE):
        for nonsense in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(range(256)) * 10, b"\x16\x03\x01" + bytes(100)):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.app.port)
            writer.write(nonsense)
            await reader.read()
            writer.close()
    await server.submit()


async def test_an_unknown_method_is_unimplemented(server: Server) -> None:
    async with raw_connection(server.app.port) as raw:
        assert (await raw.call("/pulse.v1.JobService/Nothing", frame())).status is Status.UNIMPLEMENTED


async def test_connections_beyond_the_limit_are_refused_and_room_is_made_by_those_that_leave(
    database_dsn: str,
) -> None:
    async with running_server(database_dsn, max_connections=2) as server:
        await server.submit()  # the first connection
        second = Client(server.app.port)
        await second.stats.get_server_info(GetServerInfoRequest())
        async with raw_connection(server.app.port) as third:
            await third.closed()
        await server.submit()
        await second.stats.get_server_info(GetServerInfoRequest())
        second.channel.close()
        await until_a_connection_is_taken(server.app.port)


async def until_a_connection_is_taken(port: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                async with raw_connection(port) as raw:
                    assert (await raw.call(INFO, frame())).status is Status.OK
            except ConnectionError:
                await asyncio.sleep(0.01)
            else:
                return


async def test_a_peer_that_answers_no_ping_is_let_go(database_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = replace(
        http2.KEEPALIVE,
        _keepalive_time=0.05,
        _keepalive_timeout=0.05,
        _http2_min_sent_ping_interval_without_data=0.01,
    )
    monkeypatch.setattr(http2, "KEEPALIVE", quick)
    async with running_server(database_dsn) as server, raw_connection(server.app.port) as raw:
        await raw.closed()


def test_a_silent_peer_is_noticed_within_a_minute() -> None:
    config = http2.KEEPALIVE
    assert config._keepalive_time is not None
    assert config._keepalive_time + config._keepalive_timeout <= 60
    assert config._keepalive_permit_without_calls
    assert config._http2_max_pings_without_data == 0  # no bound on pings: a worker may wait for days
    assert config._http2_min_sent_ping_interval_without_data <= config._keepalive_time


async def test_a_deadline_ends_a_call(server: Server) -> None:
    async with raw_connection(server.app.port) as raw:
        answer = await raw.call(SUBMIT, None, grpc_timeout="10m")
        assert answer.status is Status.DEADLINE_EXCEEDED


async def test_health_answers_for_every_service_and_watches(server: Server) -> None:
    for service in ("", "pulse.v1.JobService", "pulse.v1.WorkerService"):
        answer = await server.health.check(HealthCheckRequest(service=service))
        assert answer.status.name == "SERVING"
    with pytest.raises(GRPCError) as caught:
        await server.health.check(HealthCheckRequest(service="nothing"))
    assert caught.value.status is Status.NOT_FOUND
    async with asyncio.timeout(PATIENCE):
        watch = server.health.watch(HealthCheckRequest())
        unknown = server.health.watch(HealthCheckRequest(service="nothing"))
        assert (await anext(watch)).status.name == "SERVING"
        assert (await anext(unknown)).status.name == "SERVICE_UNKNOWN"
        server.app.health.set_ready(False)
        assert (await anext(watch)).status.name == "NOT_SERVING"
        server.app.health.set_ready(True)
        assert (await anext(watch)).status.name == "SERVING"


async def test_a_health_watch_does_not_hold_up_the_stop(database_dsn: str) -> None:
    """Load balancers watch for as long as they live; a stop that waits for them waits in vain."""
    client: Client | None = None
    try:
        async with asyncio.timeout(PATIENCE):
            async with running_server(database_dsn, shutdown_timeout="1h") as server:
                client = Client(server.app.port)
                watch = client.health.watch(HealthCheckRequest())
                assert (await anext(watch)).status.name == "SERVING"
    finally:
        if client is not None:
            client.channel.close()


async def test_a_stop_waits_for_calls_in_progress_and_ends_them_after_its_time(database_dsn: str) -> None:
    async with asyncio.timeout(PATIENCE):
        async with running_server(database_dsn, shutdown_timeout="100ms") as server:
            stuck = await asyncio.open_connection("127.0.0.1", server.app.port)
            async with raw_connection(server.app.port) as raw:
                await raw.send(await raw.open(SUBMIT), frame(length=100))
                await server.submit()
        stuck[1].close()


async def test_the_server_blames_itself_for_an_answer_that_it_can_not_write(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = await server.submit()
    monkeypatch.setattr("pulsed.rpc.job_service.write_job", lambda job: "no message")
    with pytest.raises(GRPCError) as caught:
        await server.jobs.get_job(GetJobRequest(job_id=job_id))
    assert caught.value.status is Status.INTERNAL
    assert "no message" not in str(caught.value.message)
    assert [record.message for record in caplog.records if record.name == "pulsed.transport"] == ["call failed"]
