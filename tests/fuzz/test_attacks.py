"""Attacks that have a name, each with what the server has to do about it, and a good client beside them."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress

import hpack
import pytest
import pytest_asyncio

from fuzz.peer import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INFO,
    PADDED,
    PING,
    PREFACE,
    PRIORITIZED,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    STREAM,
    SUBMIT,
    WINDOW_UPDATE,
    Peer,
    block,
    fields,
    frame,
    headers_frames,
    message,
    peer,
    silent_peer,
)
from fuzz.target import Bystander, Target, hunted
from support.postgres import Databases

pytestmark = pytest.mark.asyncio(loop_scope="module")

Attack = Callable[[Peer], list[bytes]]
GOOD = block(*fields())
SUBMISSION = message(b"\x0a\x03\x12\x01t")
ZERO, EIGHT = bytes(4), bytes(8)
FULL = struct.pack(">I", (1 << 31) - 1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hunt(databases: Databases) -> AsyncIterator[tuple[Target, Bystander]]:
    """One server for all attacks: what one of them leaves behind, the end finds."""
    with databases.migrated() as dsn:
        async with hunted(dsn) as hunt:
            yield hunt


def setting(name: int, value: int) -> bytes:
    return frame(SETTINGS, 0, 0, struct.pack(">HI", name, value))


def in_call(make: Callable[[int], list[bytes]], path: str = SUBMIT) -> Attack:
    """Frames on the stream of a call that was opened."""
    return lambda peer: make(peer.open(path))


# The connection goes on: the next call on it is answered.
HARMLESS: dict[str, Attack] = {
    "frames of unknown types": lambda _: [frame(kind, 0xFF, 0, b"?" * kind) for kind in range(0xB, 0xFF, 17)],
    "frame of an unknown type in a call": in_call(lambda stream: [frame(0xBE, 0, stream, b"?")]),
    "alternative services": lambda _: [frame(0xA, 0, 0, b"\0\0x")],
    "settings of unknown names": lambda _: [setting(0x99, 1), setting(0xFFFF, 0xFFFFFFFF)],
    "settings acknowledged that were not sent": lambda _: [frame(SETTINGS, ACK, 0)] * 5,
    "a hundred pings": lambda _: [frame(PING, 0, 0, EIGHT)] * 100,
    "pongs that nobody asked for": lambda _: [frame(PING, ACK, 0, EIGHT)] * 100,
    "priorities of streams that are not there": lambda _: [frame(PRIORITY, 0, 99, struct.pack(">IB", 7, 1))],
    "an enormous header table": lambda _: [setting(1, 0xFFFFFFFF)],
    "no header table": lambda _: [setting(1, 0)],
    "window of a stream overflows": in_call(lambda stream: [frame(WINDOW_UPDATE, 0, stream, FULL)] * 2),
    "data after the end": in_call(
        lambda stream: [frame(DATA, END_STREAM, stream, SUBMISSION), frame(DATA, 0, stream, b"more")]
    ),
    "data after a reset": in_call(lambda stream: [frame(RST_STREAM, 0, stream, ZERO), frame(DATA, 0, stream, b"late")]),
    "trailers of a request": in_call(
        lambda stream: [frame(HEADERS, END_HEADERS | END_STREAM, stream, block((b"x", b"y")))]
    ),
    "headers in fifty parts": lambda peer: headers_frames(
        peer.next_stream(), GOOD, flags=END_STREAM, size=-(-len(GOOD) // 50)
    ),
    "headers with priority and padding": lambda peer: [
        frame(
            HEADERS,
            END_HEADERS | END_STREAM | PADDED | PRIORITIZED,
            peer.next_stream(),
            b"\x04" + struct.pack(">IB", 0, 9) + GOOD + bytes(4),
        )
    ],
}

# RFC 9113 calls these errors of the connection.
FATAL: dict[str, Attack] = {
    "data without a stream": lambda _: [frame(DATA, 0, 0, b"x")],
    "data before headers": lambda _: [frame(DATA, 0, 1, b"x")],
    "headers without a stream": lambda _: [frame(HEADERS, END_HEADERS, 0, GOOD)],
    "a stream of the server's": lambda _: [frame(HEADERS, END_HEADERS, 2, GOOD)],
    "an earlier stream": lambda _: [
        frame(HEADERS, END_HEADERS | END_STREAM, 9, GOOD),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, GOOD),
    ],
    "reset of nothing": lambda _: [frame(RST_STREAM, 0, 7, ZERO)],
    "reset without a stream": lambda _: [frame(RST_STREAM, 0, 0, ZERO)],
    "window by nothing": lambda _: [frame(WINDOW_UPDATE, 0, 0, ZERO)],
    "window of the connection overflows": lambda _: [frame(WINDOW_UPDATE, 0, 0, FULL)] * 2,
    "more padding than frame": in_call(lambda stream: [frame(DATA, PADDED, stream, b"\xffxx")]),
    "padding without a length": in_call(lambda stream: [frame(DATA, PADDED, stream)]),
    "a short ping": lambda _: [frame(PING, 0, 0, bytes(7))],
    "a ping on a stream": lambda _: [frame(PING, 0, 1, EIGHT)],
    "settings cut off": lambda _: [frame(SETTINGS, 0, 0, bytes(5))],
    "settings on a stream": lambda _: [frame(SETTINGS, 0, 3, bytes(6))],
    "an acknowledgement with settings": lambda _: [frame(SETTINGS, ACK, 0, bytes(6))],
    "push is neither on nor off": lambda _: [setting(2, 2)],
    "a window beyond its maximum": lambda _: [setting(4, 1 << 31)],
    "frames smaller than allowed": lambda _: [setting(5, 100)],
    "frames larger than allowed": lambda _: [setting(5, 1 << 24)],
    "a stream that depends on itself": lambda _: [frame(PRIORITY, 0, 5, struct.pack(">IB", 5, 1))],
    "a promise from a client": in_call(
        lambda stream: [frame(PUSH_PROMISE, END_HEADERS, stream, struct.pack(">I", 2) + GOOD)]
    ),
    "a continuation of nothing": lambda _: [frame(CONTINUATION, END_HEADERS, 1, GOOD)],
    "a ping within headers": lambda _: [frame(HEADERS, 0, 1, GOOD), frame(PING, 0, 0, EIGHT)],
    "headers within headers": lambda _: [frame(HEADERS, 0, 1, GOOD), frame(HEADERS, END_HEADERS, 3, GOOD)],
    "headers without end": lambda _: [frame(HEADERS, 0, 1), *[frame(CONTINUATION, 0, 1)] * 10_000],
    "headers twice": in_call(lambda stream: [frame(HEADERS, END_HEADERS, stream, GOOD)]),
    "headers in garbage": lambda _: [frame(HEADERS, END_HEADERS, 1, b"\xff" * 50)],
    "a header table larger than ours": lambda _: [frame(HEADERS, END_HEADERS, 1, b"\x3f\xff\xff\xff\x0f")],
    "a bomb of headers": lambda _: [
        frame(HEADERS, END_HEADERS, 1, hpack.Encoder().encode([(b"a", b"x" * 4000)]) + b"\xbe" * 10_000)
    ],
    "a list of headers beyond its limit": lambda _: headers_frames(1, block(*fields(), (b"x", b"a" * 300_000))),
    "a length that is none": lambda _: [frame(HEADERS, END_HEADERS, 1, block(*fields(content_length="-1")))],
    "more than was promised": lambda _: [
        frame(HEADERS, END_HEADERS, 1, block(*fields(content_length="4"))),
        frame(DATA, END_STREAM, 1, message()),
    ],
    "a frame beyond the limit": lambda _: [frame(DATA, 0, 1, bytes(20_000))],
    "the head of an enormous frame": lambda _: [frame(DATA, 0, 1, bytes(40_000), length=0xFFFFFF)],
    "farewell": lambda _: [frame(GOAWAY, 0, 0, EIGHT)],
    "more streams than allowed": lambda peer: [
        frame(HEADERS, END_HEADERS, peer.next_stream(), block(*fields(SUBMIT))) for _ in range(150)
    ],
    # Not errors of the protocol, but nobody needs so many.
    "a flood of pings": lambda _: [frame(PING, 0, 0, EIGHT)] * 5000,
    "a flood of settings": lambda _: [frame(SETTINGS, 0, 0)] * 5000,
    "a flood of priorities": lambda _: [frame(PRIORITY, 0, 99, struct.pack(">IB", 7, 1))] * 5000,
    "a flood of unknown frames": lambda _: [frame(0xBE, 0, 0)] * 5000,
    "a flood of empty data": in_call(lambda stream: [frame(DATA, 0, stream)] * 5000, STREAM),
    "rapid resets": lambda _: [
        part
        for stream in range(1, 10_001, 2)
        for part in (frame(HEADERS, END_HEADERS, stream, GOOD), frame(RST_STREAM, 0, stream, ZERO))
    ],
}


@pytest.mark.parametrize("name", HARMLESS)
async def test_the_connection_goes_on_after(name: str, hunt: tuple[Target, Bystander]) -> None:
    target, _ = hunt
    async with peer(target.port) as attacker:
        attacker.send(*HARMLESS[name](attacker))
        assert await attacker.call() == 0


@pytest.mark.parametrize("name", FATAL)
async def test_the_server_hangs_up_on(name: str, hunt: tuple[Target, Bystander]) -> None:
    target, _ = hunt
    async with peer(target.port) as attacker:
        attacker.send(*FATAL[name](attacker))
        await attacker.hung_up()


@pytest.mark.parametrize(
    "hello", [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"\x16\x03\x01" + EIGHT]
)
async def test_the_server_hangs_up_on_what_is_not_http2(hello: bytes, hunt: tuple[Target, Bystander]) -> None:
    target, _ = hunt
    async with silent_peer(target.port) as attacker:
        attacker.send(hello)
        await attacker.hung_up()


async def test_a_flood_of_windows_leaves_others_their_turn(hunt: tuple[Target, Bystander]) -> None:
    """Nothing is wrong with these frames, so they are not counted; but each costs the server more than the peer."""
    target, bystander = hunt
    flood = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) * 50_000

    async def attack() -> None:
        async with peer(target.port) as attacker:
            while True:
                attacker.send(flood)
                await attacker.writer.drain()

    attacks = [asyncio.create_task(attack()) for _ in range(4)]
    await bystander.played(5)
    for each in attacks:
        each.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await each


async def test_peers_who_take_their_time_take_it_from_nobody(hunt: tuple[Target, Bystander]) -> None:
    """Some say nothing, some stop in the middle, some never read what they asked for."""
    target, bystander = hunt
    unread = struct.pack(">HI", 4, 0)
    async with AsyncExitStack() as stack:
        for number in range(200):
            hello = [b"", PREFACE[:10], PREFACE, PREFACE + frame(SETTINGS, 0, 0)[:7]][number % 4]
            (await stack.enter_async_context(silent_peer(target.port))).send(hello)
        for _ in range(20):
            in_headers = await stack.enter_async_context(peer(target.port))
            in_headers.send(frame(HEADERS, 0, 1, GOOD[:9]))
            in_body = await stack.enter_async_context(peer(target.port))
            for _ in range(50):
                in_body.send(frame(DATA, 0, in_body.open(SUBMIT), message(b"x", length=1 << 20)))
            not_reading = await stack.enter_async_context(peer(target.port, settings=unread))
            for _ in range(50):
                not_reading.send(frame(DATA, END_STREAM, not_reading.open(INFO), message()))
            pinging = await stack.enter_async_context(peer(target.port))
            pinging.send(*[frame(PING, 0, 0, EIGHT)] * 500)
        await bystander.played(20)


async def test_a_peer_that_comes_again_and_again_leaves_nothing_behind(hunt: tuple[Target, Bystander]) -> None:
    target, bystander = hunt
    async with asyncio.timeout(60):
        for _ in range(300):
            async with peer(target.port) as attacker:
                attacker.open(STREAM)
    await bystander.played(1)
