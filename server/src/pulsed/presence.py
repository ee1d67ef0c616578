"""Presence: every server vouches for its workers, so that any of them can list them all."""

import asyncio
import json
import uuid
from datetime import timedelta

from pulse_gen.db.workers import AsyncQuerier
from pulsed.clock import Clock
from pulsed.database import Database
from pulsed.dispatcher import Dispatcher

INTERVAL = timedelta(seconds=10)
BREATH = 0.1
# A server that has not vouched for its workers three times over is gone.
SILENCE = timedelta(seconds=35)


class Presence:
    """Writes which workers are connected here: one statement for all of them."""

    def __init__(self, database: Database, clock: Clock, dispatcher: Dispatcher, server_id: uuid.UUID) -> None:
        self._database = database
        self._clock = clock
        self._dispatcher = dispatcher
        self._server_id = server_id
        self._vouched: set[uuid.UUID] = set()
        # One at a time: an older word must not be written over a newer one.
        self._writing = asyncio.Lock()
        self.changed = asyncio.Event()

    async def run_soon(self) -> None:
        """The same after a breath: workers that arrive together are written together."""
        await asyncio.sleep(BREATH)
        await self.run_once()

    async def run_once(self) -> None:
        """Vouches for all workers, and takes back the word for those that left."""
        async with self._writing:
            await self._write()

    async def _write(self) -> None:
        workers = list(self._dispatcher.workers.values())
        present = {worker.worker_id for worker in workers}
        gone = self._vouched - present
        async with self._database.operator.connection() as connection:
            querier = AsyncQuerier(connection)
            if workers:
                await querier.workers_vouch(
                    server_id=self._server_id,
                    ids=[worker.worker_id for worker in workers],
                    topics=[json.dumps(sorted(worker.topics)) for worker in workers],
                    capacities=[worker.capacity for worker in workers],
                    hosts=[worker.host for worker in workers],
                    versions=[worker.version for worker in workers],
                    now=self._clock.now(),
                )
            if gone:
                await querier.workers_gone(ids=list(gone), server_id=self._server_id)
            await querier.workers_forget(silence=SILENCE, now=self._clock.now())
        self._vouched = present
