"""Writes encoders: a function that appends the wire form of each field to a list, and joins it.

Fields are written in the order of their numbers, without those that have their default and can't
tell it from "not set". Values are checked as far as the work on them does it for nothing: what is
wrong raises one thing or another, and the public function then finds out which field it was
(`refused` in `runtime/_write.py`).
"""

from protoc_gen_codec.model import FIXED_SIZES, PLAIN_VARINTS, STRUCT_LETTERS, Field, Kind, Message
from protoc_gen_codec.source import Source, bytes_literal, tag_bytes


def write_encoder(out: Source, message: Message) -> None:
    """The encoder of a message, `_encode_X`, and its public face, `encode_X`."""
    with out.block(f"def _encode_{message.name}(message: {message.name}) -> bytes:"):
        with out.block(f"if type(message) is not {message.name}:"):
            out.line(f"expect(message, {message.name})")
        if message.fields:
            out.line("parts: list[bytes] = []")
            for field in message.fields:
                out.line(f"{field.local} = message.{field.name}")
                _write_field(out, message, field)
            out.line('return b"".join(parts)')
        else:
            out.line('return b""')
    out.line()
    out.line()
    with out.block(f"def encode_{message.name}(message: {message.name}) -> bytes:"):
        out.line('"""The wire form; CodecError names the field that has none."""')
        with out.block("try:"):
            out.line(f"return _encode_{message.name}(message)")
        with out.block("except WRITE_ERRORS as error:"):
            out.line(f"raise refused(message, _encode_{message.name}, error) from error")


def write_entry_encoder(out: Source, entry: Message) -> None:
    """The encoder of a map's entry. Key and value are always written, defaults too."""
    key, value = entry.fields
    arguments = f"{key.local}: {key.element_type}, {value.local}: {value.element_type}"
    with out.block(f"def _encode_{entry.name}({arguments}) -> bytes:"):
        out.line("parts: list[bytes] = []")
        for field in entry.fields:
            _write_value(out, field, field.local)
        out.line('return b"".join(parts)')


def _write_field(out: Source, message: Message, field: Field) -> None:
    if field.kind is Kind.MAP:
        _write_map(out, field)
    elif field.repeated:
        _write_repeated(out, field)
    elif field.explicit:
        with out.block(f"if {field.local} is not None:"):
            _write_oneof_check(out, message, field)
            _write_value(out, field, field.local)
    else:
        _write_unless_default(out, field)


def _write_oneof_check(out: Source, message: Message, field: Field) -> None:
    """betterproto2 would write both members, and the reader would take one: we refuse."""
    if field.oneof is None:
        return
    others = [one for one in message.fields if one.oneof == field.oneof and one is not field]
    for other in others:
        with out.block(f"if message.{other.name} is not None:"):
            names = f"{field.name} and {other.name}"
            out.line(f'raise CodecError("both {names} of oneof {field.oneof} are set")')


def _write_map(out: Source, field: Field) -> None:
    assert field.entry is not None
    key, value = f"{field.local}_key", f"{field.local}_value"
    with (
        out.block(f"if {field.local}:"),
        out.block(f"for {key}, {value} in {field.local}.items():"),
    ):
        out.line(f"encoded = _encode_{field.entry.name}({key}, {value})")
        _write_long(out, field, "encoded")


def _write_repeated(out: Source, field: Field) -> None:
    with out.block(f"if {field.local}:"):
        with out.block(f"if type({field.local}) is not list:"):
            out.line(f"{field.local} = as_list({field.local})")
        if field.kind.is_packable:
            _write_packed(out, field)
        else:
            with out.block(f"for {field.local}_item in {field.local}:"):
                _write_value(out, field, f"{field.local}_item")


def _write_packed(out: Source, field: Field) -> None:
    if field.kind in FIXED_SIZES:
        letter = STRUCT_LETTERS[field.kind]
        out.line(f'encoded = pack(f"<{{len({field.local})}}{letter}", *{field.local})')
    else:
        one = _varint(field, "item", "BYTES", 'b""')
        out.line(f'encoded = b"".join([{one} for item in {field.local}])')
    _write_long(out, field, "encoded")


def _write_unless_default(out: Source, field: Field) -> None:
    """Comparisons with the default's own type let a value of another type run into an error."""
    local, tag = field.local, bytes_literal(tag_bytes(field.tag))
    match field.kind:
        case Kind.STRING:
            with out.block(f'if {local} != "":'):
                _write_value(out, field, local)
        case Kind.BYTES:
            with out.block(f"if type({local}) is not bytes:"):
                out.line(f"{local} = as_bytes({local})")
            with out.block(f"if {local}:"):
                _write_long(out, field, local)
        case Kind.BOOL:
            with out.block(f"if {local} is not False:"):
                out.line(f"parts.append(write_bool({tag}, {local}))")
        case kind if kind in PLAIN_VARINTS:
            # Two comparisons with a jump are quicker than one chain of them.
            table = f"VARINT_{field.number}"
            writer = f"write_{_varint_name(kind)}({tag}, {local})"
            with out.block(f"if {local} > 0:"):
                out.line(f"parts.append({table}[{local}] if {local} < 128 else {writer})")
            with out.block(f"elif {local} != 0:"):
                out.line(f"parts.append({writer})")
        case kind if kind in FIXED_SIZES:
            # Compared as bytes, because -0.0 equals 0.0 and is no default.
            out.line(f"encoded = pack_{kind.value}({local})")
            with out.block(f"if encoded != {bytes_literal(bytes(FIXED_SIZES[kind]))}:"):
                out.line(f"parts.append({tag})")
                out.line("parts.append(encoded)")
        case _:
            with out.block(f"if {local} != 0:"):
                _write_value(out, field, local)


def _write_value(out: Source, field: Field, value: str) -> None:
    """Appends tag and value, whatever the value is."""
    tag = bytes_literal(tag_bytes(field.number << 3 | field.kind.wire_type))
    match field.kind:
        case Kind.STRING:
            table = f"LEN_{field.number}"
            out.line(f"encoded = {value}.encode()")
            out.line("size = len(encoded)")
            out.line(f"parts.append({table}[size] if size < 128 else write_uint64({tag}, size))")
            out.line("parts.append(encoded)")
        case Kind.BYTES:
            with out.block(f"if type({value}) is not bytes:"):
                out.line(f"{value} = as_bytes({value})")
            _write_long(out, field, value)
        case Kind.MESSAGE:
            out.line(f"encoded = _encode_{field.element_type}({value})")
            _write_long(out, field, "encoded")
        case Kind.TIMESTAMP:
            out.line(f"parts.append({tag})")
            out.line(f"parts.append(TIMESTAMPS_OUT.get({value} - EPOCH) or write_timestamp({value}))")
        case Kind.DURATION:
            out.line(f"parts.append({tag})")
            out.line(f"parts.append(DURATIONS_OUT.get({value}) or write_duration({value}))")
        case kind if kind in FIXED_SIZES:
            out.line(f"parts.append({tag})")
            out.line(f"parts.append(pack_{kind.value}({value}))")
        case _:
            out.line(f"parts.append({_varint(field, value, f'VARINT_{field.number}', tag)})")


def _write_long(out: Source, field: Field, value: str) -> None:
    """Appends tag, length and bytes; lengths of two bytes are common enough to be done in place."""
    tag = bytes_literal(tag_bytes(field.number << 3 | 2))
    table = f"LEN_{field.number}"
    out.line(f"size = len({value})")
    with out.block("if size < 128:"):
        out.line(f"parts.append({table}[size])")
    with out.block("elif size < 16384:"):
        out.line(f"parts.append({table}[size & 127 | 128])")
        out.line("parts.append(BYTES[size >> 7])")
    with out.block("else:"):
        out.line(f"parts.append(write_uint64({tag}, size))")
    out.line(f"parts.append({value})")


def _varint(field: Field, value: str, table: str, tag: str) -> str:
    """An expression for a varint behind a tag; `table` holds the tag with one byte."""
    writer = f"write_{_varint_name(field.kind)}({tag}, {value})"
    if field.kind in PLAIN_VARINTS:
        return f"{table}[{value}] if 0 <= {value} < 128 else {writer}"
    return writer


def _varint_name(kind: Kind) -> str:
    """Enums are open and have 32 bits, so they are written and read as int32."""
    return "int32" if kind is Kind.ENUM else kind.value
