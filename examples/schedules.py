"""Jobs by the clock. Declaring a schedule is safe at every start: the same one is kept, a changed one is updated."""

import asyncio
from datetime import UTC, datetime, timedelta

import pulse

p = pulse.Pulse()


@p.task("report")
async def report(city: str, job: pulse.Job) -> None:
    """`scheduled_for` is the occurrence that the job stands for, however late it runs."""
    print(f"report for {city}, due {job.scheduled_for}", flush=True)


async def main() -> None:
    """Declare three, trigger one by hand, show what comes, and run what falls due for a few seconds."""
    async with p:
        berlin = await report.schedule("Berlin", pulse.Cron("0 9 * * MON-FRI", tz="Europe/Berlin"))
        await report.schedule("Lisbon", pulse.Every(timedelta(seconds=1)), name="every second", misfire="skip")
        await report.schedule("Oslo", pulse.At(datetime.now(UTC) + timedelta(seconds=1)))
        print(f"{berlin.name} fires next at {berlin.next_run_at}")
        await p.trigger_schedule(berlin.id)

        worker = asyncio.create_task(p.run())
        await asyncio.sleep(3)
        p.stop()
        await worker

        async for schedule in p.list_schedules(topic="report"):
            fires = [job async for job in p.list_schedule_fires(schedule.id)]
            print(f"{schedule.name}: {len(fires)} fired")
            await p.delete_schedule(schedule.id)


if __name__ == "__main__":
    asyncio.run(main())
