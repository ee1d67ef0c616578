"""The codec as grpclib uses it."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from grpclib.encoding.base import CodecBase
from grpclib.testing import ChannelFor

from pulse_gen.codec import Codec, CodecError
from pulse_gen.rpc.grpc.health.v1 import HealthCheckRequest
from pulse_gen.rpc.pulse.v1 import (
    AttemptRef,
    JobAssignment,
    JobStatus,
    StreamJobsRequest,
    StreamJobsResponse,
    WorkerServiceBase,
    WorkerServiceStub,
)

from .reference import contract_cases


def test_it_knows_every_message_of_the_contract() -> None:
    codec = Codec()
    for of in contract_cases():
        assert codec.encode(of.cls(), of.cls) == b""
        assert codec.decode(b"", of.cls) == of.cls()


def test_it_is_a_codec_for_the_content_type_proto() -> None:
    assert isinstance(Codec(), CodecBase)
    assert Codec().__content_subtype__ == "proto"


@pytest.mark.parametrize("unknown", [int, JobStatus, object, None])
def test_another_class_is_a_type_error(unknown: type) -> None:
    with pytest.raises(TypeError, match="not a message of the contract"):
        Codec().encode(HealthCheckRequest(), unknown)
    with pytest.raises(TypeError, match="not a message of the contract"):
        Codec().decode(b"", unknown)


def test_a_message_of_another_class_than_said_is_refused() -> None:
    with pytest.raises(CodecError, match="expected AttemptRef"):
        Codec().encode(HealthCheckRequest(), AttemptRef)


@pytest.mark.parametrize("wrong", [5, "a", None, [1]])
def test_only_bytes_can_be_read(wrong: bytes) -> None:
    with pytest.raises(TypeError, match="expected bytes"):
        Codec().decode(wrong, AttemptRef)


def test_the_error_is_a_value_error() -> None:
    assert issubclass(CodecError, ValueError)


ASSIGNMENT = JobAssignment(job_id="j", attempt=1, payload=bytes(300), lease=timedelta(seconds=30))


class Worker(WorkerServiceBase):
    async def stream_jobs(self, message: StreamJobsRequest) -> AsyncIterator[StreamJobsResponse]:
        yield StreamJobsResponse()
        for _ in range(message.capacity):
            yield StreamJobsResponse(assignments=[ASSIGNMENT] * 3)


async def test_calls_go_through_it_on_both_sides() -> None:
    async with ChannelFor([Worker()], codec=Codec()) as channel:
        request = StreamJobsRequest(worker_id="w", topics=["a"], capacity=2)
        answers = [answer async for answer in WorkerServiceStub(channel).stream_jobs(request)]
    assert answers == [StreamJobsResponse()] + [StreamJobsResponse([ASSIGNMENT] * 3)] * 2
