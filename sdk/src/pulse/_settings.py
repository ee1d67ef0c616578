"""Where the server is and how to get in: arguments over environment, read once into one frozen value."""

import base64
import os
import ssl
import stat
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pulse._errors import ConfigurationError

DEFAULT_ADDRESS = "localhost:50051"
DEFAULT_PORT = 50051


@dataclass(frozen=True)
class ConnectionSettings:
    """Everything that a connection needs."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    # The value of the authorization header; never shown.
    authorization: str | None = field(default=None, repr=False)
    # How long a call may take, and how often a safe one is tried again within that.
    timeout: float = 10.0
    retries: int = 5

    @property
    def address(self) -> str:
        """For messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def load_settings(
    addr: str | None,
    *,
    user: str | None = None,
    password: str | None = None,
    tls: bool | ssl.SSLContext | None = None,
    tls_ca: str | os.PathLike[str] | None = None,
    timeout: float = 10.0,
    retries: int = 5,
    environment: Mapping[str, str] | None = None,
) -> ConnectionSettings:
    """The settings, or a ConfigurationError that names the argument and the variable.

    TLS is used when `tls` or PULSE_TLS says so, when a CA is given, or when the address starts with https://.
    """
    env = os.environ if environment is None else environment
    address = addr or env.get("PULSE_ADDR") or DEFAULT_ADDRESS
    scheme, separator, rest = address.partition("://")
    if separator and scheme not in ("http", "https"):
        raise ConfigurationError(f"{address!r}: an address is host:port, http://host:port or https://host:port")
    host, port = _parse_address(rest if separator else address)
    if tls is None and scheme == "http" and separator:
        tls = False
    tls_ca = tls_ca or env.get("PULSE_TLS_CA") or None
    if tls is None:
        tls = (scheme == "https" and bool(separator)) or tls_ca is not None or _flag("PULSE_TLS", env)
    if timeout <= 0:
        raise ConfigurationError(f"timeout={timeout}: give a number of seconds above zero")
    return ConnectionSettings(
        host=host,
        port=port,
        tls=_make_tls(tls, tls_ca),
        authorization=_make_authorization(user, password, env),
        timeout=timeout,
        retries=max(0, retries),
    )


def _parse_address(address: str) -> tuple[str, int]:
    text = address.rstrip("/")
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") > 1:
        host, port = text, ""  # a bare IPv6 address
    else:
        host, _, port = text.partition(":")
    if not port:
        port = str(DEFAULT_PORT)
    if not port.isdecimal() or not 0 < int(port) < 65536 or "/" in host or " " in host:
        raise ConfigurationError(
            f"{address!r} is not an address such as localhost:50051; give it as the first argument or in PULSE_ADDR"
        )
    return host or "localhost", int(port)


def _flag(name: str, env: Mapping[str, str]) -> bool:
    value = env.get(name, "").strip().lower()
    if value in ("", "0", "false", "no", "off"):
        return False
    if value in ("1", "true", "yes", "on"):
        return True
    raise ConfigurationError(f"{name}: {value!r} is not 1 or 0")


def _make_tls(tls: bool | ssl.SSLContext, ca: str | os.PathLike[str] | None) -> ssl.SSLContext | None:
    if isinstance(tls, ssl.SSLContext):
        return tls
    if not tls:
        if ca is not None:
            raise ConfigurationError("a CA was given (tls_ca=, PULSE_TLS_CA), but TLS is switched off")
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"PULSE_TLS_CA: {ca}: {error.strerror or error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    return context


def _make_authorization(user: str | None, password: str | None, env: Mapping[str, str]) -> str | None:
    if user == "" and not password:
        return None  # asked for: whatever the environment says, this client has no credentials
    if user is None:
        user = env.get("PULSE_USER") or None
    if password is None:
        password = env.get("PULSE_PASSWORD") or None
    if password is None and (file := env.get("PULSE_PASSWORD_FILE")):
        password = _read_password(Path(file))
    if user is None and password is None:
        return None
    if user is None or password is None:
        missing, given = ("user", "password") if user is None else ("password", "user")
        raise ConfigurationError(f"a {given} without a {missing}: pass {missing}= or set PULSE_{missing.upper()}")
    if ":" in user:
        raise ConfigurationError("PULSE_USER: a user's name has no colon in it")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _read_password(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"PULSE_PASSWORD_FILE: {path}: {getattr(error, 'strerror', None) or error}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        warnings.warn(f"PULSE_PASSWORD_FILE: {path} can be read by others: chmod 600", stacklevel=4)
    return text.rstrip("\r\n")
