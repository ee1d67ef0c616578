"""Schedules: jobs that are submitted by the clock."""

from collections.abc import AsyncIterator
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar, Unpack

from pulse._connection import Connection
from pulse._convert import MISFIRE_TO_WIRE, read_job, read_schedule
from pulse._enums import MisfirePolicy, parse_member
from pulse._errors import AlreadyExists, NotFound
from pulse._ids import named_id, new_id
from pulse._models import JobInfo, Page, ScheduleInfo, Submitted
from pulse._options import TASK_OPTIONS, TaskOptions, check_names, merge_options, write_options
from pulse._submitting import Submitting, encode_args
from pulse._task import Task
from pulse._timing import At, Timing, write_timing
from pulse_gen.rpc.pulse import v1 as wire
from pulse_gen.rpc.pulse.v1 import ScheduleServiceStub

Args = TypeVar("Args")


class ScheduleOperations(Submitting):
    """Schedules, declared by programs and kept by operators."""

    _connection: Connection

    async def schedule(
        self,
        task: Task[Args] | str,
        args: Args | None,
        timing: Timing,
        *,
        name: str | None = None,
        misfire: MisfirePolicy | str | None = None,
        misfire_limit: int | None = None,
        content_type: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> ScheduleInfo:
        """Declare a schedule: create it, or bring the one of that name up to this definition.

        Safe to call at every start of a program. Without a name it gets one from the task and the arguments (and, for
        `At`, the moment), so that the same work is scheduled once however often its timing changes in the code.
        """
        definition = self._define(task, args, timing, name, misfire, misfire_limit, content_type, options)
        schedule_id = named_id("schedule", definition.name)
        try:
            return await self._create(schedule_id, definition)
        except AlreadyExists:
            try:
                return await self._update(schedule_id, definition)
            except NotFound:
                pass
            raise  # the name belongs to a schedule that was made under another id

    async def create_schedule(
        self,
        task: Task[Args] | str,
        args: Args | None,
        timing: Timing,
        *,
        name: str,
        schedule_id: str | None = None,
        misfire: MisfirePolicy | str | None = None,
        misfire_limit: int | None = None,
        content_type: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> ScheduleInfo:
        """Create a schedule; AlreadyExists if the name is taken. `content_type` is for arguments given as bytes."""
        definition = self._define(task, args, timing, name, misfire, misfire_limit, content_type, options)
        return await self._create(schedule_id or new_id(), definition)

    async def update_schedule(
        self,
        schedule_id: str,
        task: Task[Args] | str,
        args: Args | None,
        timing: Timing,
        *,
        name: str,
        misfire: MisfirePolicy | str | None = None,
        misfire_limit: int | None = None,
        content_type: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> ScheduleInfo:
        """Replace the whole definition; the next occurrence is computed from now."""
        definition = self._define(task, args, timing, name, misfire, misfire_limit, content_type, options)
        return await self._update(schedule_id, definition)

    async def get_schedule(self, schedule_id: str) -> ScheduleInfo:
        """One schedule."""
        request = wire.GetScheduleRequest(schedule_id=schedule_id)
        answer = await self._connection.call(
            ScheduleServiceStub, ScheduleServiceStub.get_schedule, request, repeatable=True
        )
        return read_schedule(answer.schedule)

    async def list_schedules(self, *, topic: str | None = None, page_size: int = 100) -> AsyncIterator[ScheduleInfo]:
        """All schedules in the order of their names."""
        token: str | None = ""
        while token is not None:
            page = await self.list_schedules_page(topic=topic, page_size=page_size, page_token=token)
            for schedule in page:
                yield schedule
            token = page.next_page_token

    async def list_schedules_page(
        self, *, topic: str | None = None, page_size: int = 100, page_token: str = ""
    ) -> Page[ScheduleInfo]:
        """One page of `list_schedules`."""
        request = wire.ListSchedulesRequest(topic=topic or "", page_size=page_size, page_token=page_token)
        answer = await self._connection.call(
            ScheduleServiceStub, ScheduleServiceStub.list_schedules, request, repeatable=True
        )
        return Page(
            items=tuple(read_schedule(schedule) for schedule in answer.schedules),
            next_page_token=answer.next_page_token or None,
        )

    async def pause_schedule(self, schedule_id: str) -> None:
        """Stop it from firing; occurrences that pass meanwhile are not made up for."""
        request = wire.PauseScheduleRequest(schedule_id=schedule_id)
        await self._connection.call(ScheduleServiceStub, ScheduleServiceStub.pause_schedule, request, repeatable=True)

    async def resume_schedule(self, schedule_id: str) -> datetime | None:
        """Let it fire again; its next occurrence, or None if it has no more."""
        request = wire.ResumeScheduleRequest(schedule_id=schedule_id)
        answer = await self._connection.call(
            ScheduleServiceStub, ScheduleServiceStub.resume_schedule, request, repeatable=True
        )
        return answer.next_run_at

    async def trigger_schedule(self, schedule_id: str, *, job_id: str | None = None) -> Submitted:
        """Make one job now, beside the occurrences."""
        request = wire.TriggerScheduleRequest(schedule_id=schedule_id, job_id=job_id or new_id())
        answer = await self._connection.call(
            ScheduleServiceStub, ScheduleServiceStub.trigger_schedule, request, repeatable=True
        )
        return Submitted(job_id=answer.job_id, existing=answer.existing)

    async def delete_schedule(self, schedule_id: str) -> None:
        """Remove it; the jobs that it made stay."""
        request = wire.DeleteScheduleRequest(schedule_id=schedule_id)
        await self._connection.call(ScheduleServiceStub, ScheduleServiceStub.delete_schedule, request)

    async def list_schedule_fires(
        self, schedule_id: str, *, limit: int | None = None, page_size: int = 100
    ) -> AsyncIterator[JobInfo]:
        """The jobs that a schedule made, the latest first, without payloads; at most `limit`."""
        token: str | None = ""
        left = limit
        while token is not None and left != 0:
            size = page_size if left is None else min(page_size, left)
            page = await self.list_schedule_fires_page(schedule_id, page_size=size, page_token=token)
            for job in page:
                yield job
            left = None if left is None else left - len(page)
            token = page.next_page_token

    async def list_schedule_fires_page(
        self, schedule_id: str, *, page_size: int = 100, page_token: str = ""
    ) -> Page[JobInfo]:
        """One page of `list_schedule_fires`."""
        request = wire.ListScheduleFiresRequest(schedule_id=schedule_id, page_size=page_size, page_token=page_token)
        answer = await self._connection.call(
            ScheduleServiceStub, ScheduleServiceStub.list_schedule_fires, request, repeatable=True
        )
        return Page(items=tuple(read_job(job) for job in answer.jobs), next_page_token=answer.next_page_token or None)

    def _define(
        self,
        task: Task[Any] | str,
        args: Any,
        timing: Timing,
        name: str | None,
        misfire: MisfirePolicy | str | None,
        misfire_limit: int | None,
        content_type: str | None,
        options: TaskOptions,
    ) -> wire.ScheduleDefinition:
        check_names(options, TASK_OPTIONS)
        topic, known = self.find_task(task)
        payload, usual_type = encode_args(topic, known, args)
        definition = wire.ScheduleDefinition(
            name=name or _default_name(topic, payload, timing),
            topic=topic,
            payload=payload,
            content_type=content_type or usual_type,
            options=write_options(merge_options(known.options if known else {}, options)),
            misfire_limit=misfire_limit or 0,
        )
        if misfire is not None:
            definition.misfire_policy = MISFIRE_TO_WIRE[parse_member(MisfirePolicy, "misfire", misfire)]
        write_timing(definition, timing)
        return definition

    async def _create(self, schedule_id: str, definition: wire.ScheduleDefinition) -> ScheduleInfo:
        request = wire.CreateScheduleRequest(schedule_id=schedule_id, definition=definition)
        answer = await self._connection.call(
            ScheduleServiceStub, ScheduleServiceStub.create_schedule, request, repeatable=True
        )
        return read_schedule(answer.schedule)

    async def _update(self, schedule_id: str, definition: wire.ScheduleDefinition) -> ScheduleInfo:
        request = wire.UpdateScheduleRequest(schedule_id=schedule_id, definition=definition)
        answer = await self._connection.call(
            ScheduleServiceStub, ScheduleServiceStub.update_schedule, request, repeatable=True
        )
        return read_schedule(answer.schedule)


def _default_name(topic: str, payload: bytes, timing: Timing) -> str:
    if isinstance(timing, At):
        payload += timing.moment.isoformat().encode()
    elif payload == b"null":
        return topic
    return f"{topic[:200]}-{sha256(payload).hexdigest()[:8]}"
