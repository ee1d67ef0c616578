"""Chance against the server: random requests, calls and frames, for as long as PULSE_FUZZ_SECONDS says."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from grpclib.const import Status

from fuzz.cases import run_cases
from fuzz.messages import Requests, Rpc, is_confined, mutate, rpcs
from fuzz.peer import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INFO,
    PADDED,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    SUBMIT,
    WINDOW_UPDATE,
    HungUp,
    Peer,
    block,
    fields,
    frame,
    message,
    peer,
    silent_peer,
)
from fuzz.target import hunted

# What a server says that broke, or could not keep up: no caller may bring it to that.
FAULTS = {Status.UNKNOWN, Status.INTERNAL, Status.DATA_LOSS, Status.UNAVAILABLE}


async def answer(client: Peer, stream: int, *sent: object) -> int:
    """The status of a call: there has to be one, and one that a caller can bring about."""
    try:
        status = await client.status(stream)
        assert status < 0 or Status(status) not in FAULTS, Status(status)
    except Exception as error:
        error.add_note(f"that was the answer to {sent}")
        raise
    return status


def is_harmless(rpc: Rpc, data: bytes) -> bool:
    """Whether the good client would be spared by a request, should the server take it."""
    try:
        return is_confined(rpc.request_class.FromString(data))
    except DecodeError:
        return True


async def test_random_requests_to_every_rpc(database_dsn: str) -> None:
    requests = Requests()

    async def case(chance: Random) -> None:
        async with peer(target.port) as client:
            for rpc in chance.sample(rpcs(), 10):
                request = requests.make(rpc.request, chance, chance.choice([0.0, 0.02, 0.2]))
                data = request.SerializeToString()
                if chance.random() < 0.3:
                    data = mutate(data, chance)
                if not is_harmless(rpc, data):
                    continue
                timeout = "50m" if rpc.is_streaming else "30S"
                stream = client.open(rpc.path, grpc_timeout=timeout)
                client.send(frame_data(stream, message(data), chance))
                status = await answer(client, stream, rpc.path, data)
                if status == 0 and not rpc.is_streaming:
                    requests.learn(rpc.response_class.FromString(client.bodies[stream][5:]))

    async with hunted(database_dsn) as (target, _):
        await run_cases("requests", case)


def frame_data(stream: int, data: bytes, chance: Random) -> bytes:
    """The body of a call, cut into frames at random."""
    frames = []
    while len(data) > 16_000 or (data and chance.random() < 0.3):
        size = chance.randrange(min(len(data), 16_000) + 1)
        padding = chance.choice([None, None, 0, 7])
        if padding is None:
            frames.append(frame(DATA, 0, stream, data[:size]))
        else:
            frames.append(frame(DATA, PADDED, stream, bytes([padding]) + data[:size] + bytes(padding)))
        data = data[size:]
    return b"".join([*frames, frame(DATA, END_STREAM, stream, data)])


TIMEOUTS = ["1S", "100m", "1n", "0S", "", "S", "-1S", "1.5S", "99999999H", "100000000S", "1X", " 1S", "1S ", "9" * 5000]
BINARY = ["", "AA", "AAA=", "AAAA,BBBB", "A", "=", "====", "%", "ä", "AA\0"]
CONTENT_TYPES = ["application/grpc", "application/grpc+proto", "application/grpc+json", "application/json", "", "\0"]
PATHS = ["", "/", "//", "*", INFO, INFO + "/", INFO.lower(), SUBMIT, "/grpc.reflection.v1.ServerReflection/Info", "/ä"]


def spoil(chance: Random) -> dict[str, Any]:
    """Changes to the headers of a call."""
    ways: list[dict[str, Any]] = [
        {"grpc_timeout": chance.choice(TIMEOUTS)},
        {"x_bin": chance.choice(BINARY), "grpc_trace_bin": chance.choice(BINARY)},
        {"content_type": chance.choice([None, *CONTENT_TYPES])},
        {"te": chance.choice([None, "", "gzip", "trailers"])},
        {"_method": chance.choice([None, "GET", "PUT", "", "post"])},
        {"_path": chance.choice([None, *PATHS])},
        {"_scheme": chance.choice([None, "ftp", ""])},
        {"_status": "200"},
        {"grpc_encoding": chance.choice(["gzip", "identity", "x" * 1000])},
        {"authorization": chance.choice(["", "Basic", "Basic %", "Basic " + "A" * 5000, "Bearer x"])},
        {"connection": "close", "transfer_encoding": "chunked", "host": "x"},
        {"X_UPPER": "x", "": "nameless", " ": " ", "x\ny": "a\r\nb"},
        {f"x_{number}": chance.randbytes(chance.choice([0, 10, 900])) for number in range(chance.choice([1, 15]))},
    ]
    return {name: value for way in chance.sample(ways, chance.choice([0, 1, 1, 2, 4])) for name, value in way.items()}


async def test_calls_with_random_headers_and_bodies(database_dsn: str) -> None:
    async def case(chance: Random) -> None:
        async with peer(target.port) as client:
            for _ in range(10):
                headers = spoil(chance)
                length = chance.choice([None, None, 0, 1, 1 << 24, 0xFFFFFFFF])
                data = message(chance.randbytes(chance.choice([0, 1, 30])), length=length)
                stream = client.open(chance.choice([SUBMIT, INFO]), **headers)
                body = chance.choice([b"", data, data * 2, data[:3], chance.randbytes(20)])
                client.send(frame_data(stream, body, chance))
                await answer(client, stream, headers, body)

    async with hunted(database_dsn) as (target, _):
        await run_cases("calls", case)


def random_frame(client: Peer, chance: Random) -> bytes:
    """A frame that is right, nearly right, or nothing of the kind."""
    stream = chance.choice([0, 1, 1, 3, 5, 2, 99, 0x7FFFFFFF, 0xFFFFFFFF])
    good = block(*fields(chance.choice([INFO, SUBMIT])))
    match chance.randrange(9):
        case 0:
            return frame(HEADERS, chance.choice([END_HEADERS, END_HEADERS | END_STREAM]), client.next_stream(), good)
        case 1:
            return frame(DATA, chance.choice([0, END_STREAM]), stream, message(chance.randbytes(20)))
        case 2:
            return frame(HEADERS, chance.choice([0, END_HEADERS]), client.next_stream(), mutate(good, chance))
        case 3:
            return frame(CONTINUATION, chance.choice([0, END_HEADERS]), stream, mutate(good, chance))
        case 4:
            return frame(SETTINGS, 0, 0, bytes([0, chance.randrange(10)]) + chance.randbytes(4))
        case 5:
            return frame(WINDOW_UPDATE, 0, stream, chance.randbytes(4))
        case 6:
            return frame(RST_STREAM, 0, stream, chance.randbytes(4))
        case 7:
            payload = chance.randbytes(chance.choice([0, 4, 8, 50]))
            length = chance.choice([None, None, None, 0, 8, 0xFFFFFF])
            return frame(chance.randrange(12), chance.randrange(256), stream, payload, length=length)
        case _:
            return chance.randbytes(chance.choice([1, 9, 100]))


async def test_random_frames(database_dsn: str) -> None:
    async def case(chance: Random) -> None:
        async with silent_peer(target.port) as client:
            hello = PREFACE + frame(SETTINGS, 0, 0)
            client.send(mutate(hello, chance) if chance.random() < 0.1 else hello)
            for _ in range(chance.choice([1, 5, 30])):
                client.send(random_frame(client, chance))
            with suppress(ConnectionError):
                await client.writer.drain()
            if chance.random() < 0.5:
                with suppress(TimeoutError, HungUp):
                    async with asyncio.timeout(0.05):
                        await client.read_until(lambda: False)

    async with hunted(database_dsn) as (target, _):
        await run_cases("frames", case)
