"""Random requests for every RPC, made from the contract's descriptors: what is added to it is fuzzed by itself."""

import struct
import tempfile
import uuid
from collections import deque
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import grpc_tools  # type: ignore[import-untyped]
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]
from grpc_tools import protoc

PROTO = Path(__file__).resolve().parents[2] / "proto"

# What belongs to somebody else.
FOREIGN_TOPIC = "bystander"
BULK = ("CancelJobsRequest", "RetryJobsRequest", "DeleteJobsRequest", "UpdateJobsPriorityRequest")

TOPICS = ["fuzz-a", "fuzz-b", "fuzz-c"]
INTEGERS = [0, 1, 2, 3, 5, 100, 1000, 1001, 10_000, 10_001, 100_000]
WILD_INTEGERS = [-1, -(1 << 31), (1 << 31) - 1]
WILD_LONGS = [-(1 << 63), (1 << 63) - 1, 253_402_300_799, 253_402_300_800, -62_135_596_800]
FLOATS = [0.0, 0.5, 1.0]
WILD_FLOATS = [-1.0, 1e308, float("inf"), float("nan")]
TEXTS = ["", "a", "Größe", "日本", "UTC", "Europe/Berlin", "0 9 * * *", "*/5 * * * * *", "{}", '{"a": 1}', "text/plain"]
WILD_TEXTS = ["\0", "a\0b", "\u202e", "\\", "%s", "' OR 1=1 --", "x" * 256, "ä" * 5000, "[" * 5000, "99 99 * * *"]
BYTES = [b"", b"{}", b'{"a": [1, 2.5, null]}', b"null"]
WILD_BYTES = [b"\0", b"\xff\xfe", b"[" * 10_000, b'{"a": "\\u0000"}', b"x" * 400_000, b"1e999999"]


class Rpc(NamedTuple):
    """A method of a service."""

    path: str
    request: Any
    is_streaming: bool
    request_class: Any
    response_class: Any


@cache
def rpcs() -> list[Rpc]:
    """All of the contract."""
    google = Path(grpc_tools.__file__).parent / "_proto"
    files = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "descriptors"
        command = ["protoc", f"-I{PROTO}", f"-I{google}", "--include_imports", f"--descriptor_set_out={out}", *files]
        assert protoc.main(command) == 0
        described = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in described.file:
        pool.Add(file)
    services = [pool.FindFileByName(file).services_by_name.values() for file in files]
    return [
        Rpc(
            f"/{service.full_name}/{method.name}",
            method.input_type,
            method.server_streaming,
            message_factory.GetMessageClass(method.input_type),
            message_factory.GetMessageClass(method.output_type),
        )
        for in_file in services
        for service in in_file
        for method in service.methods
    ]


class Requests:
    """Makes requests. It remembers ids and page tokens that answers had, so that some requests hit something."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[str]] = {}

    def learn(self, message: Any) -> None:
        """Remembers what an answer names, unless that is somebody else's."""
        fields = message.ListFields()
        if any(field.name in ("topic", "topics") and FOREIGN_TOPIC in value for field, value in fields):
            return
        for field, value in fields:
            if field.type == field.TYPE_MESSAGE:
                if not field.message_type.GetOptions().map_entry:
                    for each in value if field.is_repeated else [value]:
                        self.learn(each)
            elif field.name.endswith(("_id", "page_token")):
                name = field.name.removeprefix("next_")
                self._seen.setdefault(name, deque(maxlen=50)).append(value)

    def make(self, descriptor: Any, chance: Random, wildness: float) -> Any:
        """A message of a kind; of its values, the share that is wild is one that no good client sends."""
        message = message_factory.GetMessageClass(descriptor)()
        chosen = {oneof.name: chance.choice(oneof.fields).name for oneof in descriptor.oneofs}
        for field in descriptor.fields:
            oneof = field.containing_oneof
            if oneof is not None and chosen[oneof.name] != field.name:
                continue
            if chance.random() < 0.7:
                self._fill(message, field, chance, wildness)
        return message

    def _fill(self, message: Any, field: Any, chance: Random, wildness: float) -> None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entries = getattr(message, field.name)
            for _ in range(chance.choice([0, 1, 3])):
                key, value = (self._value(part, chance, wildness) for part in field.message_type.fields)
                entries[key] = value
        elif field.is_repeated:
            few, many = [0, 1, 2, 5], 1100 if field.message_type is None else 50
            count = many if chance.random() < wildness else chance.choice(few)
            values = [self._value(field, chance, wildness) for _ in range(min(count, 5))]
            getattr(message, field.name).extend((values * count)[:count])
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(self._value(field, chance, wildness))
        else:
            setattr(message, field.name, self._value(field, chance, wildness))

    def _value(self, field: Any, chance: Random, wildness: float) -> Any:
        wild = chance.random() < wildness
        match field.type:
            case field.TYPE_MESSAGE:
                return self.make(field.message_type, chance, wildness)
            case field.TYPE_STRING:
                return self._text(field.name, chance, wild)
            case field.TYPE_BYTES:
                return chance.choice(WILD_BYTES if wild else BYTES)
            case field.TYPE_BOOL:
                return chance.random() < 0.5
            case field.TYPE_DOUBLE:
                return chance.choice(WILD_FLOATS if wild else FLOATS)
            case field.TYPE_INT64:
                return chance.choice(WILD_INTEGERS + WILD_LONGS if wild else INTEGERS)
            case field.TYPE_ENUM:
                return chance.choice([-1, 99]) if wild else chance.choice(field.enum_type.values).number
            case _:
                return chance.choice(WILD_INTEGERS if wild else INTEGERS)

    def _text(self, name: str, chance: Random, wild: bool) -> str:
        if wild:
            return chance.choice(WILD_TEXTS)
        if name.startswith("topic"):
            return chance.choice(TOPICS)
        singular = name.removesuffix("s")
        if singular.endswith(("_id", "page_token")):
            fresh = str(uuid.UUID(int=chance.getrandbits(128))) if singular.endswith("_id") else ""
            seen = self._seen.get(singular)
            return chance.choice([*seen, fresh]) if seen else fresh
        return chance.choice(TEXTS)


def is_confined(request: Any) -> bool:
    """Whether a request, should it be good, leaves the topics of others alone."""
    if request.DESCRIPTOR.name == "PauseDispatchRequest":
        return bool(request.topic)
    if request.DESCRIPTOR.name in BULK:
        return bool(request.filter.topics)
    return True


def mutate(data: bytes, chance: Random) -> bytes:
    """The bytes of a message, no longer quite right."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(5):
            case 0:
                del changed[at:]
            case 1:
                changed[at:at] = chance.randbytes(chance.choice([1, 2, 10]))
            case 2:
                del changed[at : at + chance.choice([1, 2, 10])]
            case 3 if at < len(changed):
                changed[at] ^= 1 << chance.randrange(8)
            case _:
                changed[at:at] = struct.pack(">Q", chance.getrandbits(64)) * chance.choice([1, 100])
    return bytes(changed)
