"""What can go wrong, as one tree.

PulsedError
├── StartupError            the server can't start; the message is the one line that the operator gets
└── RequestError            the answer to one call
    ├── InvalidArgument     the request breaks a rule; names the field
    ├── NotFound
    ├── AlreadyExists
    ├── FailedPrecondition  not allowed in the present state
    ├── Unauthenticated
    ├── ResourceExhausted   a limit is reached
    ├── Aborted             something newer took over
    └── Unavailable         can't be answered now; worth another try

`STATUSES` is the one place that maps them to the wire.
"""

from typing import Any

from grpclib.const import Status


class PulsedError(Exception):
    """Everything that pulsed raises on purpose."""


class StartupError(PulsedError):
    """The server can't start."""


class RequestError(PulsedError):
    """The answer to one call."""


class InvalidArgument(RequestError):
    """The request breaks a rule."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self._problem = problem

    def inside(self, outer: str) -> "InvalidArgument":
        """The same about a field of a field."""
        return InvalidArgument(f"{outer}.{self.field}", self._problem)


class NotFound(RequestError):
    """What was named does not exist."""


class AlreadyExists(RequestError):
    """The id or name is taken by something else."""


class FailedPrecondition(RequestError):
    """The step is not allowed in the present state."""


class Unauthenticated(RequestError):
    """The credentials are missing or wrong."""


class ResourceExhausted(RequestError):
    """A limit is reached."""


class Aborted(RequestError):
    """Something newer took over."""


class Unavailable(RequestError):
    """The call can't be answered now."""


def first_error(group: BaseExceptionGroup[Any]) -> BaseException:
    """The first error in a group of groups: the one that the others followed from."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


STATUSES: dict[type[RequestError], Status] = {
    InvalidArgument: Status.INVALID_ARGUMENT,
    NotFound: Status.NOT_FOUND,
    AlreadyExists: Status.ALREADY_EXISTS,
    FailedPrecondition: Status.FAILED_PRECONDITION,
    Unauthenticated: Status.UNAUTHENTICATED,
    ResourceExhausted: Status.RESOURCE_EXHAUSTED,
    Aborted: Status.ABORTED,
    Unavailable: Status.UNAVAILABLE,
}
