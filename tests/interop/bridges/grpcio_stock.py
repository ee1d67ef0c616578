"""grpcio on a leash: makes the calls that client.py asks for in JSON lines, and writes what becomes of them.

The only argument is JSON: {address, ca (PEM, or null), options (of the channel)}. The stubs are on the path, as protoc
made them; those of the health service are Google's own.
"""

import asyncio
import base64
import json
import sys
from importlib import import_module
from typing import Any

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]

MODULES = {
    "pulse.v1.JobService": "pulse.v1.job",
    "pulse.v1.WorkerService": "pulse.v1.worker",
    "pulse.v1.ScheduleService": "pulse.v1.schedule",
    "pulse.v1.DispatchService": "pulse.v1.dispatch",
    "pulse.v1.StatsService": "pulse.v1.stats",
    "grpc.health.v1.Health": "grpc_health.v1.health",
}


class Bridge:
    """One channel and the calls on it."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._calls: dict[int, Any] = {}

    async def run(self) -> None:
        """Until the other side hangs up."""
        lines = asyncio.StreamReader(limit=1 << 26)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        async with asyncio.TaskGroup() as tasks:
            async for line in lines:
                command = json.loads(line)
                if "cancel" in command:
                    self._calls[command["id"]].cancel()
                else:
                    tasks.create_task(self._make_call(command.pop("id"), **command))
            for call in self._calls.values():
                call.cancel()

    async def _make_call(
        self, call_id: int, method: str, requests: list[Any], metadata: dict[str, str], timeout: float | None
    ) -> None:
        path, name = method.split("/")
        service = path.rpartition(".")[2]
        descriptor = import_module(f"{MODULES[path]}_pb2").DESCRIPTOR.services_by_name[service].methods_by_name[name]
        stub = getattr(import_module(f"{MODULES[path]}_pb2_grpc"), f"{service}Stub")(self._channel)
        messages = [read_message(descriptor.input_type, request) for request in requests]
        sent = messages if descriptor.client_streaming else messages[0]
        call = self._calls[call_id] = getattr(stub, name)(sent, timeout=timeout, metadata=tuple(metadata.items()))
        code, details = "OK", ""
        try:
            if descriptor.server_streaming:
                async for answer in call:
                    write(call_id, message=plain(answer))
            else:
                write(call_id, message=plain(await call))
        except grpc.aio.AioRpcError as error:
            code, details = error.code().name, error.details()
        except asyncio.CancelledError:
            code, details = "CANCELLED", await call.details()
        finally:
            del self._calls[call_id]
        write(call_id, code=code, details=details)


def write(call_id: int, **line: Any) -> None:
    print(json.dumps({"id": call_id, **line}), flush=True)


def plain(message: Any) -> dict[str, Any]:
    """A message in JSON, as the other bridge has it."""
    fields: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return fields


def read_message(descriptor: Any, fields: dict[str, Any]) -> Any:
    """A message from its fields, with base64 decoded where the contract has bytes."""

    def convert(field: Any, value: Any) -> Any:
        if isinstance(value, list):
            return [convert(field, item) for item in value]
        if field.type == field.TYPE_BYTES:
            return base64.b64decode(value)
        if field.type == field.TYPE_MESSAGE and not field.message_type.GetOptions().map_entry:
            return read_message(field.message_type, value)
        return value

    values = {name: convert(descriptor.fields_by_name[name], value) for name, value in fields.items()}
    return descriptor._concrete_class(**values)


async def main() -> None:
    settings = json.loads(sys.argv[1])
    options = list(settings["options"].items())
    if settings["ca"] is None:
        channel = grpc.aio.insecure_channel(settings["address"], options)
    else:
        credentials = grpc.ssl_channel_credentials(settings["ca"].encode())
        channel = grpc.aio.secure_channel(settings["address"], credentials, options)
    async with channel:
        await Bridge(channel).run()


asyncio.run(main())
