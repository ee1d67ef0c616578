"""The checks of `pulse doctor`. Each stands on the one before; the first that fails ends them."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pulse_cli import __version__
from pulse_cli.command import Session
from pulse_cli.errors import CommandError, ExitCode, describe_os_error, one_line
from pulse_cli.profiles import config_path
from pulse_cli.times import span

if TYPE_CHECKING:
    import pulse

OLDEST_POSTGRES = 14
# A transaction this old keeps Postgres from cleaning up behind a busy queue.
LONG_TRANSACTION = timedelta(minutes=10)
# Beyond this, "3 minutes ago" on this machine misleads.
CLOCK_DIFFERENCE = timedelta(seconds=10)
# A server without TLS closes the connection at once, or waits for a greeting that it knows.
GREETING = timedelta(seconds=2)
CERTIFICATE_SOON = timedelta(days=14)


@dataclass(frozen=True)
class Finding:
    """What a check found: ok, warning or failed."""

    check: str
    result: str
    detail: str
    advice: str | None = None


class Failed(Exception):
    """A check found what makes going on useless; it is among the findings already."""


class Diagnosis:
    """All checks of one run, and the exit code that they give."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.findings: list[Finding] = []
        self.code = ExitCode.OK

    async def run(self) -> None:
        """Go through the checks."""
        try:
            self._settings()
            client = self._make_client()
            async with client:
                await self._address(client)
                await self._tls(client)
                await self._call("server", client, self._server)
                await self._call("credentials", client, self._credentials)
                await self._call("dispatch", client, self._dispatch)
        except Failed:
            return

    def _ok(self, check: str, detail: str) -> None:
        self.findings.append(Finding(check, "ok", detail))

    def _warn(self, check: str, detail: str, advice: str) -> None:
        self.findings.append(Finding(check, "warning", detail, advice))

    def _fail(self, check: str, detail: str, advice: str | None, code: ExitCode) -> Failed:
        self.findings.append(Finding(check, "failed", one_line(detail), advice))
        self.code = code
        return Failed()

    def _fail_by(self, check: str, error: CommandError) -> Failed:
        """The line of an error says what is wrong and, after its last semicolon, what to do."""
        detail, _, advice = error.format_message().rpartition("; ")
        return self._fail(check, detail or advice, advice if detail else None, error.code)

    def _settings(self) -> None:
        try:
            target = self._session.target
        except CommandError as error:
            raise self._fail_by("settings", error) from None
        sources = ", ".join(f"{key} from {source}" for key, source in target.sources.items()) or "nothing is set"
        file = config_path()
        self._ok("settings", f"{sources}; {file} {'is there' if file.exists() else 'does not exist'}")

    def _make_client(self) -> "pulse.Pulse":
        try:
            return self._session.target.client()
        except CommandError as error:
            raise self._fail_by("settings", error) from None

    async def _address(self, client: "pulse.Pulse") -> None:
        host, port = split_address(client.address)
        seconds = self._session.target.timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                _, writer = await asyncio.open_connection(host, port)
        except socket.gaierror as error:
            advice = "is the name right? Give another with --addr or PULSE_ADDR"
            raise self._fail("address", f"{host}: {error.strerror}", advice, ExitCode.UNAVAILABLE) from None
        except (OSError, TimeoutError) as error:
            reason = "no answer" if isinstance(error, TimeoutError) else describe_os_error(error)
            advice = "start pulsed there, look at the firewall, or name another address with --addr or PULSE_ADDR"
            raise self._fail("address", f"{client.address}: {reason}", advice, ExitCode.UNAVAILABLE) from None
        peer = writer.get_extra_info("peername")[0]
        writer.close()
        self._ok("address", f"{client.address} accepts connections ({peer})")

    async def _tls(self, client: "pulse.Pulse") -> None:
        """A handshake of our own: it tells more than a call that fails, and finds TLS where it was not asked for."""
        context = self._tls_context()
        host, port = split_address(client.address)
        if context is None:
            if await speaks_tls(host, port, self._session.target.timeout):
                advice = "give --tls-ca FILE with its certificate authority, or --tls if the system trusts it"
                raise self._fail("tls", "the server speaks TLS, and we were told not to", advice, ExitCode.USAGE)
            self._ok("tls", "not used; credentials travel in the clear")
            return
        try:
            async with asyncio.timeout(self._session.target.timeout.total_seconds()):
                _, writer = await asyncio.open_connection(host, port, ssl=context)
        except ssl.SSLCertVerificationError as error:
            advice = "--tls-ca names the authority that signed it, and the address uses a name that it holds"
            detail = f"the certificate is not trusted: {error.verify_message}"
            raise self._fail("tls", detail, advice, ExitCode.USAGE) from None
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
            advice = "does the server have PULSE_TLS_CERT and PULSE_TLS_KEY? If not, use --no-tls and no --tls-ca"
            raise self._fail("tls", f"no handshake: {reason}", advice, ExitCode.USAGE) from None
        connection = writer.get_extra_info("ssl_object")
        left = datetime.fromtimestamp(ssl.cert_time_to_seconds(connection.getpeercert()["notAfter"]), UTC) - _now()
        writer.close()
        detail = f"{connection.version()}, the certificate holds for {span(left)} more"
        if left < CERTIFICATE_SOON:
            self._warn("tls", detail, "renew the server's certificate")
        else:
            self._ok("tls", detail)

    def _tls_context(self) -> ssl.SSLContext | None:
        """As the SDK makes it from the same settings, for a look of our own."""
        target = self._session.target
        wanted = target.tls if target.tls is not None else bool(target.tls_ca)
        if not wanted and not (target.tls is None and target.address.startswith("https://")):
            return None
        context = ssl.create_default_context(cafile=target.tls_ca)
        context.set_alpn_protocols(["h2"])
        return context

    async def _call(self, check: str, client: "pulse.Pulse", step: Callable[["pulse.Pulse"], Awaitable[None]]) -> None:
        import pulse

        try:
            await step(client)
        except pulse.PulseError as error:
            raise self._fail_by(check, self._session.translate(error, client)) from None

    async def _server(self, client: "pulse.Pulse") -> None:
        if not await client.is_serving():
            advice = "look at its log: the database is away, or it is about to stop"
            raise self._fail("server", "it says that it is not ready", advice, ExitCode.UNAVAILABLE)
        self._ok("server", "it says that it is ready")

    async def _credentials(self, client: "pulse.Pulse") -> None:
        info = await client.server_info()
        target = self._session.target
        if info.user:
            self._ok("credentials", f"known as {info.user}")
        elif target.user:
            self._warn("credentials", "the server has no users", f"it lets everybody in, not only {target.user}")
        else:
            self._ok("credentials", "none needed: the server has no users")
        self._versions(info)
        self._database(info)

    def _versions(self, info: "pulse.ServerInfo") -> None:
        import pulse

        detail = f"server {info.version}, sdk {pulse.__version__}, command line {__version__}"
        ours, theirs = _release(__version__), _release(info.version)
        if ours[:2] == theirs[:2]:
            self._ok("versions", detail)
        else:
            older = "this command line" if ours < theirs else "the server"
            self._warn("versions", detail, f"update {older}: versions should agree but for the last number")

    def _database(self, info: "pulse.ServerInfo") -> None:
        oldest = info.oldest_transaction
        detail = f"Postgres {info.postgres_version}, schema {info.schema_version}"
        detail += f", oldest transaction {span(oldest)}" if oldest else ", no long transaction"
        if _release(info.postgres_version)[0] < OLDEST_POSTGRES:
            self._warn("database", detail, f"Postgres {OLDEST_POSTGRES} or newer is needed")
        elif oldest is not None and oldest > LONG_TRANSACTION:
            advice = (
                "find it in pg_stat_activity (order by xact_start) and end it: it keeps dead rows from being removed"
            )
            self._warn("database", detail, advice)
        else:
            self._ok("database", detail)

    async def _dispatch(self, client: "pulse.Pulse") -> None:
        stats = await client.stats()
        if stats.taken_at is not None and abs(_now() - stats.taken_at) > CLOCK_DIFFERENCE:
            difference = span(abs(_now() - stats.taken_at))
            self._warn("clock", f"{difference} off the database's", "set this machine's clock; ages here are wrong")
        status = await client.dispatch_status()
        topics = await client.topics()
        alone = [topic.name for topic in topics if topic.ready and not topic.workers]
        if status.paused:
            self._warn(
                "dispatch", f"paused: {status.reason or 'no reason given'}", "go on with `pulse dispatch resume`"
            )
        elif paused := [switch.topic or "" for switch in status.topics if switch.paused]:
            self._warn("dispatch", f"paused topics: {', '.join(paused)}", "`pulse dispatch status` says why")
        else:
            self._ok("dispatch", "running")
        if alone:
            names = ", ".join(alone[:5]) + (", ..." if len(alone) > 5 else "")
            self._warn("workers", f"jobs wait and no worker serves {names}", "start workers for these topics")
        else:
            self._ok("workers", f"{len(await client.workers())} connected, every topic with waiting jobs is served")


async def speaks_tls(host: str, port: int, timeout: timedelta) -> bool:
    """Whether a server answers a TLS greeting, whoever signed its certificate. Nothing else is sent to it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(min(timeout, GREETING).total_seconds()):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def split_address(address: str) -> tuple[str, int]:
    """Host and port of an address as the SDK writes it."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _now() -> datetime:
    return datetime.now(UTC)


def _release(version: str) -> tuple[int, ...]:
    parts = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        parts.append(int(digits or 0))
    return tuple(parts)
