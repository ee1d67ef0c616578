"""How an attempt ended, in the words of the contract."""

import traceback
from pathlib import Path
from types import TracebackType

from pulse._outcomes import Discard, Outcome, Retry, Snooze
from pulse_gen.rpc.pulse import v1 as wire

# The server cuts at the same length, but from the end: the last lines are the ones that matter.
LONGEST_ERROR = 8 << 10
_CUT = "... cut ...\n"

_OURS = str(Path(__file__).resolve().parents[1])
_SUCCESS = wire.Success()


def succeeded(job: wire.JobAssignment) -> wire.JobResult:
    """It did its work."""
    return wire.JobResult(job.job_id, job.attempt, _SUCCESS)


def failed(job: wire.JobAssignment, error: str, *, discard: bool = False) -> wire.JobResult:
    """It did not."""
    failure = wire.Failure(error=bound_text(error), discard=discard)
    return wire.JobResult(job_id=job.job_id, attempt=job.attempt, failure=failure)


def handed_back(job: wire.JobAssignment) -> wire.JobResult:
    """It was not started, or not left to finish: somebody else should have it, at once."""
    return wire.JobResult(job_id=job.job_id, attempt=job.attempt, snooze=wire.Snooze())


def raised(job: wire.JobAssignment, error: BaseException) -> wire.JobResult:
    """What the handler raised, as flow control or as a failure with its traceback."""
    result = wire.JobResult(job_id=job.job_id, attempt=job.attempt)
    match error:
        case Snooze():
            result.snooze = wire.Snooze(until=error.until, delay=error.delay)
        case Discard():
            result.failure = wire.Failure(error=bound_text(error.reason or "discarded"), discard=True)
        case Retry():
            result.failure = wire.Failure(error=bound_text(_retry_text(error)), retry_after=error.after)
        case _:
            result.failure = wire.Failure(error=bound_text(format_error(error)))
    return result


def is_outcome(error: BaseException) -> bool:
    """Whether the handler raised it to say something, not because something broke."""
    return isinstance(error, Outcome)


def format_error(error: BaseException) -> str:
    """The traceback from the handler on; our own frames above it say nothing to its author."""
    try:
        return "".join(traceback.format_exception(type(error), error, _skip_ours(error.__traceback__)))
    except Exception as problem:  # an exception whose __str__ raises must not take the worker with it
        return f"{type(error).__name__} (its text can't be shown: {type(problem).__name__})"


def bound_text(text: str) -> str:
    """Text that the wire and the database take: no lone surrogates, no NUL, the tail of at most 8 KiB."""
    encoded = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "backslashreplace")
    if len(encoded) <= LONGEST_ERROR:
        return encoded.decode()
    return _CUT + encoded[len(_CUT) - LONGEST_ERROR :].decode(errors="ignore")


def _retry_text(error: Retry) -> str:
    if error.reason:
        return error.reason
    return format_error(error.__cause__) if error.__cause__ else str(error)


def _skip_ours(frames: TracebackType | None) -> TracebackType | None:
    first = frames
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_OURS):
        first = first.tb_next
    return first or frames
