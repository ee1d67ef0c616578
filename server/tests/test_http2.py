"""Peers who mean harm, or just do it differently: each gets an answer, and none takes anything from the others."""

import struct
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from grpclib.const import Status
from h2.errors import ErrorCodes

from fuzz.peer import (
    DATA,
    END_STREAM,
    INFO,
    PING,
    RST_STREAM,
    SUBMIT,
    Peer,
    frame,
    message,
    peer,
)
from pulsed import http2, transport
from support.server import Server, running_server

SUBMISSION = message(b"\x0a\x03\x12\x01t")
MESSAGE = b"grpc-message"


@pytest.mark.parametrize(
    ("headers", "http_status", "begins"),
    [
        ({"grpc_timeout": ""}, 200, b"grpc-timeout: "),
        ({"grpc_timeout": "S"}, 200, b"grpc-timeout: "),
        ({"grpc_timeout": "1"}, 200, b"grpc-timeout: "),
        ({"grpc_timeout": "-1S"}, 200, b"grpc-timeout: "),
        ({"grpc_timeout": "1X"}, 200, b"grpc-timeout: "),
        ({"grpc_timeout": "1S\n"}, 200, b"grpc-timeout: "),
        ({"grpc_timeout": "123456789S"}, 200, b"grpc-timeout: "),
        ({"grpc_timeout": "9" * 5000 + "S"}, 200, b"grpc-timeout: "),
        ({"trace_bin": "A"}, 200, b"trace-bin: "),
        ({"trace_bin": b"\xff\xfe"}, 200, b"trace-bin: "),
        ({"content_type": None}, 415, b"content-type: "),
        ({"content_type": "application/json"}, 415, b"content-type: "),
        ({"content_type": "application/grpc+json"}, 415, b"content-type: "),
        ({"te": None}, 400, b"te: "),
        ({"_method": None}, 400, b"a call has the headers :method"),
        ({"_path": None}, 400, b"a call has the headers :method"),
    ],
)
async def test_broken_headers_are_named(
    server: Server, headers: dict[str, Any], http_status: int, begins: bytes
) -> None:
    async with peer(server.app.port) as client:
        assert await client.call(INFO, **headers) == Status.INVALID_ARGUMENT.value
        answer = client.answers[1]
        assert answer[b":status"] == str(http_status).encode()
        assert answer[MESSAGE].startswith(begins)
        assert await client.call() == Status.OK.value


@pytest.mark.parametrize(
    "headers",
    [
        {"grpc_timeout": "99999999H"},
        {"trace_bin": "AAA"},
        {"trace_bin": "AAA="},
        {"trace_bin": "AAAA,BBBB"},
        {"x_name": b"\xff\xfe"},
        {"x_näme": "ä"},
        {"content_type": "application/grpc+proto"},
    ],
)
async def test_strange_headers_are_taken(server: Server, headers: dict[str, Any]) -> None:
    async with peer(server.app.port) as client:
        assert await client.call(INFO, **headers) == Status.OK.value


@pytest.mark.parametrize("timeout", ["0S", "1n", "1m"])
async def test_a_call_whose_time_is_over_when_it_arrives_is_overdue(server: Server, timeout: str) -> None:
    async with peer(server.app.port) as client:
        call = client.open(SUBMIT, grpc_timeout=timeout)
        assert await client.status(call) == Status.DEADLINE_EXCEEDED.value


async def test_a_deadline_is_the_calls_own(server: Server) -> None:
    async with peer(server.app.port) as client:
        overdue = client.open(SUBMIT, grpc_timeout="1m")
        patient = client.open(SUBMIT)
        assert await client.status(overdue) == Status.DEADLINE_EXCEEDED.value
        client.send(frame(DATA, END_STREAM, patient, SUBMISSION))
        assert await client.status(patient) == Status.OK.value


async def test_frames_of_unknown_types_are_ignored(server: Server) -> None:
    async with peer(server.app.port) as client:
        call = client.open(SUBMIT)
        client.send(frame(0xBE, 0xFF, 0, b"?"), frame(0xBE, 0xFF, call, b"?"))
        client.send(frame(DATA, END_STREAM, call, SUBMISSION))
        assert await client.status(call) == Status.OK.value


async def test_empty_frames_are_no_end_of_a_message(server: Server) -> None:
    async with peer(server.app.port) as client:
        call = client.open(SUBMIT)
        for byte in SUBMISSION:
            client.send(frame(DATA, 0, call), frame(DATA, 0, call, bytes([byte])))
        client.send(frame(DATA, END_STREAM, call))
        assert await client.status(call) == Status.OK.value


async def test_a_flood_of_idle_frames_ends_the_connection_and_says_why(server: Server) -> None:
    async with peer(server.app.port) as client:
        client.send(*[frame(PING, 0, 0, bytes(8))] * (http2.IDLE_FRAMES // 2))
        assert await client.call() == Status.OK.value
        client.send(*[frame(PING, 0, 0, bytes(8))] * http2.IDLE_FRAMES)
        await client.hung_up()
        assert client.farewell == ErrorCodes.ENHANCE_YOUR_CALM
    await server.submit()


async def test_an_error_of_the_protocol_is_told(server: Server) -> None:
    async with peer(server.app.port) as client:
        client.send(frame(DATA, 0, 1, b"before headers"))
        await client.hung_up()
        assert client.farewell == ErrorCodes.PROTOCOL_ERROR


async def test_a_frame_that_is_too_long_is_refused_by_its_head(server: Server) -> None:
    async with peer(server.app.port) as client:
        client.send(frame(DATA, 0, 1, bytes(2 * http2.LONGEST_FRAME), length=0xFFFFFF))
        await client.hung_up()
        assert client.farewell == ErrorCodes.FRAME_SIZE_ERROR


async def test_a_larger_table_than_ours_is_not_used(server: Server) -> None:
    async with peer(server.app.port, settings=struct.pack(">HI", 1, 1 << 20)) as client:
        assert await client.call() == Status.OK.value
        assert client.decoder.header_table_size == http2.HEADER_TABLE_BYTES


async def test_calls_that_are_reset_at_once_leave_no_trace(server: Server) -> None:
    """In one piece, so that none of them gets to its first step; what they sent does not count against the window."""
    body = message(bytes(15_000), length=1 << 20)
    async with peer(server.app.port) as client:
        for _ in range(http2.IDLE_FRAMES // 2):
            call = client.open(SUBMIT)
            client.send(frame(DATA, 0, call, body), frame(RST_STREAM, 0, call, bytes(4)))
        assert await client.call() == Status.OK.value


async def test_much_at_once_is_taken_in_bites(server: Server) -> None:
    """Many calls in one piece, each frame of which falls across two bites somewhere."""
    async with peer(server.app.port) as client:
        calls = [client.open(SUBMIT) for _ in range(90)]
        for call in calls:
            client.send(frame(DATA, END_STREAM, call, SUBMISSION))
        await client.read_until(lambda: set(calls) <= client.ended)
        assert {client.answers[call][b"grpc-status"] for call in calls} == {b"0"}
        large = client.open(SUBMIT)
        payload = b"x" * 900_000
        job = b"\x12\x01t\x1a" + varint(len(payload)) + payload + b"\x22\x01x"
        data = message(b"\x0a" + varint(len(job)) + job)
        for start in range(0, len(data), 16_000):
            client.send(frame(DATA, 0, large, data[start : start + 16_000]))
        client.send(frame(DATA, END_STREAM, large))
        assert await client.status(large) == Status.OK.value


def varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


async def test_an_error_fits_into_the_headers_that_clients_take(server: Server) -> None:
    async with peer(server.app.port) as client:
        text = "ä".encode() * 7_000
        request = message(b"\x0a" + varint(len(text)) + text)
        assert await client.call("/grpc.health.v1.Health/Check", request) == Status.NOT_FOUND.value
        assert len(client.answers[1][MESSAGE]) < 4096


async def open_bodies(client: Peer, count: int, size: int) -> list[int]:
    """Calls whose long messages have arrived but for the last byte."""
    calls = [client.open(SUBMIT) for _ in range(count)]
    for call in calls:
        data = message(bytes(size - 1), length=size)
        for start in range(0, len(data), 16_000):
            client.send(frame(DATA, 0, call, data[start : start + 16_000]))
    return calls


async def test_long_messages_take_only_so_much_room_while_they_arrive(database_dsn: str) -> None:
    limit = 1 << 17
    count = transport.MESSAGES_ARRIVING
    async with running_server(database_dsn, max_message_bytes=limit) as server, peer(server.app.port) as hoarder:
        held = await open_bodies(hoarder, count, limit)
        await hoarder.call()  # what was sent before has been read
        async with peer(server.app.port) as other:
            (refused,) = await open_bodies(other, 1, limit)
            assert await other.status(refused) == Status.RESOURCE_EXHAUSTED.value
            short = other.open(SUBMIT)
            other.send(frame(DATA, END_STREAM, short, SUBMISSION))
            assert await other.status(short) == Status.OK.value
        for call in held:
            hoarder.send(frame(RST_STREAM, 0, call, bytes(4)))
        assert await hoarder.call() == Status.OK.value
        (taken,) = await open_bodies(hoarder, 1, limit)
        hoarder.send(frame(DATA, END_STREAM, taken, b"\0"))
        assert await hoarder.status(taken) == Status.INVALID_ARGUMENT.value  # zeros are no message, but they were read


async def test_a_long_message_has_to_arrive_in_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "LONGEST_ARRIVAL", timedelta(milliseconds=50))
    async with peer(server.app.port) as client:
        (call,) = await open_bodies(client, 1, 1 << 17)
        assert await client.status(call) == Status.RESOURCE_EXHAUSTED.value
        assert b"did not arrive" in client.answers[call][MESSAGE]


async def test_a_stop_says_farewell(database_dsn: str) -> None:
    async with AsyncExitStack() as stack:
        async with running_server(database_dsn) as server:
            client = await stack.enter_async_context(peer(server.app.port))
            client.send(frame(PING, 0, 0, bytes(8)))
            await client.read_until(lambda: client.pongs == 1)  # all that we sent has been read
        await client.hung_up()
        assert client.farewell == ErrorCodes.NO_ERROR
