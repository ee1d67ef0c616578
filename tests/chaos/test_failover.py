"""A synchronous standby takes over under load: nothing that was acknowledged is lost, and nobody has to help."""

from chaos.postgres import Cluster
from chaos.system import Storm, running_system

JOBS = 10_000


async def test_a_synchronous_standby_is_promoted_under_load(storm: Storm) -> None:
    async with (
        Cluster(storm.directory / "primary") as primary,
        await primary.copy(storm.directory / "standby") as standby,
    ):
        await primary.await_standby()
        hosts = f"{primary.proxy.address},{standby.proxy.address}"
        dsn = f"postgresql://postgres@{hosts}/pulse?target_session_attrs=read-write"
        async with running_system(storm, dsn, servers=2, workers=2) as system:
            async with system.ticking(), system.load(JOBS):
                (share,) = storm.shares(1)
                await system.until_ended(share * JOBS)
                await primary.kill()
                await standby.execute("SELECT pg_promote()")
                await system.oracle.note_healed()
                await system.until_listening()
            await system.judge()
