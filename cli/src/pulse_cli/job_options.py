"""The options of jobs, as flags for `submit` and `schedules create` and as keys of JSON lines."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import click

from pulse_cli.parameters import Duration, parse_duration, parse_moment

Command = TypeVar("Command", bound=Callable[..., Any])

BACKOFFS = ("quadratic", "fixed", "linear", "exponential")
_OPTIONS = (
    click.option("--priority", type=int, metavar="N", help="Higher runs first. Default: 0."),
    click.option("--max-attempts", type=click.IntRange(1, 1000), metavar="N", help="Before it is dead. Default: 5."),
    click.option("--job-timeout", type=Duration(), help="How long one attempt may run. Default: no limit."),
    click.option("--lease", type=Duration(), help="How long a worker may be silent. Default: the server's."),
    click.option("--unique", "unique_key", metavar="KEY", help="At most one unfinished job of the topic has this key."),
    click.option("--unique-for", "unique_period", type=Duration(), help="Keep the key for this long instead."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="A word to find it by; may be repeated."),
    click.option("--meta", "metadata", multiple=True, metavar="KEY=VALUE", help="Travels to the handler; repeatable."),
    click.option("--backoff", type=click.Choice(BACKOFFS), help="How waits between attempts grow. Default: quadratic."),
    click.option("--backoff-base", type=Duration(), help="The unit of that growth. Default: 1s."),
    click.option("--backoff-cap", type=Duration(), help="The longest wait. Default: 24h."),
    click.option(
        "--backoff-jitter", type=click.FloatRange(0, 1), metavar="SHARE", help="The share left to chance. Default: 0."
    ),
)
_FLAGS = (
    *("priority", "max_attempts", "job_timeout", "lease", "unique_key", "unique_period", "tags", "metadata"),
    *("backoff", "backoff_base", "backoff_cap", "backoff_jitter"),
)


def job_options(command: Command) -> Command:
    """Adds the flags."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """Takes the job's options out of a command's flags, in the SDK's words; those not given are left out."""
    given = {name: flags.pop(name) for name in _FLAGS}
    pairs = [text.partition("=") for text in given.pop("metadata")]
    if any(not separator or not key for key, separator, _ in pairs):
        raise click.UsageError("--meta is KEY=VALUE, such as --meta trace=4711")
    growth = {name: given.pop(f"backoff_{name}") for name in ("base", "cap", "jitter")}
    options = {
        "priority": given["priority"],
        "max_attempts": given["max_attempts"],
        "timeout": given["job_timeout"],
        "lease": given["lease"],
        "tags": list(given["tags"]) or None,
        "metadata": {key: value for key, _, value in pairs} or None,
        "unique": _unique(given["unique_key"], given["unique_period"]),
        "backoff": _backoff(given["backoff"], growth),
    }
    return {name: value for name, value in options.items() if value is not None}


def _unique(key: str | None, period: timedelta | None) -> Any:
    import pulse

    if key is None:
        if period is not None:
            raise click.UsageError("--unique-for needs --unique KEY")
        return None
    return pulse.Unique(key, period)


def _backoff(kind: str | None, growth: Mapping[str, Any]) -> Any:
    import pulse

    given = {name: value for name, value in growth.items() if value is not None}
    if kind is None and not given:
        return None
    return pulse.Backoff(kind=pulse.BackoffKind((kind or "quadratic").upper()), **given)


def read_keys(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The options in one JSON line, in the SDK's words, or ValueError that names the key."""
    options: dict[str, Any] = {}
    for name, value in keys.items():
        if value is None:
            continue
        reader = _READERS.get(name)
        if reader is None:
            raise ValueError(f"unknown key {name!r}; known are topic, payload, {', '.join(_READERS)}")
        try:
            options[name] = reader(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"{name}: {error}") from None
    period = options.pop("unique_period", None)
    if (key := options.pop("unique_key", None)) is not None or period is not None:
        if key is None:
            raise ValueError("unique_period needs unique_key")
        options["unique"] = _unique(key, period)
    return options


def _read_span(value: Any) -> timedelta:
    span = parse_duration(value if isinstance(value, str) else repr(value))
    if span is None or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a duration such as 30 or '10m'")
    return span


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _read_moment(value: Any) -> Any:
    try:
        return parse_moment(_read_text(value))
    except ValueError as error:
        if "time zone" in str(error):
            raise
        raise ValueError(f"{value!r} is not a moment such as '2026-01-31T09:00Z'") from None


def _read_backoff(value: Any) -> Any:
    keys = {"kind", "base", "cap", "jitter"}
    if not isinstance(value, dict) or not value.keys() <= keys:
        raise ValueError(f"{value!r} is not an object with kind, base, cap, jitter")
    kind = str(value.get("kind", "quadratic")).lower()
    if kind not in BACKOFFS:
        raise ValueError(f"{kind!r} is none of {', '.join(BACKOFFS)}")
    growth = {name: _read_span(value[name]) for name in ("base", "cap") if name in value}
    return _backoff(kind, growth | {"jitter": float(value.get("jitter", 0))})


def _as_is(value: Any) -> Any:
    # The SDK checks these and names the field.
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "job_id": _read_text,
    "priority": _as_is,
    "max_attempts": _as_is,
    "run_at": _read_moment,
    "delay": _read_span,
    "timeout": _read_span,
    "lease": _read_span,
    "unique_key": _read_text,
    "unique_period": _read_span,
    "tags": _as_is,
    "metadata": _as_is,
    "backoff": _read_backoff,
    "content_type": _read_text,
}
