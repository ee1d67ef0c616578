"""TLS: the server is who it says it is, or nothing is sent."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pulse


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for localhost that is its own authority, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    key.chmod(0o600)
    return cert, key


async def test_tls_with_the_right_authority_and_name_only(
    make_server: Callable[..., Any], certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate
    port = make_server(tls_cert=cert, tls_key=key).app.port
    async with pulse.Pulse(f"localhost:{port}", tls_ca=cert) as client:
        assert await client.is_serving()
    async with pulse.Pulse(f"https://localhost:{port}", retries=0) as stranger:
        with pytest.raises(pulse.ConfigurationError, match=r"is not trusted.*PULSE_TLS_CA"):
            await stranger.is_serving()
    monkeypatch.setenv("PULSE_TLS_CA", str(cert))
    async with pulse.Pulse(f"127.0.0.1:{port}", retries=0) as other_name:
        with pytest.raises(pulse.ConfigurationError, match="is not trusted"):
            await other_name.is_serving()
