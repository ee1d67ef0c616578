"""What the generator knows about a contract: packages, messages, fields and their Python names."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum


class UnsupportedError(Exception):
    """A construct that the codecs don't support; it stops the generation with this message."""


class Kind(Enum):
    """What a field holds, as far as the wire and Python are concerned."""

    INT32 = "int32"
    INT64 = "int64"
    UINT32 = "uint32"
    UINT64 = "uint64"
    SINT32 = "sint32"
    SINT64 = "sint64"
    FIXED32 = "fixed32"
    FIXED64 = "fixed64"
    SFIXED32 = "sfixed32"
    SFIXED64 = "sfixed64"
    FLOAT = "float"
    DOUBLE = "double"
    BOOL = "bool"
    ENUM = "enum"
    STRING = "string"
    BYTES = "bytes"
    MESSAGE = "message"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    MAP = "map"

    @property
    def wire_type(self) -> int:
        """The wire type of one value."""
        if self in FIXED_SIZES:
            return 5 if FIXED_SIZES[self] == 4 else 1
        return 2 if self in LENGTH_PREFIXED else 0

    @property
    def is_message(self) -> bool:
        """Whether it is a message on the wire, so that a field of it can be absent."""
        return self in (Kind.MESSAGE, Kind.TIMESTAMP, Kind.DURATION)

    @property
    def is_packable(self) -> bool:
        """Whether a list of these is written as one length-prefixed run."""
        return self not in LENGTH_PREFIXED


LENGTH_PREFIXED = {
    Kind.STRING,
    Kind.BYTES,
    Kind.MESSAGE,
    Kind.TIMESTAMP,
    Kind.DURATION,
    Kind.MAP,
}

# Plain varints, whose small non-negative values are one byte that equals the value.
PLAIN_VARINTS = {Kind.INT32, Kind.INT64, Kind.UINT32, Kind.UINT64, Kind.ENUM}

# Bytes a value, and the letter that struct has for it.
FIXED_SIZES = {
    Kind.FIXED32: 4,
    Kind.SFIXED32: 4,
    Kind.FLOAT: 4,
    Kind.FIXED64: 8,
    Kind.SFIXED64: 8,
    Kind.DOUBLE: 8,
}
STRUCT_LETTERS = {
    Kind.FIXED32: "I",
    Kind.SFIXED32: "i",
    Kind.FLOAT: "f",
    Kind.FIXED64: "Q",
    Kind.SFIXED64: "q",
    Kind.DOUBLE: "d",
}

# The Python type and the default of kinds that don't name a type of the contract.
PYTHON_TYPES = {
    Kind.FLOAT: ("float", "0.0"),
    Kind.DOUBLE: ("float", "0.0"),
    Kind.BOOL: ("bool", "False"),
    Kind.STRING: ("str", '""'),
    Kind.BYTES: ("bytes", 'b""'),
    Kind.TIMESTAMP: ("datetime", "EPOCH"),
    Kind.DURATION: ("timedelta", "timedelta()"),
}


@dataclass(frozen=True)
class TypeName:
    """A message or enum of the contract: its proto package and its betterproto2 class."""

    package: str
    name: str


@dataclass(frozen=True)
class Field:
    """One field; `name` is the attribute of the betterproto2 class."""

    name: str
    number: int
    kind: Kind
    repeated: bool = False
    # True if "not set" differs from the default: optional fields, members of oneofs, messages.
    explicit: bool = False
    oneof: str | None = None
    # Of ENUM and MESSAGE.
    type_name: TypeName | None = None
    # Of MAP: a message with the fields `key` and `value`.
    entry: "Message | None" = None

    @property
    def local(self) -> str:
        """The variable for it in generated code; the prefix keeps it apart from the code's own."""
        return f"f_{self.name}"

    @property
    def tag(self) -> int:
        """The tag under which it is written."""
        packed = self.repeated and self.kind.is_packable
        return self.number << 3 | (2 if packed else self.kind.wire_type)

    @property
    def unpacked_tag(self) -> int | None:
        """The other tag that a decoder accepts, if it is written packed."""
        if self.repeated and self.kind.is_packable:
            return self.number << 3 | self.kind.wire_type
        return None

    @property
    def element_type(self) -> str:
        """The Python type of one value."""
        if self.type_name is not None:
            return self.type_name.name
        return PYTHON_TYPES.get(self.kind, ("int", "0"))[0]

    @property
    def element_default(self) -> str:
        """The default of one value, as an expression."""
        if self.kind is Kind.MESSAGE:
            return f"_decode_{self.element_type}(b'', 0, 0)"
        if self.kind is Kind.ENUM:
            return f"{self.element_type}_ZERO"
        return PYTHON_TYPES.get(self.kind, ("int", "0"))[1]

    @property
    def annotation(self) -> str:
        """The Python type of the attribute."""
        if self.entry is not None:
            key, value = self.entry.fields
            return f"dict[{key.element_type}, {value.element_type}]"
        if self.repeated:
            return f"list[{self.element_type}]"
        return f"{self.element_type} | None" if self.explicit else self.element_type

    @property
    def default(self) -> str:
        """The default of the attribute, as an expression."""
        if self.kind is Kind.MAP:
            return "{}"
        if self.repeated:
            return "[]"
        return "None" if self.explicit else self.element_default


@dataclass(frozen=True)
class Message:
    """One message, or a map's entry, which has no class. `declared` is the order in the source."""

    type_name: TypeName
    declared: tuple[Field, ...]
    is_entry: bool = False

    @property
    def name(self) -> str:
        """The name of its class and the ending of the names of its functions."""
        return self.type_name.name

    @property
    def fields(self) -> list[Field]:
        """In the order of their numbers, as they are on the wire."""
        return sorted(self.declared, key=lambda field: field.number)

    @property
    def has_long_tags(self) -> bool:
        """Whether a field's tag takes more than one byte."""
        return any(field.number > 15 for field in self.fields)

    def all_fields(self) -> Iterator[Field]:
        """Its fields and those of its maps' entries."""
        for one in self.fields:
            yield one
            if one.entry is not None:
                yield from one.entry.fields

    def contained(self) -> list[TypeName]:
        """The messages that its fields hold, in the order of the fields."""
        return [one.type_name for one in self.all_fields() if one.kind is Kind.MESSAGE and one.type_name is not None]


@dataclass
class Package:
    """A proto package and its messages."""

    name: str
    messages: list[Message] = field(default_factory=list)

    @property
    def module(self) -> str:
        """The name of the generated module."""
        return self.name.replace(".", "_")
