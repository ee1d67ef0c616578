"""Descriptors to model. What the codecs don't support stops here, with the name of the culprit."""

from collections.abc import Iterator

from betterproto2_compiler.compile.naming import pythonize_class_name, pythonize_field_name
from betterproto2_compiler.lib.google.protobuf import (
    DescriptorProto,
    FieldDescriptorProto,
    FieldDescriptorProtoLabel,
    FieldDescriptorProtoType,
    FileDescriptorProto,
)
from betterproto2_compiler.lib.google.protobuf.compiler import CodeGeneratorRequest

from protoc_gen_codec.model import Field, Kind, Message, Package, TypeName, UnsupportedError

WELL_KNOWN = {
    ".google.protobuf.Timestamp": Kind.TIMESTAMP,
    ".google.protobuf.Duration": Kind.DURATION,
}


def read_packages(request: CodeGeneratorRequest) -> list[Package]:
    """The packages to generate, in the order of their names, every type resolved."""
    wanted = set(request.file_to_generate)
    files = [file for file in request.proto_file if file.name in wanted]
    types = {name: type_name for file in files for name, type_name in _types(file)}
    packages: dict[str, Package] = {}
    for file in files:
        _check_file(file)
        package = packages.setdefault(file.package, Package(file.package))
        for proto_name, descriptor in _messages(file.message_type, ""):
            reader = _MessageReader(f"{file.package}.{proto_name}", descriptor, types)
            package.messages.append(reader.read())
    return [packages[name] for name in sorted(packages)]


def _check_file(file: FileDescriptorProto) -> None:
    if file.syntax != "proto3":
        raise UnsupportedError(f"{file.name}: only proto3 is supported")
    if not file.package:
        raise UnsupportedError(f"{file.name}: a file without package is not supported")
    if file.extension:
        raise UnsupportedError(f"{file.name}: extensions are not supported")


def _messages(descriptors: list[DescriptorProto], prefix: str) -> Iterator[tuple[str, DescriptorProto]]:
    """All messages with their names inside the package, nested ones too, map entries left out."""
    for descriptor in descriptors:
        if descriptor.options is not None and descriptor.options.map_entry:
            continue
        name = f"{prefix}{descriptor.name}"
        yield name, descriptor
        yield from _messages(descriptor.nested_type, f"{name}.")


def _types(file: FileDescriptorProto) -> Iterator[tuple[str, TypeName]]:
    """Every message and enum of a file: full proto name, with its leading dot, to Python class.

    betterproto2 gives nested types the names of those around them as a prefix.
    """
    names = [enum.name for enum in file.enum_type]
    for name, descriptor in _messages(file.message_type, ""):
        names.append(name)
        names.extend(f"{name}.{enum.name}" for enum in descriptor.enum_type)
    for name in names:
        yield f".{file.package}.{name}", TypeName(file.package, pythonize_class_name(name))


class _MessageReader:
    """Reads one message; knows its full name for the sake of error messages."""

    def __init__(self, full_name: str, descriptor: DescriptorProto, types: dict[str, TypeName]) -> None:
        self._full_name = full_name
        self._descriptor = descriptor
        self._types = types
        self._entries = {
            f".{full_name}.{nested.name}": nested
            for nested in descriptor.nested_type
            if nested.options is not None and nested.options.map_entry
        }

    def read(self) -> Message:
        """The message, its types resolved."""
        if self._descriptor.extension or self._descriptor.extension_range:
            raise UnsupportedError(f"{self._full_name}: extensions are not supported")
        type_name = self._types[f".{self._full_name}"]
        fields = [self._field(field, type_name) for field in self._descriptor.field]
        return Message(type_name, tuple(fields))

    def _field(self, field: FieldDescriptorProto, owner: TypeName) -> Field:
        if field.type == FieldDescriptorProtoType.GROUP:
            raise UnsupportedError(f"{self._full_name}.{field.name}: groups are not supported")
        if field.options is not None and field.options.packed is False:
            # betterproto2 packs all the same: its bytes would differ from ours or the standard's.
            raise UnsupportedError(f"{self._full_name}.{field.name}: packed=false is not supported")
        name = pythonize_field_name(field.name)
        if field.type_name in self._entries:
            entry = self._entry(TypeName(owner.package, f"{owner.name}_{name}"), field.type_name)
            return Field(name, field.number, Kind.MAP, entry=entry)
        kind = self._kind(field)
        repeated = field.label == FieldDescriptorProtoLabel.REPEATED
        in_oneof = field.oneof_index is not None and not field.proto3_optional
        return Field(
            name,
            field.number,
            kind,
            repeated=repeated,
            explicit=not repeated and (kind.is_message or in_oneof or bool(field.proto3_optional)),
            oneof=self._oneof(field) if in_oneof else None,
            type_name=self._types[field.type_name] if kind in (Kind.ENUM, Kind.MESSAGE) else None,
        )

    def _oneof(self, field: FieldDescriptorProto) -> str:
        assert field.oneof_index is not None
        return self._descriptor.oneof_decl[field.oneof_index].name

    def _kind(self, field: FieldDescriptorProto) -> Kind:
        if field.type_name in WELL_KNOWN:
            return WELL_KNOWN[field.type_name]
        if field.type_name and field.type_name not in self._types:
            type_name = field.type_name.lstrip(".")
            raise UnsupportedError(f"{self._full_name}.{field.name}: {type_name} is not supported")
        return Kind[FieldDescriptorProtoType(field.type).name]

    def _entry(self, type_name: TypeName, proto_name: str) -> Message:
        fields = [self._field(field, type_name) for field in self._entries[proto_name].field]
        return Message(type_name, tuple(fields), is_entry=True)
