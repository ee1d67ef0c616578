"""kill -9 in a loop, under load and schedules of one second: nothing is lost, nothing is accepted twice."""

import signal

from chaos.postgres import Cluster
from chaos.proxy import Proxy
from chaos.system import Storm, running_system

JOBS = 50_000
KILLS = 10


async def test_workers_are_killed_again_and_again(storm: Storm, database_dsn: str) -> None:
    async with running_system(storm, database_dsn, servers=3, workers=4) as system:
        async with system.ticking(), system.load(JOBS):
            for share in storm.shares(KILLS):
                await system.until_ended(share * JOBS)
                victim = storm.random.choice(system.workers)
                await victim.kill()
                await victim.start()
        await system.judge()
    assert storm.figures["expired"] > 0


async def test_one_of_three_servers_is_killed_again_and_again(storm: Storm, database_dsn: str) -> None:
    """Clients come through a balancer, and find another server."""
    async with (
        running_system(storm, database_dsn, servers=3, workers=0) as system,
        Proxy(*system.ports) as balancer,
    ):
        for _ in range(4):
            await system.add_worker(balancer.address)
        async with system.ticking(balancer.address), system.load(JOBS, balancer.address):
            for share in storm.shares(KILLS):
                await system.until_ended(share * JOBS)
                victim = storm.random.choice(system.servers)
                await victim.kill()
                await victim.start()
        await system.judge()


async def test_postgres_is_killed_again_and_again(storm: Storm, cluster: Cluster) -> None:
    async with running_system(storm, cluster.dsn, servers=3, workers=4) as system:
        async with system.ticking(), system.load(JOBS):
            for share in storm.shares(KILLS):
                await system.until_ended(share * JOBS)
                await cluster.kill(storm.random.choice((signal.SIGKILL, signal.SIGQUIT)))
                await cluster.start()
        await system.judge()
