"""DispatchService."""

from pulse_gen.rpc.pulse.v1 import (
    DispatchServiceBase,
    DispatchSwitch,
    GetDispatchStatusRequest,
    GetDispatchStatusResponse,
    PauseDispatchRequest,
    PauseDispatchResponse,
    ResumeDispatchRequest,
    ResumeDispatchResponse,
)
from pulsed.auth import current_user
from pulsed.errors import NotFound
from pulsed.pause import EVERYTHING, PauseGate
from pulsed.rpc.convert import write_switch
from pulsed.validation import check_text


class DispatchService(DispatchServiceBase):
    """Pauses and resumes."""

    def __init__(self, gate: PauseGate) -> None:
        self._gate = gate

    async def pause_dispatch(self, message: PauseDispatchRequest) -> PauseDispatchResponse:
        row = await self._gate.pause(
            check_text("topic", message.topic, longest=255),
            check_text("reason", message.reason, longest=1000),
            current_user.get(),
        )
        return PauseDispatchResponse(switch=write_switch(row))

    async def resume_dispatch(self, message: ResumeDispatchRequest) -> ResumeDispatchResponse:
        scope = check_text("topic", message.topic, longest=255)
        try:
            row = await self._gate.resume(scope)
        except NotFound:
            # It runs, as asked.
            return ResumeDispatchResponse(switch=DispatchSwitch(topic=scope))
        return ResumeDispatchResponse(switch=write_switch(row))

    async def get_dispatch_status(self, message: GetDispatchStatusRequest) -> GetDispatchStatusResponse:
        switches = [write_switch(row) for row in await self._gate.switches()]
        return GetDispatchStatusResponse(
            everything=next(switch for switch in switches if switch.topic == EVERYTHING),
            topics=[switch for switch in switches if switch.topic != EVERYTHING],
        )
