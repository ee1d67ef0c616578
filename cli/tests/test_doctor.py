"""`pulse doctor` finds what is wrong, one step after the other."""

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import trustme

import pulse


@pytest.fixture(scope="module")
def server(start_server: Callable[..., str]) -> str:
    """A server with nothing in it."""
    return start_server()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A certificate for localhost, its key, the authority that signed it, and another authority."""
    directory = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    paths = {name: directory / f"{name}.pem" for name in ("cert", "key", "ca", "other")}
    certificate.cert_chain_pems[0].write_to_path(str(paths["cert"]))
    certificate.private_key_pem.write_to_path(str(paths["key"]))
    paths["key"].chmod(0o600)
    authority.cert_pem.write_to_path(str(paths["ca"]))
    trustme.CA().cert_pem.write_to_path(str(paths["other"]))
    return paths


@pytest.fixture(scope="module")
def secure(start_server: Callable[..., str], certificates: dict[str, Path]) -> str:
    """A server with TLS, by the name in its certificate."""
    address = start_server(tls_cert=str(certificates["cert"]), tls_key=str(certificates["key"]))
    return address.replace("127.0.0.1", "localhost")


def results(done: Any) -> dict[str, str]:
    """What each check found."""
    return {row["check"]: row["result"] for row in done.json()}


def test_all_is_well(program: Any, topic: str, working: Callable[..., AbstractContextManager[None]]) -> None:
    def handler(job: pulse.Job) -> None:
        return None

    with working({topic: handler}):
        done = program.ok("doctor", "-o", "json")
    assert results(done) == dict.fromkeys(
        ("settings", "address", "tls", "server", "credentials", "versions", "database", "dispatch", "workers"), "ok"
    )
    assert all(row.keys() == {"check", "result", "detail", "advice"} for row in done.json())
    terminal = program.on_terminal("doctor")
    assert terminal.wait() == 0
    assert "accepts connections" in terminal.text


def test_warnings_are_no_failure(program: Any, hands: Any, topic: str) -> None:
    job = hands.submit(topic)
    hands.until_counted(topic, ready=1)
    program.ok("dispatch", "pause", "--reason", "bad deploy")
    done = program.ok("doctor")
    program.ok("dispatch", "resume")
    program.ok("jobs", "cancel", job)
    hands.until_counted(topic, ready=0)
    assert "paused: bad deploy" in done.out
    assert "dispatch: go on with `pulse dispatch resume`" in done.err
    assert f"no worker serves {topic}" in done.out


def test_what_fails_ends_it_with_its_exit_code(stranger: Any, tmp_path: Path) -> None:
    done = stranger.run("doctor", "--addr", "127.0.0.1:1")
    assert done.code == 5
    assert "Connection refused" in done.out
    assert "address: start pulsed there" in done.err
    assert stranger.run("doctor", "--addr", "no.such.host.invalid:1").code == 5
    done = stranger.run("doctor", "--tls-ca", str(tmp_path / "none"))
    assert done.code == 2
    assert "none" in done.out
    done = stranger.run("doctor", "--profile", "nowhere")
    assert done.code == 2
    assert "make it with" in done.err


def test_a_server_that_is_no_pulse_server(stranger: Any) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        done = stranger.run("doctor", "--addr", address, "--timeout", "300ms", "-o", "json")
    assert done.code == 5
    assert results(done)["server"] == "failed"


def test_tls_that_is_right(stranger: Any, secure: str, certificates: dict[str, Path]) -> None:
    done = stranger.ok("doctor", "--addr", secure, "--tls-ca", str(certificates["ca"]), "-o", "json")
    (tls,) = (row for row in done.json() if row["check"] == "tls")
    assert tls["result"] == "ok"
    assert tls["detail"].startswith("TLSv1")
    assert stranger.run("topics", "list", env={"PULSE_ADDR": secure, "PULSE_TLS_CA": str(certificates["ca"])}).code == 0


def test_tls_that_is_wrong(stranger: Any, secure: str, server: str, certificates: dict[str, Path]) -> None:
    ca, other = str(certificates["ca"]), str(certificates["other"])
    for arguments, told in (
        (("--addr", secure), "the server speaks TLS, and we were told not to"),
        (("--addr", secure, "--tls"), "the certificate is not trusted"),
        (("--addr", secure, "--tls-ca", other), "the certificate is not trusted"),
        (("--addr", secure.replace("localhost", "127.0.0.1"), "--tls-ca", ca), "the certificate is not trusted"),
        (("--addr", server, "--tls-ca", ca), "no handshake"),
    ):
        done = stranger.run("doctor", *arguments, "-o", "json")
        assert done.code == 2, done
        failed = done.json()[-1]
        assert (failed["check"], failed["result"]) == ("tls", "failed")
        assert told in failed["detail"]
        assert failed["advice"]
        # Other commands say it in one line.
        other_command = stranger.run("topics", "list", *arguments)
        assert other_command.code in (2, 5)
        assert other_command.err.startswith("error: ")
        assert other_command.err.count("\n") == 1
