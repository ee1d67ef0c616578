"""The settings, read once from flags and environment into one frozen object."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from pulsed.errors import StartupError

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(value: object) -> object:
    """`500ms`, `30s`, `10m`, `12h`, `7d`; a bare number is seconds."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", value.strip())
    if match is None:
        raise ValueError(f"{value!r} is not a duration such as 500ms, 30s, 10m, 12h or 7d")
    try:
        return timedelta(seconds=float(match[1]) * UNITS[match[2] or "s"])
    except OverflowError:
        raise ValueError("is longer than can be counted") from None


def parse_address(value: str) -> tuple[str | None, int]:
    """`host:port`, `[v6]:port` or `:port`; without a host, every interface."""
    host, separator, port = value.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{value!r} is not an address such as 127.0.0.1:50051 or :50051")
    return host.strip("[]") or None, int(port)


def check_positive(value: timedelta) -> timedelta:
    """Refuses none at all."""
    if value <= timedelta(0):
        raise ValueError("must be more than 0")
    return value


def check_lease(value: timedelta) -> timedelta:
    """Refuses what no heartbeat could keep."""
    if value < timedelta(seconds=1):
        raise ValueError("must be at least 1s")
    return value


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Positive = AfterValidator(check_positive)
Lease = Annotated[Duration, AfterValidator(check_lease)]


class Settings(BaseSettings):
    """Every setting is an environment variable with the prefix PULSE_, and a flag of the same name."""

    model_config = SettingsConfigDict(env_prefix="PULSE_", frozen=True, env_ignore_empty=True)

    database_url: SecretStr | None = Field(
        None, description="Postgres to use (>= 14). Unset: an embedded one under PULSE_DATA_DIR."
    )
    listen_url: SecretStr | None = Field(
        None, description="A direct DSN for LISTEN where PULSE_DATABASE_URL goes through pgbouncer."
    )
    data_dir: Path | None = Field(
        None, description="Where the embedded Postgres lives. Unset: the user's data directory."
    )
    grpc_addr: str = Field(":50051", description="Where to serve gRPC: host:port, or :port.")
    metrics_addr: str | None = Field(
        None, description="Where to serve /metrics, /livez and /readyz over HTTP. Unset: nowhere."
    )
    processes: int = Field(1, ge=1, le=64, description="Server processes that share the gRPC port (SO_REUSEPORT).")
    auth_users: SecretStr | None = Field(
        None,
        description="user:password pairs, comma separated; a password that starts with $2 is a"
        " bcrypt hash. Unset: open to everybody.",
    )
    tls_cert: Path | None = Field(None, description="Certificate chain (PEM). With PULSE_TLS_KEY.")
    tls_key: Path | None = Field(None, description="Private key (PEM). With PULSE_TLS_CERT.")
    lease_ttl: Lease = Field(
        timedelta(seconds=30), description="How long a worker may be silent before it loses a job."
    )
    topic_leases: Annotated[dict[str, Lease], NoDecode] = Field(
        {}, description="Leases of single topics: topic=60s, comma separated."
    )
    watchdog_interval: Annotated[Duration, Positive] = Field(
        timedelta(seconds=10), description="How often expired leases are looked for."
    )
    dispatch_interval: Annotated[Duration, Positive] = Field(
        timedelta(milliseconds=500), description="How often waiting jobs are looked for unprompted."
    )
    dispatch_batch: int = Field(500, ge=1, le=10_000, description="Jobs that one claim takes at the most.")
    max_payload_bytes: int = Field(1 << 20, ge=1, le=64 << 20, description="The largest payload of a job.")
    max_message_bytes: int = Field(
        16 << 20, ge=1 << 16, le=256 << 20, description="The largest message that is read at all."
    )
    max_connections: int = Field(10_000, ge=1, description="Client connections a process accepts.")
    retention_completed: Duration = Field(timedelta(days=1), description="How long COMPLETED jobs are kept.")
    retention_canceled: Duration = Field(timedelta(days=7), description="How long CANCELED jobs are kept.")
    retention_dead_lettered: Duration = Field(timedelta(days=90), description="How long DEAD_LETTERED jobs are kept.")
    pool_size: int = Field(10, ge=2, le=1000, description="Database connections for the hot path.")
    statement_timeout: Annotated[Duration, Positive] = Field(
        timedelta(seconds=10), description="How long one statement, or the wait for a connection, may take."
    )
    prepared_statements: bool = Field(True, description="false behind pgbouncer in transaction mode (before its 1.21).")
    shutdown_timeout: Duration = Field(
        timedelta(seconds=10), description="How long a stop waits for calls in progress."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="What goes to the log, as JSON on standard error."
    )

    @field_validator("grpc_addr", "metrics_addr")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is not None:
            parse_address(value)
        return value

    @field_validator("topic_leases", mode="before")
    @classmethod
    def _split_leases(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [pair.rpartition("=") for pair in value.split(",") if pair.strip()]
        if any(not topic for topic, _, _ in pairs):
            raise ValueError(f"{value!r} is not a list such as emails=60s,reports=10m")
        return {topic.strip(): lease for topic, _, lease in pairs}

    @model_validator(mode="after")
    def _tls_is_whole(self) -> "Settings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("PULSE_TLS_CERT and PULSE_TLS_KEY go together: set both, or none")
        return self


def load_settings(**flags: Any) -> Settings:
    """The settings from flags over environment; a bad value is a StartupError that names its variable."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = f"PULSE_{str(first['loc'][0]).upper()}: " if first["loc"] else ""
        raise StartupError(f"{name}{first['msg'].removeprefix('Value error, ')}") from None
