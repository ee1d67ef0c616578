"""A gRPC client that somebody else wrote, in a process of its own, driven by JSON lines.

    to it     {"id": 1, "method": "pulse.v1.JobService/GetJob", "requests": [{...}], "metadata": {...}, "timeout": 5}
              {"id": 1, "cancel": true}
    from it   {"id": 1, "message": {...}}               for each message of the answer
              {"id": 1, "code": "OK", "details": ""}    at the end

There is one request, unless the contract has a stream of them. Messages are plain: the field names of the proto, enums
by name, bytes in base64, Durations as `{"seconds": 1}`. So one scenario serves every client, and a client in another
language is one more program in `bridges/`.
"""

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

Message = dict[str, Any]

PATIENCE = 30.0
LONGEST_LINE = 1 << 26
USER, PASSWORD = "anna", "secret"


def basic(user: str, password: str) -> dict[str, str]:
    """Credentials as metadata."""
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


class Refused(Exception):
    """A call that ended with a status other than OK."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code
        self.details = details


class Call:
    """A call in progress: its messages as they come."""

    def __init__(self, client: "Client", call_id: int) -> None:
        self._client = client
        self._id = call_id
        self.lines: asyncio.Queue[Message] = asyncio.Queue()

    def cancel(self) -> None:
        """Ends it from this side."""
        self._client.write({"id": self._id, "cancel": True})

    async def __aiter__(self) -> AsyncIterator[Message]:
        while "message" in (line := await self.lines.get()):
            yield line["message"]
        if line["code"] != "OK":
            raise Refused(line["code"], line["details"])


class Client:
    """One channel to a server. Methods are named as in `JobService/GetJob`."""

    def __init__(self, process: asyncio.subprocess.Process, metadata: Mapping[str, str]) -> None:
        assert process.stdin is not None
        self._input = process.stdin
        self._metadata = metadata
        self._ids = itertools.count(1)
        self._calls: dict[int, Call] = {}

    def start(
        self,
        method: str,
        *requests: Message,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = PATIENCE,
    ) -> Call:
        """Starts a call, as the user of this client unless other metadata is given."""
        call_id = next(self._ids)
        call = self._calls[call_id] = Call(self, call_id)
        self.write(
            {
                "id": call_id,
                "method": method if method.startswith("grpc.") else f"pulse.v1.{method}",
                "requests": requests or [{}],
                "metadata": dict(self._metadata if metadata is None else metadata),
                "timeout": timeout,
            }
        )
        return call

    async def call(self, method: str, *requests: Message, **how: Any) -> Message:
        """Makes a call that has one answer."""
        (answer,) = await self.call_for_all(method, *requests, **how)
        return answer

    async def call_for_all(self, method: str, *requests: Message, **how: Any) -> list[Message]:
        """Makes a call that has many."""
        async with asyncio.timeout(2 * PATIENCE):
            return [message async for message in self.start(method, *requests, **how)]

    async def refusal(self, method: str, *requests: Message, **how: Any) -> Refused:
        """Makes a call that is to fail."""
        try:
            answer = await self.call_for_all(method, *requests, **how)
        except Refused as refused:
            return refused
        raise AssertionError(f"{method} answered {answer}")

    def write(self, command: Message) -> None:
        self._input.write(json.dumps(command).encode() + b"\n")

    async def read(self, output: asyncio.StreamReader) -> None:
        """Gives each line to its call."""
        async for line in output:
            read = json.loads(line)
            self._calls[read["id"]].lines.put_nowait(read)
            if "code" in read:
                del self._calls[read["id"]]


@asynccontextmanager
async def running_client(
    command: Sequence[str], *, metadata: Mapping[str, str], environment: Mapping[str, str], **settings: Any
) -> AsyncIterator[Client]:
    """Starts a bridge, with its settings in JSON as the last argument; ends it with its input."""
    process = await asyncio.create_subprocess_exec(
        *command,
        json.dumps(settings),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=dict(environment),
        limit=LONGEST_LINE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    client = Client(process, metadata)
    reading = asyncio.create_task(client.read(process.stdout))
    try:
        yield client
        process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await reading


# Makes a client of the secured server, or of a plain one by its address; channel options by name, less their `grpc.`.
Connect = Callable[..., AbstractAsyncContextManager[Client]]
