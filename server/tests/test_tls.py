"""TLS: 1.2 or newer, HTTP/2, a whole pair or nothing, and a word to those who leave it out."""

import asyncio
import logging
import ssl
import subprocess
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from grpclib.exceptions import StreamTerminatedError

from pulse_gen.rpc.pulse.v1 import GetServerInfoRequest
from pulsed.app import warn_if_exposed
from pulsed.errors import StartupError
from pulsed.settings import load_settings
from pulsed.tls import load_tls
from support.server import Client, running_server


class Pair(NamedTuple):
    """A certificate for localhost with its key, and the authority that vouches for it."""

    cert: Path
    key: Path
    authority: trustme.CA


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost", "127.0.0.1")
    cert, key = directory / "cert.pem", directory / "key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    key.write_bytes(leaf.private_key_pem.bytes())
    key.chmod(0o600)
    return Pair(cert, key, authority)


def client_context(pair: Pair) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    pair.authority.configure_trust(context)
    return context


async def test_calls_travel_over_tls(database_dsn: str, pair: Pair) -> None:
    async with running_server(database_dsn, tls_cert=pair.cert, tls_key=pair.key) as server:
        client = Client(server.app.port, ssl=client_context(pair))
        try:
            info = await client.stats.get_server_info(GetServerInfoRequest())
            assert info.server_id
        finally:
            client.channel.close()


async def test_plaintext_is_hung_up_on_where_there_is_tls(database_dsn: str, pair: Pair) -> None:
    async with running_server(database_dsn, tls_cert=pair.cert, tls_key=pair.key) as server:
        with pytest.raises((OSError, StreamTerminatedError)):
            await server.submit()


async def handshake(port: int, context: ssl.SSLContext) -> ssl.SSLObject:
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    try:
        connection = writer.get_extra_info("ssl_object")
        assert isinstance(connection, ssl.SSLObject)
        return connection
    finally:
        writer.close()


async def test_the_handshake_ends_in_http2_and_a_version_of_today(database_dsn: str, pair: Pair) -> None:
    async with running_server(database_dsn, tls_cert=pair.cert, tls_key=pair.key) as server:
        connection = await handshake(server.app.port, client_context(pair))
        assert connection.selected_alpn_protocol() == "h2"
        assert connection.version() == "TLSv1.3"
        old = client_context(pair)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert (await handshake(server.app.port, old)).version() == "TLSv1.2"


def test_older_versions_are_refused(pair: Pair) -> None:
    context = load_tls(load_settings(tls_cert=pair.cert, tls_key=pair.key))
    assert context is not None
    ancient = client_context(pair)
    for side in (context, ancient):
        side.set_ciphers("ALL:@SECLEVEL=0")  # or OpenSSL itself would refuse, today
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        ancient.minimum_version = ssl.TLSVersion.TLSv1
        ancient.maximum_version = ssl.TLSVersion.TLSv1_1
    hello, answer = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ancient.wrap_bio(answer, hello, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        context.wrap_bio(hello, answer, server_side=True).do_handshake()


def test_half_a_pair_is_refused(pair: Pair) -> None:
    for half in ({"tls_cert": pair.cert}, {"tls_key": pair.key}):
        with pytest.raises(StartupError, match="PULSE_TLS_CERT and PULSE_TLS_KEY go together"):
            load_settings(**half)


@pytest.mark.parametrize("broken", ["cert missing", "key missing", "cert garbage", "key garbage", "swapped", "strange"])
def test_a_broken_pair_is_one_line_that_names_the_variable(pair: Pair, tmp_path: Path, broken: str) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no PEM")
    garbage.chmod(0o600)
    strange = tmp_path / "strange.pem"
    strange.write_bytes(pair.authority.issue_cert("x").private_key_pem.bytes())
    strange.chmod(0o600)
    cert, key = {
        "cert missing": (tmp_path / "none", pair.key),
        "key missing": (pair.cert, tmp_path / "none"),
        "cert garbage": (garbage, pair.key),
        "key garbage": (pair.cert, garbage),
        "swapped": (pair.key, pair.cert),
        "strange": (pair.cert, strange),
    }[broken]
    with pytest.raises(StartupError, match=r"^PULSE_TLS_[^\n]+$"):
        load_tls(load_settings(tls_cert=cert, tls_key=key))


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_passphrase(pair: Pair, tmp_path: Path) -> None:
    encrypted = tmp_path / "encrypted.pem"
    command = ("openssl", "pkey", "-in", pair.key, "-aes256", "-passout", "pass:secret", "-out", encrypted)
    subprocess.run(command, check=True, capture_output=True)
    encrypted.chmod(0o600)
    with pytest.raises(StartupError, match="PULSE_TLS_KEY: the key is encrypted"):
        load_tls(load_settings(tls_cert=pair.cert, tls_key=encrypted))


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_a_key_that_others_can_read_is_worth_a_warning(
    pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warns: bool
) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(pair.key.read_bytes())
    key.chmod(mode)
    load_tls(load_settings(tls_cert=pair.cert, tls_key=key))
    assert [record.message for record in caplog.records] == ["the TLS key can be read by others: chmod 600"] * warns


@pytest.mark.parametrize(
    ("address", "users", "encrypted", "warns"),
    [
        (":50051", True, False, True),
        ("0.0.0.0:50051", True, False, True),
        ("[::]:50051", True, False, True),
        ("10.0.0.1:50051", True, False, True),
        (":50051", True, True, False),
        (":50051", False, False, False),
        ("127.0.0.1:50051", True, False, False),
        ("localhost:50051", True, False, False),
        ("[::1]:50051", True, False, False),
    ],
)
def test_passwords_in_plain_text_are_worth_a_warning(
    pair: Pair, caplog: pytest.LogCaptureFixture, address: str, users: bool, encrypted: bool, warns: bool
) -> None:
    settings = load_settings(
        grpc_addr=address,
        tls_cert=pair.cert if encrypted else None,
        tls_key=pair.key if encrypted else None,
    )
    warn_if_exposed(settings, {"anna": "secret"} if users else {})
    assert ["plain text" in record.message for record in caplog.records] == [True] * warns


async def test_a_server_gives_that_warning_when_it_starts(database_dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with running_server(database_dsn, grpc_addr=":0", auth_users="anna:secret"):
            pass
    assert any("passwords travel in plain text" in record.message for record in caplog.records)
