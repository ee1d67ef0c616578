"""Mistakes: each is a clear exception at the earliest moment."""

import asyncio
import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import pulse


class EmailArgs(BaseModel):
    to: str
    weight: float = 0.0


@pytest.fixture
def p(clean_environment: None) -> pulse.Pulse:
    """A client that reaches nobody: whatever it finds wrong, it finds by itself."""
    return pulse.Pulse("127.0.0.1:1", retries=0)


# Tasks.


def test_a_name_can_be_taken_once(p: pulse.Pulse) -> None:
    p.register("t", lambda args: None)
    with pytest.raises(pulse.TaskError, match="there is a task 't' already"):
        p.register("t", lambda args: None)


def takes_three(a: int, b: int, c: int) -> None: ...
def second_is_not_a_job(a: int, b: int) -> None: ...
def job_comes_first(job: pulse.Job, args: int) -> None: ...
def keyword_without_default(args: int, *, mailer: object) -> None: ...
def unknown_type(args: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def yields(args: int) -> Any:
    yield args


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (takes_three, "put the arguments into one pydantic model"),
        (second_is_not_a_job, "the second parameter is the pulse.Job"),
        (job_comes_first, "the pulse.Job comes second"),
        (keyword_without_default, "nobody can pass the keyword 'mailer'"),
        (unknown_type, "can't be found"),
        (yields, "does not yield"),
        ("not a function", "is not a function"),
    ],
)
def test_handler_with_a_wrong_signature_is_refused(p: pulse.Pulse, handler: Any, message: str) -> None:
    with pytest.raises(pulse.TaskError, match=message):
        p.register("t", handler)


def test_arguments_that_json_can_not_hold_are_refused_when_the_task_is_declared(p: pulse.Pulse) -> None:
    def handler(args: asyncio.Lock) -> None: ...

    with pytest.raises(pulse.TaskError, match="use a pydantic model"):
        p.register("t", handler)


def test_decorator_without_a_name_is_refused(p: pulse.Pulse) -> None:
    with pytest.raises(pulse.TaskError, match="needs a name"):
        p.task(lambda: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"priorty": 1}, "unknown option priorty"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"timeout": -1}, "timeout: -1 is negative"),
        ({"timeout": "30s"}, "not a duration"),
        ({"tags": "mail"}, "not a list of strings"),
        ({"metadata": {"a": 1}}, "strings"),
        ({"backoff": 3}, "pulse.Backoff"),
        ({"priority": 2**40}, "priority"),
    ],
)
async def test_bad_options_are_refused_at_once(p: pulse.Pulse, options: Any, message: str) -> None:
    with pytest.raises(pulse.InvalidArgument, match=message):
        p.register("t", lambda args: None, **options)
    with pytest.raises(pulse.InvalidArgument, match=message):
        await p.enqueue("other", None, **options)


# Arguments.


async def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(p: pulse.Pulse) -> None:
    @p.task("send-email")
    async def send_email(args: EmailArgs) -> None: ...

    with pytest.raises(pulse.InvalidPayload, match="to: Field required"):
        await p.enqueue("send-email", {"too": "a@b.c"})
    with pytest.raises(pulse.InvalidPayload, match="don't fit EmailArgs"):
        await send_email.enqueue("a@b.c")  # type: ignore[arg-type]
    with pytest.raises(pulse.InvalidPayload):
        await send_email.enqueue(EmailArgs.model_construct(to=3))  # type: ignore[arg-type]
    with pytest.raises(pulse.InvalidPayload, match="weight"):  # JSON has no NaN: the worker would get null
        await send_email.enqueue(EmailArgs(to="a", weight=float("nan")))


async def test_argument_that_can_not_be_written_is_refused(p: pulse.Pulse) -> None:
    with pytest.raises(pulse.InvalidPayload, match="can't be written as JSON"):
        await p.enqueue("unknown", {"lock": asyncio.Lock()})

    @p.task("raw")
    async def raw(args: bytes) -> None: ...

    with pytest.raises(pulse.InvalidPayload, match="takes bytes, not dict"):
        await p.enqueue("raw", {})


async def test_moments_need_a_time_zone(p: pulse.Pulse) -> None:
    naive = datetime(2030, 1, 1)  # noqa: DTZ001
    with pytest.raises(pulse.InvalidArgument, match="no time zone"):
        await p.enqueue("t", None, run_at=naive)
    with pytest.raises(pulse.InvalidArgument, match="no time zone"):
        await p.schedule("t", None, pulse.At(naive))
    with pytest.raises(ValueError, match="time zone"):
        raise pulse.Snooze(until=naive)


async def test_unknown_filter_and_status_are_refused(p: pulse.Pulse) -> None:
    with pytest.raises(pulse.InvalidArgument, match="none of pending"):
        await p.count_jobs(status="waiting")
    with pytest.raises(pulse.InvalidArgument, match="unknown option topics"):
        await p.count_jobs(topics="x")  # type: ignore[call-arg]


async def test_what_only_the_server_knows_is_refused_by_it(client: pulse.Pulse) -> None:
    with pytest.raises(pulse.InvalidArgument, match="not a uuid"):
        await client.get_job("nonsense")
    with pytest.raises(pulse.InvalidArgument, match="cron"):
        await client.schedule("t", None, pulse.Cron("every day"))
    with pytest.raises(pulse.NotFound):
        await client.get_job("018f2c5e-1111-7000-8000-000000000001")


# Connections.


async def test_unreachable_server_is_a_clear_error_for_producer_and_worker(
    free_port: int, clean_environment: None
) -> None:
    client = pulse.Pulse(f"127.0.0.1:{free_port}", retries=1, connect_timeout=0.2)

    @client.task("t")
    async def handler() -> None: ...

    with pytest.raises(pulse.Unavailable, match=f"can't reach a pulse server at 127.0.0.1:{free_port}.*PULSE_ADDR"):
        await client.enqueue("t", None)
    with pytest.raises(pulse.Unavailable, match="can't reach"):
        await client.run(handle_signals=False)


async def test_server_that_does_not_answer_is_a_timeout(clean_environment: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts, nobody reads
        port = silent.getsockname()[1]
        async with pulse.Pulse(f"127.0.0.1:{port}", timeout=0.2) as client:
            with pytest.raises(pulse.DeadlineExceeded, match="no answer"):
                await client.server_info()


async def test_wrong_and_missing_credentials(make_server: Callable[..., Any]) -> None:
    server = make_server(auth_users="ada:secret")
    async with pulse.Pulse(server.address, user="ada", password="secret") as client:
        assert (await client.server_info()).user == "ada"
    for options in ({"user": "ada", "password": "wrong"}, {}):
        async with pulse.Pulse(server.address, **options) as client:  # type: ignore[arg-type]
            with pytest.raises(pulse.Unauthenticated, match="PULSE_USER"):
                await client.enqueue("t", None)
            client.register("t", lambda: None)
            with pytest.raises(pulse.Unauthenticated):
                await client.run(handle_signals=False)


async def test_a_worker_needs_tasks(p: pulse.Pulse) -> None:
    with pytest.raises(pulse.TaskError, match="no tasks"):
        await p.run()
    p.register("t", lambda: None)
    with pytest.raises(pulse.TaskError, match="unknown task x"):
        await p.run(only=["x"])


@pytest.mark.parametrize("address", ["ftp://x", "host:port", "host:99999", "a b:1"])
def test_bad_address_is_refused(address: str, clean_environment: None) -> None:
    with pytest.raises(pulse.ConfigurationError, match="address"):
        pulse.Pulse(address)


def test_settings_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, clean_environment: None, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    monkeypatch.setenv("PULSE_ADDR", "queue.example.com")
    monkeypatch.setenv("PULSE_USER", "ada")
    monkeypatch.setenv("PULSE_PASSWORD_FILE", str(secret))
    client = pulse.Pulse()
    assert client.address == "queue.example.com:50051"
    assert client._connection.settings.authorization == "Basic YWRhOnMzY3JldA=="
    assert "YWRh" not in repr(client._connection.settings)
    assert pulse.Pulse(user="")._connection.settings.authorization is None  # asked for: nobody
    assert pulse.Pulse("[::1]:7")._connection.settings.host == "::1"
    secret.chmod(0o644)
    with pytest.warns(UserWarning, match="chmod 600"):
        pulse.Pulse()


def test_half_of_the_credentials_is_refused(clean_environment: None) -> None:
    with pytest.raises(pulse.ConfigurationError, match="PULSE_PASSWORD"):
        pulse.Pulse(user="ada")
    with pytest.raises(pulse.ConfigurationError, match="PULSE_TLS_CA"):
        pulse.Pulse(tls_ca="/nowhere.pem")


def test_bad_worker_settings_are_refused(clean_environment: None) -> None:
    for options in ({"concurrency": 0}, {"prefetch": -1}, {"concurrency": 200_000}):
        with pytest.raises(pulse.ConfigurationError):
            pulse.Pulse(**options)  # type: ignore[arg-type]


def test_retry_takes_durations_only() -> None:
    assert pulse.Retry(after=5).after == timedelta(seconds=5)
    with pytest.raises(pulse.InvalidArgument):
        pulse.Retry(after=-1)
