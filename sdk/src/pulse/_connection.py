"""One connection to the server for each event loop that uses it, opened when it is first needed."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from grpclib.client import Channel
from grpclib.config import Configuration
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse._errors import BROKEN_CALLS, translate_error
from pulse._settings import ConnectionSettings
from pulse_gen.codec import Codec

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

FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0


def full_jitter(attempt: int, *, first: float = FIRST_WAIT, longest: float = LONGEST_WAIT) -> float:
    """The wait before try number `attempt` + 1: anything up to a bound that doubles, so that a crowd spreads out."""
    return random.random() * min(longest, first * 2.0 ** min(attempt, 30))


def open_channel(settings: ConnectionSettings) -> Channel:
    """A channel on the running loop; it connects with its first call, and again whenever it has to."""
    return Channel(settings.host, settings.port, codec=Codec(), ssl=settings.tls, config=KEEPALIVE)


class Connection:
    """Makes calls: with a deadline, with credentials, and again where that is safe."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        # A channel belongs to a loop. Programs have one; tests and asyncio.run() in a row have several.
        self._channels: WeakKeyDictionary[asyncio.AbstractEventLoop, Channel] = WeakKeyDictionary()
        self._metadata = {"authorization": settings.authorization} if settings.authorization else None

    def stub(self, kind: Callable[..., Stub]) -> Stub:
        """A generated stub on the connection of the running loop."""
        loop = asyncio.get_running_loop()
        channel = self._channels.get(loop)
        if channel is None:
            channel = self._channels[loop] = open_channel(self.settings)
        return kind(channel, metadata=self._metadata)

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
        timeout = self.settings.timeout if timeout is None else timeout
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        attempt = 0
        while True:
            try:
                return await method(self.stub(service), request, timeout=max(0.001, deadline - loop.time()))
            except BROKEN_CALLS as error:
                wait = full_jitter(attempt)
                attempt += 1
                again = attempt <= self.settings.retries and loop.time() + wait < deadline
                if not (again and _worth_another_try(error, repeatable)):
                    raise translate_error(error, self.settings.address) from error
            await asyncio.sleep(wait)

    async def close(self) -> None:
        """Close the connection of the running loop; the next call opens another."""
        channel = self._channels.pop(asyncio.get_running_loop(), None)
        if channel is not None:
            channel.close()
            # Lets the transport say goodbye before the loop may be closed.
            await asyncio.sleep(0)


def _worth_another_try(error: Exception, repeatable: bool) -> bool:
    if isinstance(error, GRPCError):
        return repeatable and error.status is Status.UNAVAILABLE
    if isinstance(error, TimeoutError):
        return False
    # Refused: nothing was sent. A connection that broke may have carried the call.
    return repeatable or isinstance(error, ConnectionRefusedError)
