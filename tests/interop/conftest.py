"""A server with users and TLS, and clients that others wrote: each test runs once with each of them."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
import pytest_asyncio
import trustme

from interop.client import PASSWORD, USER, Client, Connect, basic, running_client
from interop.toolchains import BRIDGES, PROTO, Toolchain, make_node, make_python
from support.postgres import Databases
from support.program import Pulsed, running_pulsed


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    return make_python(tmp_path_factory.mktemp("stubs"))


@pytest.fixture(scope="session")
def node(pytestconfig: pytest.Config) -> Toolchain:
    assert pytestconfig.cache is not None
    return make_node(pytestconfig.cache.mkdir("node"))


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pulsed(
    databases: Databases, authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Pulsed]:
    """`pulsed` as it should run in production, shared by the tests of a process: each has topics of its own."""
    directory = tmp_path_factory.mktemp("tls")
    leaf = authority.issue_cert("localhost", "127.0.0.1")
    cert, key = directory / "cert.pem", directory / "key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    key.touch(0o600)
    key.write_bytes(leaf.private_key_pem.bytes())
    with databases.migrated() as dsn:
        async with running_pulsed(
            dsn=dsn,
            auth_users=f"{USER}:{PASSWORD}",
            tls_cert=str(cert),
            tls_key=str(key),
            watchdog_interval="200ms",
        ) as pulsed:
            yield pulsed


@pytest.fixture(scope="session", params=["grpcio", "grpc-js"])
def connect(request: pytest.FixtureRequest, pulsed: Pulsed, authority: trustme.CA) -> Connect:
    """Makes clients of one kind: of the secured server, or of a plain one by its address."""
    toolchain: Toolchain
    if request.param == "grpcio":
        toolchain, bridge = request.getfixturevalue("python"), "grpcio_stock.py"
    else:
        toolchain, bridge = request.getfixturevalue("node"), "grpc_js.js"
    secured = {"address": pulsed.address, "ca": authority.cert_pem.bytes().decode()}

    def connect(plain_address: str | None = None, **options: object) -> AbstractAsyncContextManager[Client]:
        settings = secured if plain_address is None else {"address": plain_address, "ca": None}
        return running_client(
            [*toolchain.command, str(BRIDGES / bridge)],
            metadata=basic(USER, PASSWORD) if plain_address is None else {},
            environment=toolchain.environment,
            proto=str(PROTO),
            options={f"grpc.{name}": value for name, value in options.items()},
            **settings,
        )

    return connect


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client(connect: Connect) -> AsyncIterator[Client]:
    """A client of the secured server, signed in."""
    async with connect() as client:
        yield client


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses."""
    name: str = request.node.name
    return name
