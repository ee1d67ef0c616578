"""What can go wrong, as one tree.

PulseError
├── ConfigurationError      the client is set up wrongly: address, credentials, TLS
├── TaskError               a task is declared wrongly: name taken, signature that can't work
├── InvalidArgument         a value breaks a rule; the message names it and nothing was stored
│   └── InvalidPayload      arguments that don't fit the task, or can't be written as JSON
├── NotFound                the job or schedule does not exist
├── Conflict
│   ├── AlreadyExists       the id or name is taken by something else
│   └── FailedPrecondition  not allowed in the present state of the job
├── AuthError
│   ├── Unauthenticated     the credentials are missing or wrong
│   └── PermissionDenied    the credentials are right, and not allowed to do this
├── LimitReached            a limit of the server is reached
├── Unavailable             the server or its database can't answer now
│   └── DeadlineExceeded    no answer came in time
└── ServerError             the server failed in a way that nobody foresaw

`translate_error` is the one place that maps gRPC statuses and broken connections to it.
"""

import ssl

from grpclib.const import Status
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from pulse_gen.codec import CodecError

# What grpclib, h2 and the socket below it raise when a call does not end with a status.
BROKEN_CALLS = (GRPCError, StreamTerminatedError, ProtocolError, OSError, TimeoutError, CodecError)


class PulseError(Exception):
    """Everything that pulse raises on purpose."""


class ConfigurationError(PulseError):
    """The client is set up wrongly."""


class TaskError(PulseError):
    """A task is declared wrongly."""


class InvalidArgument(PulseError):
    """A value breaks a rule; nothing was stored."""


class InvalidPayload(InvalidArgument):
    """Arguments that don't fit the task, or can't be written as JSON."""


class NotFound(PulseError):
    """The job or schedule does not exist; finished jobs are pruned after a while."""


class Conflict(PulseError):
    """The step does not go together with what is there."""


class AlreadyExists(Conflict):
    """The id or name is taken by something else."""


class FailedPrecondition(Conflict):
    """The step is not allowed in the present state."""


class AuthError(PulseError):
    """The server does not let this caller do this."""


class Unauthenticated(AuthError):
    """The credentials are missing or wrong."""


class PermissionDenied(AuthError):
    """The credentials are right, and not allowed to do this."""


class LimitReached(PulseError):
    """A limit of the server is reached; try again with less, or later."""


class Unavailable(PulseError):
    """The server or its database can't answer now; worth another try."""


class DeadlineExceeded(Unavailable):
    """No answer came in time. The call may have taken effect."""


class ServerError(PulseError):
    """The server failed; its log says why."""


_STATUSES: dict[Status, type[PulseError]] = {
    Status.INVALID_ARGUMENT: InvalidArgument,
    Status.OUT_OF_RANGE: InvalidArgument,
    Status.NOT_FOUND: NotFound,
    Status.ALREADY_EXISTS: AlreadyExists,
    Status.FAILED_PRECONDITION: FailedPrecondition,
    Status.ABORTED: Conflict,
    Status.UNAUTHENTICATED: Unauthenticated,
    Status.PERMISSION_DENIED: PermissionDenied,
    Status.RESOURCE_EXHAUSTED: LimitReached,
    Status.UNAVAILABLE: Unavailable,
    Status.CANCELLED: Unavailable,
    Status.DEADLINE_EXCEEDED: DeadlineExceeded,
}

_ADVICE: dict[type[PulseError], str] = {
    Unauthenticated: " (set PULSE_USER and PULSE_PASSWORD, or pass user= and password=)",
    Unavailable: " (is pulsed running and its database up?)",
}


def translate_error(error: Exception, address: str) -> PulseError:
    """The error of the tree for what a call to `address` ended with; its message says what to do."""
    if isinstance(error, GRPCError):
        if error.status is Status.UNIMPLEMENTED:
            return ServerError(f"{address} does not know this call: is it a pulse server, and as new as this SDK?")
        kind = _STATUSES.get(error.status, ServerError)
        return kind(f"{error.message or error.status.name}{_ADVICE.get(kind, '')}")
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConfigurationError(
            f"the certificate of {address} is not trusted: {error.verify_message}; "
            "set PULSE_TLS_CA to the certificate authority that signed it, and use the host name that it names"
        )
    if isinstance(error, ssl.SSLError):
        return ConfigurationError(f"no TLS with {address}: {error.reason or error}; does the server use TLS?")
    if isinstance(error, TimeoutError):
        return DeadlineExceeded(
            f"no answer from {address} in time; the call may have taken effect. "
            "Repeat it with the same id, or raise timeout="
        )
    if isinstance(error, CodecError):
        return ServerError(f"{address} answered with something that is not pulse's contract: {error}")
    if isinstance(error, OSError):
        return Unavailable(
            f"can't reach a pulse server at {address}: {error.strerror or error}; is pulsed running there? "
            "PULSE_ADDR, or the first argument of Pulse, says where to look"
        )
    return Unavailable(f"the connection to {address} broke: {str(error) or type(error).__name__}; try again")
