"""One connection to the server for each event loop that uses it, opened when it is first needed."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from grpclib.client import Channel, Handler, StreamStreamMethod
from grpclib.config import Configuration
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from h2.settings import SettingCodes

from pulse._errors import BROKEN_CALLS, translate_error
from pulse._settings import ConnectionSettings
from pulse._submit_stream import Batch, Call, SubmitStream, send_batches
from pulse_gen.codec import Codec, QuickProtocol
from pulse_gen.rpc.pulse.v1 import JobSubmission, StreamSubmitsRequest, StreamSubmitsResponse, SubmitJobResponse

Stub = TypeVar("Stub")
Response = TypeVar("Response")

# A server that vanished without a word is noticed by an unanswered ping within half a minute. grpclib spells its knobs
# with an underscore. The windows let a batch of assignments travel without waiting for the reader.
KEEPALIVE = Configuration(
    _keepalive_time=15.0,
    _keepalive_timeout=10.0,
    _keepalive_permit_without_calls=True,
    _http2_max_pings_without_data=0,
    _http2_min_sent_ping_interval_without_data=10.0,
    http2_connection_window_size=16 << 20,
    http2_stream_window_size=16 << 20,
)

LARGEST_FRAME = 1 << 20

SUBMITS = "/pulse.v1.JobService/StreamSubmits"

FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0


def full_jitter(attempt: int, *, first: float = FIRST_WAIT, longest: float = LONGEST_WAIT) -> float:
    """The wait before try number `attempt` + 1: anything up to a bound that doubles, so that a crowd spreads out."""
    return random.random() * min(longest, first * 2.0 ** min(attempt, 30))


class ClientProtocol(QuickProtocol):
    """A connection over which a batch of assignments comes in one frame."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins it."""
        super().connection_made(transport)
        self.connection._connection.update_settings({SettingCodes.MAX_FRAME_SIZE: LARGEST_FRAME})
        self.connection.flush()


class QuickChannel(Channel):
    """grpclib's channel with a protocol that has less work for each message."""

    def _protocol_factory(self) -> ClientProtocol:
        return ClientProtocol(Handler(), self._config, self._h2_config)


def open_channel(settings: ConnectionSettings) -> Channel:
    """A channel on the running loop; it connects with its first call, and again whenever it has to."""
    return QuickChannel(settings.host, settings.port, codec=Codec(), ssl=settings.tls, config=KEEPALIVE)


class Line(NamedTuple):
    """What one event loop has open."""

    channel: Channel
    open_submits: Callable[[], Call]
    submits: SubmitStream


class Connection:
    """Makes calls: with a deadline, with credentials, and again where that is safe."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        # A channel belongs to a loop. Programs have one; tests and asyncio.run() in a row have several.
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = WeakKeyDictionary()
        self._metadata = {"authorization": settings.authorization} if settings.authorization else None

    def _line(self) -> Line:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = self._lines[loop] = self._open_line()
        return line

    def _open_line(self) -> Line:
        channel = open_channel(self.settings)
        method = StreamStreamMethod(channel, SUBMITS, StreamSubmitsRequest, StreamSubmitsResponse)

        def open_submits() -> Call:
            return method.open(metadata=self._metadata)

        return Line(channel, open_submits, SubmitStream(open_submits, self.settings.timeout))

    def stub(self, kind: Callable[..., Stub]) -> Stub:
        """A generated stub on the connection of the running loop."""
        return kind(self._line().channel, metadata=self._metadata)

    async def call(
        self,
        service: Callable[..., Any],
        method: Callable[..., Awaitable[Response]],
        request: object,
        *,
        repeatable: bool = False,
        timeout: float | None = None,
    ) -> Response:
        """The answer, or an error of our tree.

        What did not reach the server is tried again; what may have reached it only if it is `repeatable`.
        """

        def attempt(remaining: float) -> Awaitable[Response]:
            return method(self.stub(service), request, timeout=remaining)

        return await self._insist(attempt, repeatable, self.settings.timeout if timeout is None else timeout)

    async def submit(self, job: JobSubmission) -> SubmitJobResponse:
        """Store one job, over a call that stays open."""

        def attempt(remaining: float) -> Awaitable[SubmitJobResponse]:
            return self._line().submits.submit(job, remaining)

        return await self._insist(attempt, True, self.settings.timeout)

    async def submit_batches(self, batches: Iterator[Batch]) -> AsyncGenerator[list[SubmitJobResponse], None]:
        """Store batches, each whole or not at all, over one call. Yields the results of each."""
        unanswered: deque[Batch] = deque()
        tries = self._new_tries(self.settings.timeout)
        while True:
            try:
                async with self._line().open_submits() as call:
                    async for results in send_batches(call, batches, unanswered, self.settings.timeout):
                        yield results
                        tries = self._new_tries(self.settings.timeout)
                return
            except BROKEN_CALLS as error:
                await tries.again(error, repeatable=True)

    async def _insist(
        self, attempt: Callable[[float], Awaitable[Response]], repeatable: bool, timeout: float
    ) -> Response:
        tries = self._new_tries(timeout)
        while True:
            try:
                return await attempt(tries.remaining())
            except BROKEN_CALLS as error:
                await tries.again(error, repeatable)

    def _new_tries(self, timeout: float) -> "Tries":
        return Tries(self.settings, asyncio.get_running_loop().time() + timeout)

    async def close(self) -> None:
        """Close the connection of the running loop; the next call opens another."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.submits.close()
            line.channel.close()
            # Lets the transport say goodbye before the loop may be closed.
            await asyncio.sleep(0)


class Tries:
    """How often, and until when, something is tried."""

    def __init__(self, settings: ConnectionSettings, deadline: float) -> None:
        self._settings = settings
        self._deadline = deadline
        self._failed = 0

    def remaining(self) -> float:
        """How long the next try may take."""
        return max(0.001, self._deadline - asyncio.get_running_loop().time())

    async def again(self, error: Exception, repeatable: bool) -> None:
        """Wait until it is time for another try; raise the error, as one of our tree, if none is worth it."""
        wait = full_jitter(self._failed)
        self._failed += 1
        in_time = self._failed <= self._settings.retries and wait < self.remaining()
        if not (in_time and _worth_another_try(error, repeatable)):
            raise translate_error(error, self._settings.address) from error
        await asyncio.sleep(wait)


def _worth_another_try(error: Exception, repeatable: bool) -> bool:
    if isinstance(error, GRPCError):
        return repeatable and error.status is Status.UNAVAILABLE
    if isinstance(error, TimeoutError):
        return False
    # Refused: nothing was sent. A connection that broke may have carried the call.
    return repeatable or isinstance(error, ConnectionRefusedError)
