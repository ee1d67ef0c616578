"""The program: its settings, its start and its end."""

import http.client
import re
import signal
import socket
import ssl
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import trustme
from anyio.from_thread import BlockingPortal

from pulse_ui.__main__ import listen
from pulse_ui.settings import Settings
from support.program import running_pulsed

from .world import PATIENCE, running_dashboard

NOWHERE = "127.0.0.1:1"


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """To its end."""
    command = [sys.executable, "-m", "pulse_ui", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)


def names() -> list[str]:
    """The variables of all settings."""
    return [f"PULSE_UI_{each.name.upper()}" for each in fields(Settings)]


def test_help_tells_every_setting() -> None:
    done = run("--help")
    assert done.returncode == 0
    for name in (*names(), "PULSE_ADDR", "PULSE_TLS_CA"):
        assert name in done.stdout


def test_the_docs_tell_every_setting() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "dashboard.md").read_text()
    assert set(re.findall(r"PULSE_UI_[A-Z_]+[A-Z]", docs)) == set(names())


def test_version() -> None:
    assert re.fullmatch(r"pulse-ui \d+\.\d+\.\d+\n", run("--version").stdout)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PULSE_UI_ADDR", "8080"),
        ("PULSE_UI_ADDR", "127.0.0.1:99999"),
        ("PULSE_UI_SESSION_TTL", "soon"),
        ("PULSE_UI_SESSION_TTL", "0"),
        ("PULSE_UI_LOG_LEVEL", "loud"),
        ("PULSE_UI_SECRET", "short"),
        ("PULSE_UI_TLS_CERT", "/no/such/file"),
        ("PULSE_ADDR", "http://:x"),
        ("PULSE_TLS_CA", "/no/such/file"),
    ],
)
def test_a_bad_setting_stops_the_start_with_one_line_that_names_it(variable: str, value: str) -> None:
    done = run(**{variable: value})
    assert done.returncode == 1
    assert done.stderr.startswith("pulse-ui: ")
    assert done.stderr.count("\n") == 1
    assert variable in done.stderr
    if variable == "PULSE_UI_SECRET":
        assert value not in done.stderr.removeprefix("pulse-ui: PULSE_UI_SECRET: is shorter")


def test_half_a_pair_of_tls_files_is_refused(tmp_path: Path) -> None:
    certificate = tmp_path / "cert.pem"
    certificate.touch()
    done = run(PULSE_UI_TLS_CERT=str(certificate))
    assert done.returncode == 1
    assert "PULSE_UI_TLS_KEY" in done.stderr


def test_a_port_that_is_taken_is_named(portal: BlockingPortal) -> None:
    with portal.wrap_async_context_manager(running_dashboard(NOWHERE)) as dashboard:
        address = dashboard.url.removeprefix("http://")
        done = run("--addr", address)
    assert done.returncode == 1
    assert address in done.stderr
    assert done.stderr.count("\n") == 1


def test_it_serves_on_loopback_and_ends_when_told(portal: BlockingPortal) -> None:
    assert Settings().addr == "127.0.0.1:8080"
    with portal.wrap_async_context_manager(running_dashboard(NOWHERE)) as dashboard:
        dashboard.process.send_signal(signal.SIGTERM)
        assert portal.call(dashboard.process.wait) == 0


def test_the_end_of_an_answer_is_not_held_back() -> None:
    with (
        listen(Settings(addr="127.0.0.1:0")) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.fixture
def authority(tmp_path: Path) -> tuple[trustme.CA, Path, Path, Path]:
    """Somebody who vouches for this machine: the authority, its certificate, ours and our key."""
    authority = trustme.CA()
    ours = authority.issue_cert("127.0.0.1")
    root, certificate, key = (tmp_path / name for name in ("root.pem", "cert.pem", "key.pem"))
    authority.cert_pem.write_to_path(root)
    ours.private_key_pem.write_to_path(key)
    for part in ours.cert_chain_pems:
        part.write_to_path(certificate, append=True)
    return authority, root, certificate, key


def test_tls_to_the_browser_and_to_the_server(
    authority: tuple[trustme.CA, Path, Path, Path], database_dsn: str, portal: BlockingPortal
) -> None:
    trusted, root, certificate, key = authority
    keys: dict[str, Any] = {"tls_cert": str(certificate), "tls_key": str(key)}
    with portal.wrap_async_context_manager(running_pulsed(dsn=database_dsn, **keys)) as server:
        starting = running_dashboard(
            server.address, tls_ca=str(root), **{f"ui_{name}": value for name, value in keys.items()}
        )
        with portal.wrap_async_context_manager(starting) as dashboard:
            context = ssl.create_default_context()
            trusted.configure_trust(context)
            host = dashboard.url.removeprefix("https://")
            connection = http.client.HTTPSConnection(host, context=context, timeout=PATIENCE)
            connection.request("GET", "/jobs")
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert "secure" in answer.headers["set-cookie"].lower()
            assert b"There are no jobs" in answer.read()
            connection.close()
