"""The codecs as grpclib wants them."""

from collections.abc import Callable, Mapping
from typing import Any

from grpclib.encoding.base import CodecBase


class TableCodec(CodecBase):
    """Finds the functions for a message by its class."""

    __content_subtype__ = "proto"

    def __init__(
        self,
        encoders: Mapping[type[Any], Callable[[Any], bytes]],
        decoders: Mapping[type[Any], Callable[[bytes], Any]],
    ) -> None:
        self._encoders = encoders
        self._decoders = decoders

    def encode(self, message: Any, message_type: type[Any]) -> bytes:
        """The wire form of a message of that class; CodecError if it has none."""
        encode = self._encoders.get(message_type)
        if encode is None:
            raise TypeError(f"no codec for {message_type!r}: not a message of the contract")
        return encode(message)

    def decode(self, data: bytes, message_type: type[Any]) -> Any:
        """The message of that class in the bytes; CodecError if there is none."""
        decode = self._decoders.get(message_type)
        if decode is None:
            raise TypeError(f"no codec for {message_type!r}: not a message of the contract")
        return decode(data)
