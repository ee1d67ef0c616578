"""Users and passwords: nobody gets past the headers without them."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import bcrypt
import pytest
import pytest_asyncio
from grpclib._registry import servers
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from pulse_gen.rpc.grpc.health.v1 import HealthBase, HealthCheckRequest
from pulse_gen.rpc.pulse import v1
from pulse_gen.rpc.pulse.v1 import (
    GetDispatchStatusRequest,
    GetServerInfoRequest,
    PauseDispatchRequest,
)
from pulsed import auth
from pulsed.auth import Authenticator, parse_users
from pulsed.errors import StartupError, Unauthenticated
from support.postgres import Databases
from support.server import PATIENCE, Client, Server, running_server
from support.wire import raw_connection

HASH = bcrypt.hashpw("häsh:ed".encode(), bcrypt.gensalt(4)).decode()
USERS = f"anna:plain, bob:{HASH}"
SERVICES = [name for name in dir(v1) if name.endswith("ServiceBase")]
PATHS = sorted(path for name in SERVICES for path in getattr(v1, name)().__mapping__())


def basic(user: str | bytes, password: str | bytes) -> str:
    parts = [part.encode() if isinstance(part, str) else part for part in (user, password)]
    return "Basic " + base64.b64encode(b":".join(parts)).decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(databases: Databases) -> AsyncIterator[Server]:
    """A server with two users. Its own client has no credentials."""
    with databases.migrated() as dsn:
        async with running_server(dsn, auth_users=USERS) as server:
            yield server


def client_of(server: Server, **headers: str) -> Client:
    return Client(server.app.port, metadata=headers)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("user", "password"), [("anna", "plain"), ("bob", "häsh:ed")])
async def test_plain_and_hashed_passwords_are_taken(guarded: Server, user: str, password: str) -> None:
    client = client_of(guarded, authorization=basic(user, password))
    try:
        for _ in range(2):
            assert (await client.stats.get_server_info(GetServerInfoRequest())).user == user
    finally:
        client.channel.close()


WRONG = {
    "empty": "",
    "wrong password": basic("anna", "wrong"),
    "empty password": basic("anna", ""),
    "start of the password": basic("anna", "plai"),
    "other user's password": basic("anna", "häsh:ed"),
    "wrong hashed password": basic("bob", "wrong"),
    "the hash itself": basic("bob", HASH),
    "unknown user": basic("eve", "plain"),
    "empty user": basic("", ""),
    "upper case": basic("ANNA", "plain"),
    "no scheme": base64.b64encode(b"anna:plain").decode(),
    "other scheme": basic("anna", "plain").replace("Basic", "Bearer"),
    "no base64": "Basic anna:plain",
    "no colon": "Basic " + base64.b64encode(b"annaplain").decode(),
    "nothing after the scheme": "Basic",
    "broken utf-8": basic(b"\xff\xfe", "plain"),
    "nul": basic("anna\0", "plain"),
    "nul in the password": basic("bob", "häsh\0"),
    "over-long plain": basic("anna", "x" * 10_000),
    "over-long hashed": basic("bob", "x" * 73),
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("authorization", [pytest.param(value, id=name) for name, value in WRONG.items()])
async def test_wrong_credentials_are_refused_on_the_headers_alone(guarded: Server, authorization: str) -> None:
    async with raw_connection(guarded.app.port) as raw:
        answer = await raw.call("/pulse.v1.JobService/SubmitJob", None, authorization=authorization)
        assert answer.status is Status.UNAUTHENTICATED
        assert "plain" not in answer.message


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", PATHS)
async def test_every_rpc_is_closed_to_those_without_credentials(guarded: Server, path: str) -> None:
    async with raw_connection(guarded.app.port) as raw:
        assert (await raw.call(path, None)).status is Status.UNAUTHENTICATED


@pytest.mark.asyncio(loop_scope="module")
async def test_the_rpcs_are_those_that_the_server_has(guarded: Server) -> None:
    """So that no service can be added that the test above does not know."""
    served = {path for server in servers for path in server._mapping}
    assert served == {*PATHS, *HealthBase().__mapping__()}


@pytest.mark.asyncio(loop_scope="module")
async def test_health_needs_no_credentials(guarded: Server) -> None:
    assert (await guarded.health.check(HealthCheckRequest())).status.name == "SERVING"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_header_that_is_no_text_ends_at_most_its_connection(guarded: Server) -> None:
    async with raw_connection(guarded.app.port) as raw:
        try:
            answer = await raw.call("/pulse.v1.JobService/SubmitJob", None, authorization=b"Basic \xff\xfe")
            assert answer.status is Status.UNAUTHENTICATED
        except ConnectionError:
            pass
    assert (await guarded.health.check(HealthCheckRequest())).status.name == "SERVING"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_pause_names_who_did_it(guarded: Server) -> None:
    client = client_of(guarded, authorization=basic("bob", "häsh:ed"))
    try:
        await client.dispatch.pause_dispatch(PauseDispatchRequest(topic="t", reason="lunch"))
        status = await client.dispatch.get_dispatch_status(GetDispatchStatusRequest())
        assert [(switch.topic, switch.paused_by) for switch in status.topics] == [("t", "bob")]
    finally:
        client.channel.close()


async def test_without_users_everybody_is_nobody(server: Server) -> None:
    client = Client(server.app.port, metadata={"authorization": basic("anna", "plain")})
    try:
        assert (await client.stats.get_server_info(GetServerInfoRequest())).user == ""
        assert (await server.stats.get_server_info(GetServerInfoRequest())).user == ""
    finally:
        client.channel.close()


async def test_a_client_with_wrong_credentials_gets_the_status(database_dsn: str) -> None:
    async with running_server(database_dsn, auth_users=USERS) as server:
        with pytest.raises(GRPCError) as caught:
            await server.submit()
        assert caught.value.status is Status.UNAUTHENTICATED
        assert await server.statuses() == {}


# The authenticator by itself.


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The passwords that were checked against a hash."""
    checked: list[bytes] = []
    check = bcrypt.checkpw

    def checkpw(password: bytes, hashed: bytes) -> bool:
        checked.append(password)
        return check(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", checkpw)
    return checked


async def refused(authenticator: Authenticator, authorization: str) -> str:
    with pytest.raises(Unauthenticated) as caught:
        await authenticator.authenticate(authorization)
    return str(caught.value)


async def test_a_password_that_was_right_is_not_hashed_again(checks: list[bytes]) -> None:
    authenticator = Authenticator(parse_users(USERS))
    for _ in range(3):
        assert await authenticator.authenticate(basic("bob", "häsh:ed")) == "bob"
    assert len(checks) == 1


async def test_a_password_that_was_wrong_is_hashed_every_time(checks: list[bytes]) -> None:
    authenticator = Authenticator(parse_users(USERS))
    for _ in range(3):
        await refused(authenticator, basic("bob", "wrong"))
    assert len(checks) == 3
    assert await authenticator.authenticate(basic("bob", "häsh:ed")) == "bob"


async def test_an_unknown_user_costs_a_check_and_gets_the_same_answer(checks: list[bytes]) -> None:
    costly = bcrypt.hashpw(b"x", bcrypt.gensalt(6)).decode()
    authenticator = Authenticator(parse_users(f"bob:{HASH},carl:{costly}"))
    assert await refused(authenticator, basic("eve", "wrong")) == await refused(authenticator, basic("bob", "wrong"))
    assert len(checks) == 2
    assert authenticator._decoy.split("$")[2] == "06", "as dear as the dearest user"


async def test_an_over_long_password_is_refused_without_a_check(checks: list[bytes]) -> None:
    authenticator = Authenticator(parse_users(USERS))
    assert "72 bytes" in await refused(authenticator, basic("bob", "x" * 73))
    assert checks == []


async def test_what_is_remembered_is_bounded_and_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "REMEMBERED", 2)
    authenticator = Authenticator({f"user{n}": "secret" for n in range(5)})
    for n in range(5):
        await authenticator.authenticate(basic(f"user{n}", "secret"))
    assert len(authenticator._verified) == 2
    assert b"secret" not in repr(authenticator._verified).encode()


async def test_a_flood_of_wrong_passwords_takes_few_threads_and_not_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    running = most = 0
    release = asyncio.Event()

    async def to_thread(check: Any, *arguments: Any) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return False

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    authenticator = Authenticator(parse_users(USERS))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        for n in range(20):
            tasks.create_task(refused(authenticator, basic("bob", f"wrong {n}")))
        while running < auth.CONCURRENT_CHECKS:
            await asyncio.sleep(0)
        release.set()
    assert most == auth.CONCURRENT_CHECKS


@pytest.mark.parametrize(
    "text",
    [
        "anna",
        "anna:",
        ":secret",
        "anna:secret,",
        ",",
        "anna:secret,,bob:secret",
        "anna:secret,anna:other",
        "anna:$2b$12$secret",
        "anna:$2b$04$" + "!" * 53,
        "anna:$2b$99$" + "a" * 53,
        "anna:$2z$04$" + "a" * 53,
        "anna:$2",
        "anna:" + "secret" * 13,
    ],
)
def test_broken_users_are_one_clear_line(text: str) -> None:
    with pytest.raises(StartupError) as caught:
        parse_users(text)
    message = str(caught.value)
    assert message.startswith("PULSE_AUTH_USERS: ")
    assert "\n" not in message
    assert "secret" not in message


def test_users_are_read_as_they_are_written() -> None:
    assert parse_users(f" anna:p:a s$2 ,bob:{HASH}") == {"anna": "p:a s$2", "bob": HASH}


def test_a_costly_hash_is_not_computed_at_the_start(checks: list[bytes]) -> None:
    costly = HASH.replace("$04$", "$31$")
    assert parse_users(f"anna:{costly}") == {"anna": costly}
    Authenticator({"anna": costly})
    assert checks == []
