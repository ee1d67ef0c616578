"""All parts together: the program on its own Postgres, a client and a worker on real sockets."""

from pathlib import Path

from pulse_gen.rpc.pulse.v1 import JobStatus
from support.program import running_pulsed
from support.server import BareWorker, Client


async def test_a_job_travels_from_submit_to_completed_and_survives_a_restart(tmp_path: Path) -> None:
    async with running_pulsed(data_dir=tmp_path) as pulsed:
        client = Client(pulsed.port)
        completed = await client.submit("work", b'{"n": 1}')
        async with BareWorker(client) as worker:
            assignment = await worker.take_one()
            assert (assignment.job_id, assignment.payload) == (completed, b'{"n": 1}')
            await worker.complete(assignment)
        waiting = await client.submit("work", b'{"n": 2}')
        client.channel.close()
        assert await pulsed.stop() == 0
    async with running_pulsed(data_dir=tmp_path) as pulsed:
        client = Client(pulsed.port)
        assert (await client.job(completed)).status is JobStatus.COMPLETED
        async with BareWorker(client) as worker:
            assert (await worker.take_one()).job_id == waiting
        client.channel.close()


async def test_a_worker_of_one_server_gets_the_jobs_of_another(database_dsn: str) -> None:
    async with running_pulsed(dsn=database_dsn) as one, running_pulsed(dsn=database_dsn) as two:
        producer, consumer = Client(one.port), Client(two.port)
        async with BareWorker(consumer, capacity=100) as worker:
            submitted = await producer.submit_many(50)
            taken = await worker.take(50)
            assert {assignment.job_id for assignment in taken} == set(submitted)
            assert not (await worker.complete_many(taken)).stale
        producer.channel.close()
        consumer.channel.close()
