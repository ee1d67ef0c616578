"""ScheduleService."""

from contextlib import suppress
from itertools import islice
from zoneinfo import ZoneInfoNotFoundError

from pulse_gen.db import models
from pulse_gen.rpc.pulse.v1 import (
    CreateScheduleRequest,
    CreateScheduleResponse,
    DeleteScheduleRequest,
    DeleteScheduleResponse,
    GetScheduleRequest,
    GetScheduleResponse,
    ListScheduleFiresRequest,
    ListScheduleFiresResponse,
    ListSchedulesRequest,
    ListSchedulesResponse,
    PauseScheduleRequest,
    PauseScheduleResponse,
    ResumeScheduleRequest,
    ResumeScheduleResponse,
    Schedule,
    ScheduleServiceBase,
    TriggerScheduleRequest,
    TriggerScheduleResponse,
    UpdateScheduleRequest,
    UpdateScheduleResponse,
)
from pulsed.filters import END, JobFinder
from pulsed.identifiers import new_id, parse_id
from pulsed.occurrences import occurrences_after, timing_of
from pulsed.paging import read_token, write_token
from pulsed.rpc.convert import write_job_summary, write_schedule
from pulsed.schedules import Schedules, read_definition
from pulsed.validation import check_count, check_text

UPCOMING = 5


class ScheduleService(ScheduleServiceBase):
    """Keeps schedules."""

    def __init__(self, schedules: Schedules, finder: JobFinder, max_payload: int) -> None:
        self._schedules = schedules
        self._finder = finder
        self._max_payload = max_payload

    async def create_schedule(self, message: CreateScheduleRequest) -> CreateScheduleResponse:
        schedule = await self._schedules.create(
            parse_id("schedule_id", message.schedule_id) if message.schedule_id else new_id(),
            read_definition("definition", message.definition, max_payload=self._max_payload),
        )
        return CreateScheduleResponse(schedule=_write(schedule))

    async def get_schedule(self, message: GetScheduleRequest) -> GetScheduleResponse:
        schedule = await self._schedules.get(parse_id("schedule_id", message.schedule_id))
        return GetScheduleResponse(schedule=_write(schedule))

    async def list_schedules(self, message: ListSchedulesRequest) -> ListSchedulesResponse:
        topic = check_text("topic", message.topic, longest=255) or None
        limit = check_count("page_size", message.page_size, most=1000, default=100)
        query = f"schedules of {topic!r}"
        after = read_token(query, message.page_token, "")
        found = await self._schedules.list(topic, str(after), limit + 1)
        page = found[:limit]
        return ListSchedulesResponse(
            schedules=[_write(schedule) for schedule in page],
            next_page_token=write_token(query, page[-1].name) if len(found) > limit else "",
        )

    async def update_schedule(self, message: UpdateScheduleRequest) -> UpdateScheduleResponse:
        schedule = await self._schedules.update(
            parse_id("schedule_id", message.schedule_id),
            read_definition("definition", message.definition, max_payload=self._max_payload),
        )
        return UpdateScheduleResponse(schedule=_write(schedule))

    async def pause_schedule(self, message: PauseScheduleRequest) -> PauseScheduleResponse:
        await self._schedules.pause(parse_id("schedule_id", message.schedule_id))
        return PauseScheduleResponse()

    async def resume_schedule(self, message: ResumeScheduleRequest) -> ResumeScheduleResponse:
        next_run_at = await self._schedules.resume(parse_id("schedule_id", message.schedule_id))
        return ResumeScheduleResponse(next_run_at=next_run_at)

    async def trigger_schedule(self, message: TriggerScheduleRequest) -> TriggerScheduleResponse:
        result = await self._schedules.trigger(
            parse_id("schedule_id", message.schedule_id),
            parse_id("job_id", message.job_id) if message.job_id else new_id(),
        )
        return TriggerScheduleResponse(job_id=str(result.id), existing=result.existing)

    async def delete_schedule(self, message: DeleteScheduleRequest) -> DeleteScheduleResponse:
        await self._schedules.delete(parse_id("schedule_id", message.schedule_id))
        return DeleteScheduleResponse()

    async def list_schedule_fires(self, message: ListScheduleFiresRequest) -> ListScheduleFiresResponse:
        schedule_id = parse_id("schedule_id", message.schedule_id)
        limit = check_count("page_size", message.page_size, most=1000, default=100)
        query = f"fires of {schedule_id}"
        before = read_token(query, message.page_token, END)
        assert isinstance(before, int)
        found = await self._schedules.fires(schedule_id, before, limit + 1)
        rows = await self._finder.summaries(found[:limit])
        more = len(found) > limit and rows
        return ListScheduleFiresResponse(
            jobs=[write_job_summary(row) for row in rows],
            next_page_token=write_token(query, rows[-1].seq) if more else "",
        )


def _write(schedule: models.Schedule) -> Schedule:
    upcoming = []
    if schedule.next_run_at is not None:
        upcoming = [schedule.next_run_at]
        # A zone that this server does not know must not hide the schedule, nor the rest of a list.
        with suppress(ZoneInfoNotFoundError):
            upcoming += islice(occurrences_after(timing_of(schedule), schedule.next_run_at), UPCOMING - 1)
    return write_schedule(schedule, upcoming)
