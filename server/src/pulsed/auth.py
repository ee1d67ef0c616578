"""Who is calling: Basic credentials on every RPC, checked on the headers, before a body is read."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar

import bcrypt

from pulsed.errors import StartupError, Unauthenticated

# The user of the call in progress; empty where the server has no users.
current_user: ContextVar[str] = ContextVar("current_user", default="")

# Checking a hash takes a good part of a second of CPU by design: a flood of wrong passwords must not take every core.
CONCURRENT_CHECKS = 2
REMEMBERED = 1024
# bcrypt looks at no more of a password.
LONGEST_PASSWORD = 72
# Version, cost, and then salt and digest in bcrypt's own base64.
HASH = re.compile(r"(\$2[abxy]\$(?:0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{22})[./A-Za-z0-9]{31}")


def parse_users(text: str) -> dict[str, str]:
    """`user:password` pairs, comma separated."""
    users: dict[str, str] = {}
    for pair in text.split(","):
        user, separator, password = pair.strip().partition(":")
        if not user or not separator or not password:
            raise StartupError("PULSE_AUTH_USERS: each entry is user:password, separated by commas")
        if user in users:
            raise StartupError(f"PULSE_AUTH_USERS: {user!r} stands there twice")
        if password.startswith("$2"):
            if HASH.fullmatch(password) is None:
                raise StartupError(
                    f"PULSE_AUTH_USERS: the bcrypt hash of {user!r} is broken; make one with `pulse passwd`"
                )
        elif len(password.encode()) > LONGEST_PASSWORD:
            raise StartupError(f"PULSE_AUTH_USERS: the password of {user!r} has more than {LONGEST_PASSWORD} bytes")
        users[user] = password
    return users


class Authenticator:
    """Checks credentials. Without users it lets everybody in."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)
        self._key = secrets.token_bytes(32)
        self._verified: dict[bytes, None] = {}
        self._slots = asyncio.Semaphore(CONCURRENT_CHECKS)
        # What an unknown user is checked against, so that it takes as long as the dearest known one.
        hashes = [match for password in users.values() if (match := HASH.fullmatch(password))]
        dearest = max(hashes, key=lambda match: match[0].split("$")[2], default=None)
        self._decoy = secrets.token_hex() if dearest is None else dearest[1] + "." * 31

    async def authenticate(self, authorization: str | None) -> str:
        """The user that an `authorization` header names; Unauthenticated if it is missing or wrong."""
        if not self._users:
            return ""
        user, password = _read_basic(authorization)
        if len(password) > LONGEST_PASSWORD:
            raise Unauthenticated(f"passwords have at most {LONGEST_PASSWORD} bytes")
        stored = self._users.get(user)
        digest = hmac.digest(self._key, user.encode() + b"\0" + password, hashlib.sha256)
        if digest in self._verified:
            return user
        matches = await self._matches(password, self._decoy if stored is None else stored)
        if not matches or stored is None:
            raise Unauthenticated("the user or the password is wrong")
        if len(self._verified) >= REMEMBERED:
            self._verified.pop(next(iter(self._verified)))
        self._verified[digest] = None
        return user

    async def _matches(self, password: bytes, stored: str) -> bool:
        if not stored.startswith("$2"):
            return hmac.compare_digest(password, stored.encode())
        async with self._slots:
            return await asyncio.to_thread(bcrypt.checkpw, password, stored.encode())


def _read_basic(authorization: str | None) -> tuple[str, bytes]:
    if not authorization:
        raise Unauthenticated("credentials are missing: this server has users")
    scheme, _, encoded = authorization.partition(" ")
    try:
        user, separator, password = base64.b64decode(encoded, validate=True).partition(b":")
        name = user.decode()
    except (binascii.Error, ValueError):
        separator = b""
    if scheme.lower() != "basic" or not separator:
        raise Unauthenticated("the authorization header is not of the form `Basic ...`")
    return name, password
