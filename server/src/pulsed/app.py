"""The composition root: everything that runs in one server process, wired here and nowhere else."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pulse_gen.codec import Codec
from pulsed.auth import Authenticator, parse_users
from pulsed.clock import Clock
from pulsed.database import Database, open_database
from pulsed.dispatcher import Dispatcher
from pulsed.errors import RequestError, StartupError
from pulsed.filters import JobFinder
from pulsed.health import Health
from pulsed.history import History
from pulsed.http2 import GrpcServer
from pulsed.http_endpoints import serve_http
from pulsed.identifiers import new_id
from pulsed.jobs import Jobs
from pulsed.loops import run_forever
from pulsed.metrics import Metrics
from pulsed.notifications import Hearing, Listener, Notifier
from pulsed.pause import PauseGate
from pulsed.presence import INTERVAL as PRESENCE_INTERVAL
from pulsed.presence import Presence
from pulsed.reports import Reports
from pulsed.retention import Pruner
from pulsed.rpc.dispatch_service import DispatchService
from pulsed.rpc.health_service import HealthService
from pulsed.rpc.job_service import JobService
from pulsed.rpc.schedule_service import ScheduleService
from pulsed.rpc.stats_service import StatsService
from pulsed.rpc.worker_service import WorkerService
from pulsed.scheduler import Scheduler
from pulsed.schedules import Schedules
from pulsed.settings import Settings, parse_address
from pulsed.stats import Stats
from pulsed.tls import load_tls
from pulsed.traffic import Traffic
from pulsed.transport import Guard, make_server, stop_server

logger = logging.getLogger(__name__)

PAUSE_REFRESH = timedelta(seconds=1)
TRAFFIC_FLUSH = timedelta(seconds=5)
PRUNE_INTERVAL = timedelta(minutes=1)


@dataclass(frozen=True)
class App:
    """The parts of a running server that tests and the program around it touch."""

    port: int
    database: Database
    dispatcher: Dispatcher
    gate: PauseGate
    health: Health
    listener: Listener
    presence: Presence
    pruner: Pruner
    reports: Reports
    scheduler: Scheduler
    traffic: Traffic


@asynccontextmanager
async def run_app(
    settings: Settings, dsn: str, *, clock: Clock | None = None, reuse_port: bool = False
) -> AsyncIterator[App]:
    """A server on a migrated database, from ready to stopped.

    It accepts nobody before the pause switch has been read: to guess could mean to dispatch into an outage.
    """
    clock = clock or Clock()
    tls = load_tls(settings)
    users = parse_users(settings.auth_users.get_secret_value()) if settings.auth_users else {}
    server_id = new_id()
    async with open_database(
        dsn,
        pool_size=settings.pool_size,
        timeout=settings.statement_timeout,
        prepared_statements=settings.prepared_statements,
    ) as database:
        metrics = Metrics()
        health = Health()
        traffic = Traffic(database, clock, metrics)
        notifier = Notifier(database, server_id)
        gate = PauseGate(database, clock, notifier)
        dispatcher = Dispatcher(database, clock, gate, notifier, traffic, settings)
        jobs = Jobs(database, clock, dispatcher, notifier, traffic)
        reports = Reports(database, clock, dispatcher, traffic, settings)
        scheduler = Scheduler(database, clock, dispatcher, traffic)
        dispatcher.schedule_due = scheduler.due_in
        presence = Presence(database, clock, dispatcher, server_id)
        pruner = Pruner(database, clock, settings)
        stats = Stats(database, clock)
        finder = JobFinder(database)
        control_changed = asyncio.Event()
        listen_url = settings.listen_url.get_secret_value() if settings.listen_url else dsn
        listener = Listener(
            listen_url,
            server_id,
            Hearing(
                ready=dispatcher.ready_elsewhere,
                cancel=dispatcher.cancel,
                control_changed=control_changed.set,
                reconnected=dispatcher.probe_soon,
            ),
        )
        metrics.watch("pulse_workers", "Connected workers", lambda: len(dispatcher.workers))
        metrics.watch("pulse_jobs_held", "Jobs held by connected workers", dispatcher.count_held)

        async def refresh_gate() -> None:
            try:
                await gate.refresh()
            except RequestError:
                health.set_ready(False)
                raise
            health.set_ready(True)

        # betterproto2's base class does not declare what grpclib asks of a service.
        services: list[Any] = [
            JobService(jobs, finder, gate, stats, settings.max_payload_bytes),
            WorkerService(dispatcher, reports, presence),
            ScheduleService(Schedules(database, clock, dispatcher, traffic), finder, settings.max_payload_bytes),
            DispatchService(gate),
            StatsService(stats, History(database), gate, server_id, settings),
        ]
        names = {path.split("/")[1] for service in services for path in service.__mapping__()}
        codec = Codec()
        guard = Guard(codec, settings.max_message_bytes, metrics)
        server = make_server(
            [*services, HealthService(health, names)],
            authenticator=Authenticator(users),
            guard=guard,
            codec=codec,
            max_connections=settings.max_connections,
        )

        await refresh_gate()
        async with asyncio.TaskGroup() as tasks, serve_http(settings.metrics_addr, health, metrics):
            loops = [
                tasks.create_task(loop)
                for loop in (
                    dispatcher.run(),
                    notifier.run(),
                    listener.run(),
                    scheduler.run(),
                    jobs.lone_submits.run(),
                    reports.batcher.run(),
                    run_forever("the pause switch", refresh_gate, PAUSE_REFRESH, control_changed),
                    run_forever("the watchdog", reports.reap_expired, settings.watchdog_interval),
                    run_forever("retention", pruner.run_once, PRUNE_INTERVAL),
                    run_forever("traffic", traffic.flush, TRAFFIC_FLUSH),
                    run_forever("presence", presence.run_soon, PRESENCE_INTERVAL, presence.changed),
                )
            ]
            port = await start_listening(server, settings, tls, reuse_port=reuse_port)
            warn_if_exposed(settings, users)
            try:
                yield App(
                    port, database, dispatcher, gate, health, listener, presence, pruner, reports,
                    scheduler, traffic,
                )  # fmt: skip
            finally:
                health.set_ready(False)
                dispatcher.shut_down()
                await stop_server(server, guard, settings.shutdown_timeout.total_seconds())
                for loop in loops:
                    loop.cancel()
                await flush_quietly(presence, traffic)


async def start_listening(
    server: GrpcServer, settings: Settings, tls: ssl.SSLContext | None, *, reuse_port: bool
) -> int:
    """Opens the gRPC port and says which it is: 0 in the settings means any."""
    host, port = parse_address(settings.grpc_addr)
    try:
        await server.start(host, port, ssl=tls, reuse_port=reuse_port or None, backlog=1024)
    except OSError as error:
        raise StartupError(
            f"PULSE_GRPC_ADDR: can't listen on {settings.grpc_addr}: {error.strerror or error}"
        ) from None
    return server.port


def warn_if_exposed(settings: Settings, users: dict[str, str]) -> None:
    """Passwords on a plaintext port that others can reach are worth a loud word."""
    host, _ = parse_address(settings.grpc_addr)
    if users and settings.tls_cert is None and host not in ("127.0.0.1", "localhost", "::1"):
        logger.warning(
            "passwords travel in plain text: set PULSE_TLS_CERT and PULSE_TLS_KEY, or listen on 127.0.0.1",
            extra={"grpc_addr": settings.grpc_addr},
        )


async def flush_quietly(presence: Presence, traffic: Traffic) -> None:
    """Says goodbye for the workers and writes the last counts; without a database that is lost, and no harm."""
    try:
        await presence.run_once()
        await traffic.flush()
    except RequestError as error:
        logger.info("could not say goodbye", extra={"error": str(error)})
