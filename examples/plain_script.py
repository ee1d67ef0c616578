"""No asyncio: for Django views, Flask routes and scripts. The same client, blocking."""

import pulse
import pulse.sync


def main() -> None:
    """Store a job, look at it, find it by its tag, cancel it."""
    with pulse.sync.Pulse() as p:
        job_id = p.enqueue("monthly-report", {"month": "2030-01"}, tags=["report"], delay=3600)
        print(f"job {job_id} is {p.get_job(job_id).status}")
        for job in p.list_jobs(tags=["report"], status="pending"):
            print(f"{job.topic} may start at {job.next_run_at:%H:%M}")
        p.cancel_job(job_id)
        try:
            p.cancel_job(job_id)
        except pulse.Conflict as error:
            print(f"once is enough: {error}")


if __name__ == "__main__":
    main()
