"""pulse.sync: the same client, blocking."""

import inspect
import threading
from typing import Any

import pytest
from pydantic import BaseModel

import pulse
import pulse.sync


class Args(BaseModel):
    n: int


def test_everything_but_the_worker_is_there() -> None:
    ours = {name for name in vars(pulse.sync.Pulse) if not name.startswith("_")}
    theirs = {
        name
        for kind in pulse.Pulse.__mro__
        for name, value in vars(kind).items()
        if not name.startswith("_") and (inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value))
    }
    assert theirs - ours == {"run"}
    for name in theirs - {"run"}:
        assert inspect.signature(getattr(pulse.sync.Pulse, name)) == inspect.signature(getattr(pulse.Pulse, name))


def test_a_plain_script_enqueues_and_operates(server: Any) -> None:
    with pulse.sync.Pulse(server.address) as p:
        job_id = p.enqueue("t", {"n": 1}, tags=["x"])
        assert p.get_job(job_id).json() == {"n": 1}
        assert [job.id for job in p.list_jobs(tags=["x"])] == [job_id]
        p.pause_dispatch(reason="why not")
        assert p.dispatch_status().paused
        assert p.cancel_job(job_id) is pulse.JobStatus.CANCELED
        with pytest.raises(pulse.NotFound):
            p.get_job("018f2c5e-1111-7000-8000-000000000001")


def test_many_threads_share_one_client(server: Any) -> None:
    with pulse.sync.Pulse(server.address) as p:
        threads = [threading.Thread(target=lambda: p.enqueue("t", None)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert p.count_jobs(topic="t").count == 20


def test_tasks_of_the_worker_check_arguments_here_too(server: Any) -> None:
    client = pulse.Pulse(server.address)

    @client.task("t", priority=4)
    async def handler(args: Args) -> None: ...

    with pulse.sync.Pulse(client=client) as p:
        assert p.get_job(p.enqueue(handler, Args(n=1))).priority == 4
        with pytest.raises(pulse.InvalidPayload):
            p.enqueue("t", {"n": "x"})
