"""pgbouncer in transaction mode between the servers and Postgres."""

import asyncpg

from chaos.postgres import Cluster
from chaos.system import Program, Storm, free_port, running_system

JOBS = 5000

CONFIGURATION = """
[databases]
pulse = host=127.0.0.1 port={postgres} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
auth_type = any
pool_mode = transaction
default_pool_size = 5
unix_socket_dir =
ignore_startup_parameters = jit,plan_cache_mode,enable_seqscan,idle_in_transaction_session_timeout
"""


async def test_servers_work_through_pgbouncer_in_transaction_mode(storm: Storm, cluster: Cluster) -> None:
    """Fewer connections than the servers' pools have, so that statements of one go over many. It is killed as well."""
    port = free_port()
    configuration = storm.directory / "pgbouncer.ini"
    configuration.write_text(CONFIGURATION.format(postgres=cluster.proxy.port, port=port))
    bouncer = Program(storm.directory, "pgbouncer", "pgbouncer", "-u", "nobody", str(configuration), ready="process up")
    await bouncer.start()
    try:
        dsn = f"postgresql://postgres@127.0.0.1:{port}/pulse"
        await _leave_a_statement_behind(dsn)
        settings = {
            "PULSE_DATABASE_URL": dsn,
            "PULSE_LISTEN_URL": cluster.dsn,
            "PULSE_PREPARED_STATEMENTS": "false",
        }
        async with running_system(storm, cluster.dsn, servers=2, workers=2, **settings) as system:
            async with system.ticking(), system.load(JOBS):
                await system.until_listening()
                for share in storm.shares(3):
                    await system.until_ended(share * JOBS)
                    await bouncer.kill()
                    await bouncer.start()
            await system.judge()
    finally:
        await bouncer.kill()


async def _leave_a_statement_behind(dsn: str) -> None:
    """The first name that our driver would take is taken, on the connection that the first server is given."""
    neighbour = await asyncpg.connect(dsn, statement_cache_size=0)
    await neighbour.execute('PREPARE "__asyncpg_stmt_1__" AS SELECT 1')
    await neighbour.close()
