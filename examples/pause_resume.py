"""Maintenance: nothing new starts while dispatch is paused, nothing is lost, and everybody can see why."""

import asyncio

import pulse

p = pulse.Pulse()


@p.task("charge-card")
async def charge_card() -> None:
    """Needs the database that is about to be down."""


async def main() -> None:
    """Pause, submit, ask why nothing happens, resume."""
    async with p:
        worker = asyncio.create_task(p.run())
        await p.pause_dispatch(reason="the database moves")
        job_id = await charge_card.enqueue()
        print((await p.explain_job(job_id)).text)
        status = await p.dispatch_status()
        print(f"paused: {status.paused}, because {status.reason}")

        await p.resume_dispatch()
        job = await p.wait_job(job_id)
        print(f"resumed: the job is {job.status}")
        p.stop()
        await worker


if __name__ == "__main__":
    asyncio.run(main())
