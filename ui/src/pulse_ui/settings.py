"""The settings, read once from flags and environment into one frozen value."""

import ipaddress
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

PREFIX = "PULSE_UI_"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LOG_LEVELS = ("debug", "info", "warning", "error")
SHORTEST_SECRET = 16


class SettingsError(Exception):
    """A setting is wrong; the message names its variable."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every field is an environment variable with the prefix PULSE_UI_; all but the secret are flags too."""

    addr: str = "127.0.0.1:8080"
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxies: str = "127.0.0.1"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    session_ttl: timedelta = timedelta(hours=12)
    log_level: str = "info"
    secret: str = field(default_factory=secrets.token_urlsafe, repr=False)

    @property
    def listen(self) -> tuple[str, int]:
        """Host and port; an empty host is every interface."""
        return parse_address(self.addr)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.listen[0])


MEANINGS = {
    "addr": "Where to serve: host:port, or :port for every interface. [127.0.0.1:8080]",
    "allowed_hosts": "Host names that browsers may use, comma separated. Unset: on loopback its names, else any.",
    "trusted_proxies": "Proxies whose X-Forwarded-Proto and -For are believed, comma separated. [127.0.0.1]",
    "tls_cert": "Certificate chain (PEM). With PULSE_UI_TLS_KEY.",
    "tls_key": "Private key (PEM). With PULSE_UI_TLS_CERT.",
    "session_ttl": "How long a sign-in lasts. [12h]",
    "log_level": "What goes to the log, on standard error: debug, info, warning or error. [info]",
    "secret": "Signs the cookies; 16 characters or more. Unset: a new one at every start.",
}


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_address(text: str) -> tuple[str, int]:
    """`host:port`, `[v6]:port` or `:port`."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not an address such as 127.0.0.1:8080 or :8080")
    return host.strip("[]"), int(port)


def load_settings(environment: Mapping[str, str], flags: Mapping[str, str | None]) -> Settings:
    """The settings from flags over environment, or a SettingsError. What is empty counts as unset."""
    given: dict[str, Any] = {}
    for name in MEANINGS:
        text = flags.get(name) or environment.get(PREFIX + name.upper())
        if text:
            try:
                given[name] = _PARSERS.get(name, str)(text)
            except ValueError as error:
                raise SettingsError(f"{PREFIX}{name.upper()}: {error}") from None
    if ("tls_cert" in given) != ("tls_key" in given):
        raise SettingsError("PULSE_UI_TLS_CERT and PULSE_UI_TLS_KEY go together: set both, or none")
    return Settings(**given)


def _parse_checked_address(text: str) -> str:
    parse_address(text)
    return text


def _parse_hosts(text: str) -> tuple[str, ...]:
    return tuple(host.strip().lower() for host in text.split(",") if host.strip())


def _parse_file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise ValueError(f"{text} is not a file")
    return path


def _parse_duration(text: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,9})(s|m|h|d)?", text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a duration such as 30m, 12h or 7d")
    return timedelta(seconds=int(match[1]) * UNITS[match[2] or "s"])


def _parse_level(text: str) -> str:
    if text.lower() not in LOG_LEVELS:
        raise ValueError(f"{text!r} is none of {', '.join(LOG_LEVELS)}")
    return text.lower()


def _parse_secret(text: str) -> str:
    if len(text) < SHORTEST_SECRET:
        raise ValueError(f"is shorter than {SHORTEST_SECRET} characters")
    return text


_PARSERS = {
    "addr": _parse_checked_address,
    "allowed_hosts": _parse_hosts,
    "tls_cert": _parse_file,
    "tls_key": _parse_file,
    "session_ttl": _parse_duration,
    "log_level": _parse_level,
    "secret": _parse_secret,
}
