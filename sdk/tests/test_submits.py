"""How submits travel: grouped, in order, again after a break, each stored once."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

import pulse

JOB_ID = "018f2c5e-1111-7000-8000-{:012}"


async def test_concurrent_submits_share_messages_and_each_gets_its_own_answer(client: pulse.Pulse, server: Any) -> None:
    await client.enqueue("t", "taken", job_id=JOB_ID.format(7))
    results = await asyncio.gather(
        *(client.submit("t", number, job_id=JOB_ID.format(number)) for number in range(500)), return_exceptions=True
    )
    assert isinstance(results.pop(7), pulse.AlreadyExists)
    assert all(isinstance(result, pulse.Submitted) and not result.existing for result in results)
    assert (await client.count_jobs(topic="t")).count == 500
    statements = {job.submitted_at async for job in client.list_jobs(topic="t", page_size=1000)}
    assert len(statements) < 50


async def test_a_submit_that_is_refused_says_why_and_the_next_one_goes_through(client: pulse.Pulse) -> None:
    with pytest.raises(pulse.InvalidArgument, match=r"job\.job_id"):
        await client.enqueue("t", job_id="not-an-id")
    await client.enqueue("t")


async def test_a_submit_whose_caller_went_away_does_not_touch_the_others(client: pulse.Pulse) -> None:
    submits = [asyncio.create_task(client.enqueue("t", number)) for number in range(20)]
    await asyncio.sleep(0)
    for submit in submits[::2]:
        submit.cancel()
    results = await asyncio.gather(*submits, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
    for job_id in results[1::2]:
        assert isinstance(job_id, str)
        await client.get_job(job_id)


async def test_a_call_that_ended_while_idle_is_opened_again_without_a_word(server_process: Any) -> None:
    server_process.start()
    async with pulse.Pulse(server_process.address, retries=0) as client:
        first = await client.enqueue("t")
        server_process.kill()
        server_process.start()
        second = await client.enqueue("t")
        assert {first, second} == {job.id async for job in client.list_jobs()}


async def test_many_jobs_are_stored_once_and_in_order_although_the_server_is_killed_between(
    server_process: Any,
) -> None:
    server_process.start()
    restarts = []

    def kill_now_and_then(stored: int) -> None:
        if stored in (300, 900):
            restarts.append(stored)
            server_process.kill()
            server_process.start()

    async with pulse.Pulse(server_process.address, timeout=60) as client:
        ids = await client.enqueue_many("t", range(2000), chunk_size=100, on_progress=kill_now_and_then)
        listed = [job.id async for job in client.list_jobs(page_size=1000)]
    assert restarts == [300, 900]
    assert listed == ids[::-1]


async def test_a_server_that_fell_silent_is_an_error_in_time_and_no_end(server_process: Any) -> None:
    server_process.start()
    async with pulse.Pulse(server_process.address, timeout=1) as client:
        await client.enqueue("t")
        os.kill(server_process.pid, signal.SIGSTOP)
        with pytest.raises(pulse.DeadlineExceeded):
            await client.enqueue("t", job_id=JOB_ID.format(1))
        with pytest.raises(pulse.DeadlineExceeded):
            await client.enqueue_many("t", [1])
        os.kill(server_process.pid, signal.SIGCONT)
        await client.enqueue("t", job_id=JOB_ID.format(1))
        await client.enqueue_many("t", [1])


async def test_close_ends_what_is_under_way(make_server: Callable[..., Any]) -> None:
    client = pulse.Pulse(make_server().address)
    await client.enqueue("t")
    submit = asyncio.create_task(client.enqueue("t"))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(pulse.Unavailable, match="closed"):
        await submit
    await client.enqueue("t")
    await client.close()
