"""pulse.testing and the pytest plugin."""

import asyncio
from datetime import timedelta

import pytest
from pydantic import BaseModel

import pulse
import pulse.testing

pytest_plugins = ["pytester"]


class Args(BaseModel):
    n: int


@pytest.fixture
def p(clean_environment: None) -> pulse.Pulse:
    """A client without a server."""
    return pulse.Pulse("127.0.0.1:1", retries=0)


async def test_capture_keeps_what_is_enqueued(p: pulse.Pulse) -> None:
    @p.task("double", priority=2)
    async def double(args: Args) -> None: ...

    with pulse.testing.capture(p) as jobs:
        first = await double.enqueue(Args(n=1), delay=60)
        await p.enqueue("other", {"any": 1}, unique="k")
        again = await p.submit("other", {"any": 2}, unique="k")
        await double.enqueue_many([Args(n=n) for n in range(3)])
    assert again.existing
    assert len(jobs) == 5
    assert jobs.assert_enqueued("double", Args(n=1), priority=2, delay=60).id == first
    jobs.assert_enqueued(double, times=4)
    jobs.assert_enqueued("other", {"any": 1})
    jobs.assert_not_enqueued("third")
    with pytest.raises(AssertionError, match=r"expected a job of 'double' with .*9.*found 0"):
        jobs.assert_enqueued(double, Args(n=9))
    with pytest.raises(AssertionError, match="expected no job"):
        jobs.assert_not_enqueued(double)
    with pytest.raises(pulse.Unavailable):  # after the block, jobs go to the server again
        await p.enqueue("other", None)


async def test_captured_jobs_run_inline_with_what_they_enqueue(p: pulse.Pulse) -> None:
    ran: list[int] = []

    @p.task("count-down")
    async def count_down(args: Args, job: pulse.Job) -> None:
        assert pulse.current_job() is job
        ran.append(args.n)
        if args.n:
            await count_down.enqueue(Args(n=args.n - 1))

    with pulse.testing.capture(p) as jobs:
        await count_down.enqueue(Args(n=2))
        outcomes = await jobs.run_all()
    assert ran == [2, 1, 0]
    assert all(outcome.succeeded for outcome in outcomes)


async def test_run_tells_how_a_handler_ended(p: pulse.Pulse) -> None:
    @p.task("t", timeout=0.05)
    async def handler(args: Args) -> None:
        match args.n:
            case 1:
                raise pulse.Retry("later", after=5)
            case 2:
                raise pulse.Discard("never")
            case 3:
                raise pulse.Snooze(10)
            case 4:
                await asyncio.sleep(60)

    async def run(n: int) -> pulse.testing.Outcome:
        return await pulse.testing.run(handler, Args(n=n))

    assert (await run(0)).succeeded
    assert (await run(1)).retry_after == timedelta(seconds=5)
    assert (await run(2)).discarded
    assert (await run(3)).snoozed
    slow = await run(4)
    assert slow.retried
    with pytest.raises(TimeoutError):
        slow.check()


async def test_plain_function_sees_a_job_of_the_test_s_making(p: pulse.Pulse) -> None:
    @p.task("t")
    def handler(job: pulse.Job) -> None:
        if job.is_last_attempt:
            raise pulse.Discard("giving up")

    job = pulse.testing.make_job("t", attempt=3, options=pulse.JobOptions(max_attempts=3))
    assert (await pulse.testing.run(handler, job=job)).discarded


def test_fixtures_give_a_real_server_that_is_clean_for_each_test(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    pytester.makepyfile(
        """
        import asyncio
        import pulse

        async def leave_something(client):
            async with client:
                await client.enqueue("t", {"n": 1})
                await client.schedule("t", None, pulse.Every(60))
                await client.pause_dispatch()
                return (await client.count_jobs(topic="t")).count

        def test_one(pulse_client):
            assert asyncio.run(leave_something(pulse_client)) == 1

        def test_two(pulse_client):
            assert asyncio.run(leave_something(pulse_client)) == 1
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)
