"""Settings: read once, from flags over environment; a bad one is one line that names its variable."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from pulsed.errors import StartupError
from pulsed.processes import own_address
from pulsed.settings import Settings, load_settings, parse_address

SECRET = "s3cret"


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"PULSE_{name.upper()}", raising=False)


def test_flags_go_before_the_environment_and_that_before_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSE_POOL_SIZE", "20")
    monkeypatch.setenv("PULSE_DISPATCH_BATCH", "7")
    monkeypatch.setenv("PULSE_DATABASE_URL", "")  # as an empty line in a compose file
    settings = load_settings(pool_size="30", lease_ttl=None)
    assert (settings.pool_size, settings.dispatch_batch) == (30, 7)
    assert settings.lease_ttl == timedelta(seconds=30)
    assert settings.database_url is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("30", timedelta(seconds=30)),
        ("1.5m", timedelta(seconds=90)),
        (" 12h ", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
    ],
)
def test_durations_have_units(text: str, expected: timedelta) -> None:
    assert load_settings(watchdog_interval=text).watchdog_interval == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":50051", (None, 50051)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:50051", ("::1", 50051)),
        ("host.name:65535", ("host.name", 65535)),
    ],
)
def test_addresses_are_host_and_port(text: str, expected: tuple[str | None, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    ("address", "number", "expected"),
    [(":9000", 0, ":9000"), ("127.0.0.1:9000", 3, "127.0.0.1:9003"), (":0", 2, ":0"), ("[::1]:9000", 1, "::1:9001")],
)
def test_each_process_has_a_metrics_port_of_its_own(address: str, number: int, expected: str) -> None:
    assert own_address(address, number) == expected
    assert parse_address(expected)[0] == parse_address(address)[0]


def test_leases_of_topics_are_a_list() -> None:
    leases = load_settings(topic_leases="emails=60s, a=b=10m,").topic_leases
    assert leases == {"emails": timedelta(seconds=60), "a=b": timedelta(minutes=10)}


BAD = [
    ("lease_ttl", "soon"),
    ("lease_ttl", "-5s"),
    ("lease_ttl", "500ms"),
    ("lease_ttl", "5 weeks"),
    ("lease_ttl", "99999999999d"),
    ("lease_ttl", "9" * 400),
    ("watchdog_interval", "0s"),
    ("dispatch_interval", "0"),
    ("statement_timeout", "0s"),
    ("retention_completed", "-1d"),
    ("shutdown_timeout", ""),
    ("topic_leases", "emails"),
    ("topic_leases", "=60s"),
    ("topic_leases", "emails=soon"),
    ("topic_leases", "emails=0s"),
    ("topic_leases", "emails="),
    ("grpc_addr", "50051"),
    ("grpc_addr", "localhost"),
    ("grpc_addr", "localhost:http"),
    ("grpc_addr", ":65536"),
    ("grpc_addr", ":²"),
    ("metrics_addr", ":x"),
    ("processes", "0"),
    ("processes", "65"),
    ("processes", "two"),
    ("dispatch_batch", "0"),
    ("dispatch_batch", "10001"),
    ("max_payload_bytes", "0"),
    ("max_payload_bytes", str(1 << 30)),
    ("max_message_bytes", "1"),
    ("max_message_bytes", str(1 << 32)),
    ("max_connections", "0"),
    ("pool_size", "1"),
    ("pool_size", "1001"),
    ("prepared_statements", "perhaps"),
    ("log_level", "loud"),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_is_one_line_that_names_its_variable(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def line() -> str:
        with pytest.raises(StartupError) as caught:
            load_settings(**({} if value else {name: value}))
        return str(caught.value)

    monkeypatch.setenv(f"PULSE_{name.upper()}", value)
    message = line()
    assert message.startswith(f"PULSE_{name.upper()}: ")
    assert "timedelta" not in message
    assert "\n" not in message


def test_they_can_not_be_changed_and_do_not_show_secrets() -> None:
    settings = load_settings(
        database_url=f"postgresql://anna:{SECRET}@host/db", listen_url=SECRET, auth_users=f"anna:{SECRET}"
    )
    assert SECRET not in repr(settings) + str(settings)
    with pytest.raises(ValidationError):
        settings.pool_size = 3  # type: ignore[misc]


def test_every_setting_is_described() -> None:
    assert all(field.description for field in Settings.model_fields.values())
