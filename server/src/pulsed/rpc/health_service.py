"""grpc.health.v1.Health."""

import asyncio
from collections.abc import AsyncIterator, Collection

from pulse_gen.rpc.grpc.health.v1 import (
    HealthBase,
    HealthCheckRequest,
    HealthCheckResponse,
    HealthCheckResponseServingStatus,
)
from pulsed.errors import NotFound
from pulsed.health import Health

Status = HealthCheckResponseServingStatus


class HealthService(HealthBase):
    """Tells whether the server takes calls."""

    def __init__(self, health: Health, services: Collection[str]) -> None:
        self._health = health
        self._services = {"", *services}

    async def check(self, message: HealthCheckRequest) -> HealthCheckResponse:
        if message.service not in self._services:
            raise NotFound(f"there is no service {message.service!r}")
        return HealthCheckResponse(status=self._status())

    async def watch(self, message: HealthCheckRequest) -> AsyncIterator[HealthCheckResponse]:
        if message.service not in self._services:
            yield HealthCheckResponse(status=Status.SERVICE_UNKNOWN)
            await asyncio.get_running_loop().create_future()
        while True:
            changed = self._health.changed
            yield HealthCheckResponse(status=self._status())
            await changed.wait()

    def _status(self) -> HealthCheckResponseServingStatus:
        return Status.SERVING if self._health.ready else Status.NOT_SERVING
