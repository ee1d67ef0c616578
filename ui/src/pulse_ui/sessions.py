"""Who is signed in. Credentials stay in this process, in the SDK's client; the browser has a random id."""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pulse

MOST_SESSIONS = 1000
EXPIRY_INTERVAL = 30.0


@dataclass(frozen=True)
class Session:
    """One sign-in."""

    user: str
    client: pulse.Pulse
    expires: float


class Sessions:
    """The sign-ins by their ids, the oldest first. All last equally long, so the oldest also ends first."""

    def __init__(self, connect: Callable[[str, str], pulse.Pulse], ttl: timedelta) -> None:
        self._connect = connect
        self._ttl = ttl.total_seconds()
        self._sessions: dict[str, Session] = {}

    def find(self, session_id: str) -> Session | None:
        """The session, unless it is unknown or over."""
        session = self._sessions.get(session_id)
        return session if session is not None and session.expires > time.monotonic() else None

    async def open(self, user: str, password: str) -> str:
        """The id of a new session, or the SDK's error where the server does not know these credentials."""
        client = self._connect(user, password)
        try:
            await client.server_info()
        except BaseException:
            await client.close()
            raise
        while len(self._sessions) >= MOST_SESSIONS:
            await self.close(next(iter(self._sessions)))
        session_id = secrets.token_urlsafe(32)
        self._sessions[session_id] = Session(user, client, time.monotonic() + self._ttl)
        return session_id

    async def close(self, session_id: str) -> None:
        """Forget a session and its credentials."""
        if session := self._sessions.pop(session_id, None):
            await session.client.close()

    async def close_all(self) -> None:
        """The dashboard ends."""
        for session_id in list(self._sessions):
            await self.close(session_id)

    async def expire_for_ever(self) -> None:
        """Forget what is over, until cancelled."""
        while True:
            await asyncio.sleep(EXPIRY_INTERVAL)
            for session_id in [each for each in self._sessions if self.find(each) is None]:
                await self.close(session_id)
