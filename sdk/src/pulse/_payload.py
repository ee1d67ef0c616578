"""Arguments on the wire: written and checked by the annotation of the task that takes them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pydantic
from pydantic_core import PydanticSerializationError, to_json

from pulse._errors import InvalidPayload, TaskError

JSON = "application/json"
BYTES = "application/octet-stream"


class JsonPayload:
    """Arguments of any type that pydantic knows: models, dataclasses, TypedDicts, dicts and plain values."""

    content_type = JSON

    def __init__(self, task: str, annotation: Any) -> None:
        self._task = task
        self._expected = getattr(annotation, "__name__", str(annotation))
        try:
            adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(annotation)
        except (pydantic.PydanticUserError, pydantic.PydanticUndefinedAnnotation) as error:
            raise TaskError(
                f"task {task!r}: arguments of type {self._expected} can't be written as JSON; use a pydantic model, "
                f"a dataclass, a TypedDict, a dict or bytes ({str(error).splitlines()[0]})"
            ) from None
        # From bytes to arguments without a step between: the worker's hot path.
        self.decode: Callable[[bytes], Any] = adapter.validator.validate_json
        self._validate = adapter.validate_python
        self._dump = adapter.dump_json
        is_class = isinstance(annotation, type)
        is_model = is_class and (issubclass(annotation, pydantic.BaseModel) or dataclasses.is_dataclass(annotation))
        self._exact: type | None = annotation if is_model else None

    def encode(self, args: Any) -> bytes:
        """The payload, or InvalidPayload. What a worker could not read back is refused here."""
        try:
            if type(args) is not self._exact:
                args = self._validate(args)
            payload = self._dump(args, by_alias=True, round_trip=True, warnings="error")
            self.decode(payload)
        except pydantic.ValidationError as error:
            raise InvalidPayload(f"arguments of {self._task!r} don't fit {self._expected}: {describe(error)}") from None
        except (PydanticSerializationError, UnicodeEncodeError) as error:
            raise InvalidPayload(f"arguments of {self._task!r} can't be written as JSON: {error}") from None
        return payload

    def explain(self, error: pydantic.ValidationError) -> str:
        """Why a payload does not fit, for the dead letters. Its values stay out of it."""
        return f"the payload does not fit {self._expected}, which {self._task!r} takes: {describe(error)}"


class BytesPayload:
    """Arguments that are bytes: they travel as they are."""

    content_type = BYTES

    def __init__(self, task: str) -> None:
        self._task = task

    def encode(self, args: Any) -> bytes:
        """The payload, or InvalidPayload."""
        if not isinstance(args, (bytes, bytearray, memoryview)):
            raise InvalidPayload(f"{self._task!r} takes bytes, not {type(args).__name__}")
        return bytes(args)

    @staticmethod
    def decode(payload: bytes) -> bytes:
        """The arguments."""
        return payload

    def explain(self, error: pydantic.ValidationError) -> str:
        """Why a payload does not fit: bytes always do."""
        return str(error)


class NoPayload:
    """A task without arguments. Whatever a payload holds is left alone."""

    content_type = JSON

    def __init__(self, task: str) -> None:
        self._task = task

    def encode(self, args: Any) -> bytes:
        """The payload, or InvalidPayload."""
        if args is not None:
            raise InvalidPayload(f"{self._task!r} takes no arguments, but {type(args).__name__} was given")
        return b"null"

    @staticmethod
    def decode(payload: bytes) -> None:
        """Nothing."""

    def explain(self, error: pydantic.ValidationError) -> str:
        """Why a payload does not fit: it is not looked at."""
        return str(error)


Payload = JsonPayload | BytesPayload | NoPayload


def encode_unknown(topic: str, args: Any) -> tuple[bytes, str]:
    """Payload and content type of arguments for a task that this process does not know."""
    if isinstance(args, (bytes, bytearray, memoryview)):
        return bytes(args), BYTES
    try:
        return to_json(args, by_alias=True, round_trip=True, inf_nan_mode="null"), JSON
    except (PydanticSerializationError, UnicodeEncodeError, ValueError) as error:
        raise InvalidPayload(f"arguments of {topic!r} can't be written as JSON: {error}") from None


def describe(error: pydantic.ValidationError) -> str:
    """What does not fit, in one line."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [
        f"{'.'.join(str(part) for part in problem['loc']) or 'value'}: {problem['msg']}" for problem in problems[:5]
    ]
    if len(problems) > len(shown):
        shown.append(f"and {len(problems) - len(shown)} more")
    return "; ".join(shown)
