"""A worker by hand: the test takes jobs from its stream, beats and reports."""

import asyncio
import uuid
from types import TracebackType
from typing import Any, Self

from interop.client import PATIENCE, Client, Message, Refused


class Worker:
    """A worker on a client; `async with` opens its stream."""

    def __init__(self, client: Client, *topics: str, capacity: int = 10, **how: Any) -> None:
        self.client = client
        self.worker_id = str(uuid.uuid4())
        self.assignments: asyncio.Queue[Message] = asyncio.Queue()
        self.cancellations: asyncio.Queue[Message] = asyncio.Queue()
        self._request = {"topics": topics, "capacity": capacity, "host": "interop"}
        self._how = {"timeout": None} | how
        self._connected = asyncio.Event()
        self._reading: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        request = {"worker_id": self.worker_id, **self._request}
        self.stream = self.client.start("WorkerService/StreamJobs", request, **self._how)
        self._reading = asyncio.create_task(self._read())
        async with asyncio.timeout(PATIENCE):
            await self._connected.wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._reading.done():
            self.stream.cancel()
            assert (await self.ended()).code == "CANCELLED"

    async def _read(self) -> None:
        async for message in self.stream:
            self._connected.set()  # by the first message, which is empty
            for assignment in message.get("assignments", ()):
                self.assignments.put_nowait(assignment)
            for cancellation in message.get("cancellations", ()):
                self.cancellations.put_nowait(cancellation)

    async def ended(self) -> Refused:
        """Waits for the end of the stream, which is never OK."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([self._reading])
        ended = self._reading.exception()
        assert isinstance(ended, Refused), ended
        return ended

    async def take(self) -> Message:
        """The next assignment."""
        async with asyncio.timeout(PATIENCE):
            return await self.assignments.get()

    async def report(self, assignment: Message, **outcome: Any) -> None:
        """Reports on one attempt: `success={}`, say."""
        request = {"worker_id": self.worker_id, "result": {**reference(assignment), **outcome}}
        await self.client.call("WorkerService/ReportResult", request)

    async def beat(self, *held: Message) -> Message:
        """Beats for attempts."""
        request = {"worker_id": self.worker_id, "held": [reference(each) for each in held]}
        return await self.client.call("WorkerService/Heartbeat", request)


def reference(assignment: Message) -> Message:
    """Which attempt of which job."""
    return {"job_id": assignment["job_id"], "attempt": assignment["attempt"]}
