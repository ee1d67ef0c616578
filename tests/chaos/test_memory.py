"""Memory of server and worker over many jobs: it grows to its working size and stays there."""

from pathlib import Path

from chaos.oracle import until
from chaos.system import Program, Storm, running_system

STEPS = 20
# In the second half of the run, whatever its size: 50 bytes a job when it is short, 5 when it is long.
MOST_GROWTH_MIB = 2.5


def resident_mib(program: Program) -> float:
    """What the process occupies, in MiB."""
    rollup = Path(f"/proc/{program.process.pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Rss:")) / 1024


async def test_memory_is_flat_over_many_jobs(storm: Storm, database_dsn: str) -> None:
    jobs = 1_000_000 if storm.long else 100_000
    async with running_system(storm, database_dsn, workers=1) as system, system.client() as client:
        sizes: dict[str, list[float]] = {"server": [], "worker": []}
        for _ in range(STEPS):
            await client.enqueue_many("quiet", [None] * (jobs // STEPS))

            async def done() -> bool:
                return await system.oracle.count("status IN ('PENDING', 'RUNNING', 'RETRYING')") == 0

            await until(done, "the jobs of this step")
            sizes["server"].append(resident_mib(system.servers[0]))
            sizes["worker"].append(resident_mib(system.workers[0]))
    for name, samples in sizes.items():
        growth = samples[-1] - samples[STEPS // 2]
        storm.figures |= {f"{name}_mib": round(samples[-1], 1), f"{name}_growth_mib_in_2nd_half": round(growth, 2)}
        assert growth < MOST_GROWTH_MIB, samples
    storm.figures["jobs"] = jobs
