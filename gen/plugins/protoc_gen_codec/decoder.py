"""Writes decoders: one pass over the bytes, each field tested for in the order of the numbers.

Senders write fields in that order, so the test for a field follows the reading of the one before
it, and a whole message costs one comparison a field. The loop around the tests is for senders who
do it differently. Nested messages are read in place, between two positions. Ends are checked by
comparing positions after the fact; running past the buffer raises IndexError, which the public
function turns into CodecError.
"""

from protoc_gen_codec.model import (
    FIXED_SIZES,
    PLAIN_VARINTS,
    STRUCT_LETTERS,
    Field,
    Kind,
    Message,
)
from protoc_gen_codec.source import Source

# Fields that are often longer than 127 bytes; the two bytes of their length are read in place.
_LONG = {Kind.BYTES, Kind.MESSAGE}


def write_decoder(out: Source, message: Message, merged: bool) -> None:
    """The decoder of a message, `_decode_X`, and its public face, `decode_X`.

    `merged` says that it can go on from an earlier occurrence of the same field.
    """
    name = message.name
    _write_fields_table(out, message)
    into = f", into: {name} | None = None" if merged else ""
    with out.block(f"def _decode_{name}(data: bytes, pos: int, end: int{into}) -> {name}:"):
        _write_defaults(out, message, merged)
        _write_guarded_loop(out, message)
        out.line(f"message = new({name})")
        # In the order of the class's constructor, so that Python keeps one layout of attributes.
        for field in message.declared:
            out.line(f"message.{field.name} = {field.local}")
        out.line('message._unknown_fields = b""')
        out.line("return message")
    out.line()
    out.line()
    with out.block(f"def decode_{name}(data: bytes | bytearray | memoryview) -> {name}:"):
        out.line('"""The message; CodecError says what is wrong with the bytes."""')
        with out.block("if type(data) is not bytes:"):
            out.line("data = as_input(data)")
        with out.block("try:"):
            out.line(f"return _decode_{name}(data, 0, len(data))")
        with out.block("except READ_ERRORS:"):
            out.line("raise truncated() from None")


def write_entry_decoder(out: Source, entry: Message) -> None:
    """The decoder of a map's entry: key and value, each with its default if it is missing."""
    key, value = entry.fields
    types = f"{key.element_type}, {value.element_type}"
    _write_fields_table(out, entry)
    with out.block(f"def _decode_{entry.name}(data: bytes, pos: int, end: int) -> tuple[{types}]:"):
        _write_defaults(out, entry, merged=False)
        _write_guarded_loop(out, entry)
        if value.explicit:
            with out.block(f"if {value.local} is None:"):
                out.line(f"{value.local} = {value.element_default}")
        out.line(f"return {key.local}, {value.local}")


def _write_fields_table(out: Source, message: Message) -> None:
    """The known tags, and the names for error messages."""
    tags: dict[int, str] = {}
    for field in message.fields:
        tags[field.tag] = field.name
        if field.unpacked_tag is not None:
            tags[field.unpacked_tag] = field.name
    if not tags:
        out.line(f"{message.name}_FIELDS: dict[int, str] = {{}}")
    else:
        with out.block(f"{message.name}_FIELDS = {{"):
            for tag, name in tags.items():
                out.line(f'{tag}: "{name}",')
        out.line("}")
    out.line()
    out.line()


def _write_defaults(out: Source, message: Message, merged: bool) -> None:
    def declare() -> None:
        for field in message.fields:
            out.line(f"{field.local}: {field.annotation} = {field.default}")

    if not merged or not message.fields:
        declare()
        return
    with out.block("if into is None:"):
        declare()
    with out.block("else:"):
        for field in message.fields:
            out.line(f"{field.local} = into.{field.name}")


def _write_guarded_loop(out: Source, message: Message) -> None:
    """The loop, and around it what names the field if a value can't be one."""
    can_name = (Kind.STRING, Kind.TIMESTAMP, Kind.DURATION)
    if any(field.kind in can_name for field in message.fields):
        with out.block("try:"):
            _write_loop(out, message)
        with out.block("except (UnicodeDecodeError, FieldError) as error:"):
            fields = f"{message.name}_FIELDS"
            # An entry is named after its class, which has no underscores, and its field.
            name = message.name.replace("_", ".", 1)
            out.line(f'raise invalid_field("{name}", {fields}, tag, stop > end, error) from None')
    else:
        _write_loop(out, message)
    with out.block("if pos > end:"):
        out.line("raise truncated()")


def _write_loop(out: Source, message: Message) -> None:
    with out.block("if pos < end:"):
        _write_next_tag(out, message)
        with out.block("while True:"):
            for field in message.fields:
                _write_field(out, message, field)
            with out.block(f"if tag not in {message.name}_FIELDS:"):
                if not message.has_long_tags:
                    _write_long_tag(out)
                out.line(f"tag, pos = next_known(data, pos, end, tag, {message.name}_FIELDS)")
                with out.block("if tag < 0:"):
                    out.line("break")


def _write_next_tag(out: Source, message: Message) -> None:
    out.line("tag = data[pos]")
    out.line("pos += 1")
    if message.has_long_tags:
        _write_long_tag(out)


def _write_long_tag(out: Source) -> None:
    """Reads a tag of several bytes, of which one has been read. Small numbers may have it too."""
    with out.block("if tag > 127:"):
        out.line("tag, pos = read_tag(data, pos - 1)")


def _write_field(out: Source, message: Message, field: Field) -> None:
    if field.repeated or field.kind is Kind.MAP:
        for tag in (field.tag, field.unpacked_tag):
            if tag is not None:
                with out.block(f"while tag == {tag}:"):
                    _write_element(out, field, packed=tag != field.unpacked_tag)
                    with out.block("if pos >= end:"):
                        # Out of this loop and, past the tests of other fields, out of the next.
                        out.line("tag = -1")
                        out.line("break")
                    _write_next_tag(out, message)
        return
    with out.block(f"if tag == {field.tag}:"):
        _write_singular(out, field)
        if field.oneof is not None:
            for other in message.fields:
                if other.oneof == field.oneof and other is not field:
                    out.line(f"{other.local} = None")
        with out.block("if pos >= end:"):
            out.line("break")
        _write_next_tag(out, message)


def _write_singular(out: Source, field: Field) -> None:
    local = field.local
    match field.kind:
        case Kind.MESSAGE:
            _write_span(out, field, checked=True)
            out.line(f"{local} = _decode_{field.element_type}(data, pos, stop, {local})")
            out.line("pos = stop")
        case Kind.TIMESTAMP | Kind.DURATION:
            _write_span(out, field, checked=True)
            read, memo = f"read_{field.kind.value}", f"{field.kind.name}S"
            with out.block(f"if {local} is None:"):
                out.line(f"{local} = {memo}.get(data[pos:stop]) or {read}(data, pos, stop)")
            with out.block("else:"):
                out.line(f"{local} = {read}(data, pos, stop, {local})")
            out.line("pos = stop")
        case _:
            _write_value(out, field, local)


def _write_element(out: Source, field: Field, packed: bool) -> None:
    """One more element of a list or a map; if `packed`, a whole run of them."""
    item = f"{field.local}_item"
    if field.kind is Kind.MAP:
        assert field.entry is not None
        _write_span(out, field, checked=True)
        key, value = f"{field.local}_key", f"{field.local}_value"
        out.line(f"{key}, {value} = _decode_{field.entry.name}(data, pos, stop)")
        out.line(f"{field.local}[{key}] = {value}")
        out.line("pos = stop")
    elif packed and field.kind in FIXED_SIZES:
        _write_span(out, field, checked=True)
        size, letter = FIXED_SIZES[field.kind], STRUCT_LETTERS[field.kind]
        with out.block(f"if size % {size}:"):
            out.line("raise truncated()")
        unpacked = f'unpack_from(f"<{{size // {size}}}{letter}", data, pos)'
        out.line(f"{field.local}.extend({unpacked})")
        out.line("pos = stop")
    elif packed and field.kind.is_packable:
        _write_span(out, field, checked=True)
        with out.block("while pos < stop:"):
            _write_value(out, field, item)
            out.line(f"{field.local}.append({item})")
        with out.block("if pos > stop:"):
            out.line("raise truncated()")
    else:
        _write_value(out, field, item)
        out.line(f"{field.local}.append({item})")


def _write_span(out: Source, field: Field, checked: bool) -> None:
    """Reads a length; from `pos` to `stop` is the value. Strings are checked with the position."""
    out.line("size = data[pos]")
    out.line("pos += 1")
    with out.block("if size > 127:"):
        if field.kind in _LONG:
            with out.block("if data[pos] < 128:"):
                out.line("size += (data[pos] - 1) << 7")
                out.line("pos += 1")
            with out.block("else:"):
                out.line("size, pos = read_size(data, pos - 1)")
        else:
            out.line("size, pos = read_size(data, pos - 1)")
    out.line("stop = pos + size")
    if checked:
        with out.block("if stop > end:"):
            out.line("raise truncated()")


def _write_value(out: Source, field: Field, target: str) -> None:
    """Reads one value into a variable."""
    match field.kind:
        case Kind.STRING:
            _write_span(out, field, checked=False)
            out.line(f"{target} = data[pos:stop].decode()")
            out.line("pos = stop")
        case Kind.BYTES:
            _write_span(out, field, checked=False)
            out.line(f"{target} = data[pos:stop]")
            out.line("pos = stop")
        case Kind.MESSAGE:
            _write_span(out, field, checked=True)
            out.line(f"{target} = _decode_{field.element_type}(data, pos, stop)")
            out.line("pos = stop")
        case Kind.TIMESTAMP | Kind.DURATION:
            _write_span(out, field, checked=True)
            read, memo = f"read_{field.kind.value}", f"{field.kind.name}S"
            out.line(f"{target} = {memo}.get(data[pos:stop]) or {read}(data, pos, stop)")
            out.line("pos = stop")
        case Kind.BOOL:
            _write_small_varint(out, "number", "uint64")
            out.line(f"{target} = number != 0")
        case Kind.ENUM:
            _write_small_varint(out, "number", "int32")
            enum = field.element_type
            out.line(f"{target} = {enum}_MEMBERS.get(number) or {enum}(number)")
        case kind if kind in PLAIN_VARINTS:
            _write_small_varint(out, target, kind.value)
        case kind if kind in FIXED_SIZES:
            out.line(f"{target} = read_{kind.value}(data, pos)[0]")
            out.line(f"pos += {FIXED_SIZES[kind]}")
        case kind:
            out.line(f"{target}, pos = read_{kind.value}(data, pos)")


def _write_small_varint(out: Source, target: str, reader: str) -> None:
    """One byte is read in place, more of them by the reader."""
    out.line(f"{target} = data[pos]")
    out.line("pos += 1")
    with out.block(f"if {target} > 127:"):
        out.line(f"{target}, pos = read_{reader}(data, pos - 1)")
