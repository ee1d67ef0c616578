"""Many jobs from JSON lines: checked before the first is sent, sent side by side, each failure told by its number.

Each line is a call of its own: the server stores those that arrive together in one transaction, answers for each, and
so one bad line costs no other.
"""

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pulse_cli.bulk import plural
from pulse_cli.command import Session
from pulse_cli.errors import CommandError, ExitCode, one_line
from pulse_cli.job_options import read_keys
from pulse_cli.parameters import read_json
from pulse_cli.payloads import JSON, STDIN, check_stdin
from pulse_cli.progress import progress

if TYPE_CHECKING:
    import pulse

# How many are under way at once. More gain nothing: the server groups what arrives within one statement's time.
SIDE_BY_SIDE = 500
# A broken file is told by its first mistakes.
MOST_TOLD = 20


@dataclass(frozen=True)
class Line:
    """One line: what to submit, or what is wrong with it."""

    number: int
    raw: bytes
    topic: str = ""
    payload: bytes = b""
    options: dict[str, Any] | None = None
    error: str | None = None


class Report:
    """What became of the lines."""

    def __init__(self, session: Session, rejects: str | None) -> None:
        self._output = session.output
        self.submitted = 0
        self.failed: list[int] = []
        self._records: list[dict[str, Any]] = []
        try:
            self._rejects = Path(rejects).open("wb") if rejects else None  # noqa: SIM115 - closed in finish()
        except OSError as error:
            raise click.UsageError(f"--rejects: {rejects}: {error.strerror or error}") from None

    def stored(self, line: Line, done: "pulse.Submitted") -> None:
        """The line is a job now."""
        self.submitted += 1
        if self._output.for_people:
            self._output.line(done.job_id)
        else:
            self._record({"line": line.number, "job_id": done.job_id, "existing": done.existing, "error": None})

    def refuse(self, line: Line, error: str, *, tell: bool = True) -> None:
        """The line is no job. What stops everything is told once, at the end."""
        self.failed.append(line.number)
        if tell and len(self.failed) <= MOST_TOLD:
            self._output.note(f"line {line.number}: {error}")
        if self._rejects is not None:
            self._rejects.write(line.raw.rstrip(b"\r\n") + b"\n")
        if not self._output.for_people:
            self._record({"line": line.number, "job_id": None, "existing": False, "error": one_line(error)})

    def _record(self, record: dict[str, Any]) -> None:
        if self._output.format == "jsonl":
            self._output.record(record)
        else:
            self._records.append(record)

    def finish(self) -> None:
        """What is printed at the end."""
        if self._output.format == "json":
            self._output.record(self._records)
        if self._rejects is not None:
            self._rejects.close()


def parse_line(number: int, raw: bytes, topic: str | None, shared: dict[str, Any]) -> Line:
    """One line as it will be submitted. The options of the line win over those of the command."""
    try:
        text = raw.decode().strip()
        value = read_json(text)
    except UnicodeDecodeError:
        return Line(number, raw, error="not UTF-8 text")
    except ValueError as error:
        return Line(number, raw, error=f"not JSON: {error}")
    if topic is not None:
        return Line(number, raw, topic, text.encode(), shared)
    try:
        return _parse_job(number, raw, value, shared)
    except ValueError as error:
        return Line(number, raw, error=str(error))


def _parse_job(number: int, raw: bytes, value: Any, shared: dict[str, Any]) -> Line:
    if not isinstance(value, dict):
        raise ValueError('not an object such as {"topic": "mail", "payload": {}}; or name a TOPIC for all lines')
    topic = value.pop("topic", None)
    if not isinstance(topic, str) or not topic:
        raise ValueError("topic: is missing; give it in the line, or as TOPIC for all lines")
    payload = json.dumps(value.pop("payload", None), ensure_ascii=False).encode()
    return Line(number, raw, topic, payload, shared | read_keys(value))


def read_lines(session: Session, source: str, topic: str | None, shared: dict[str, Any]) -> Iterator[Line]:
    """The lines of a file or of standard input, parsed; empty ones are left out."""
    if source == STDIN:
        check_stdin(session)
        yield from _parse(sys.stdin.buffer if sys.stdin else (), topic, shared)
        return
    try:
        with Path(source).open("rb") as file:
            yield from _parse(file, topic, shared)
    except OSError as error:
        raise click.UsageError(f"--lines: {source}: {error.strerror or error}") from None


def _parse(raws: Iterable[bytes], topic: str | None, shared: dict[str, Any]) -> Iterator[Line]:
    for number, raw in enumerate(raws, 1):
        if raw.strip():
            yield parse_line(number, raw, topic, shared)


async def submit_lines(
    session: Session,
    topic: str | None,
    source: str,
    shared: dict[str, Any],
    *,
    keep_going: bool,
    rejects: str | None,
) -> None:
    """Read, check, submit, tell."""
    lines = read_lines(session, source, topic, shared)
    total = None
    if not keep_going:
        checked = list(lines)
        _refuse_broken(checked)
        lines, total = iter(checked), len(checked)
    report = Report(session, rejects)
    stopped: CommandError | None = None
    try:
        async with session.client() as client:
            with progress(session.output, total) as advance:
                while chunk := list(islice(lines, SIDE_BY_SIDE)):
                    stopped = await _submit_chunk(session, client, chunk, report)
                    advance(len(chunk))
                    if stopped is not None:
                        for line in lines:
                            report.refuse(line, "not submitted", tell=False)
                        break
    finally:
        report.finish()
    _conclude(session, report, stopped, rejects)


def _refuse_broken(lines: list[Line]) -> None:
    """Nothing is stored while a line is broken: the file can be mended and submitted again as a whole."""
    broken = [line for line in lines if line.error]
    if broken:
        first = broken[0]
        others = f" (and {plural(len(broken) - 1, 'other line')}: {ranges(broken[1:])})" if len(broken) > 1 else ""
        raise CommandError(
            f"line {first.number} of {lines[-1].number} is broken: {first.error}{others}; nothing was submitted: "
            "mend it and run this again, or add --keep-going to submit the others"
        )


async def _submit_chunk(
    session: Session, client: "pulse.Pulse", chunk: list[Line], report: Report
) -> CommandError | None:
    """Submits side by side and reports in order; the error that makes going on useless, if there was one."""
    import pulse

    async def one(line: Line) -> "pulse.Submitted | pulse.PulseError | None":
        if line.error is not None:
            return None
        try:
            return await client.submit(line.topic, line.payload, **{"content_type": JSON, **(line.options or {})})
        except pulse.PulseError as error:
            return error

    stopped: CommandError | None = None
    for line, result in zip(chunk, await asyncio.gather(*map(one, chunk)), strict=True):
        if isinstance(result, pulse.Submitted):
            report.stored(line, result)
        elif result is None:
            report.refuse(line, line.error or "")
        else:
            fatal = isinstance(result, (pulse.Unavailable, pulse.AuthError, pulse.ConfigurationError))
            report.refuse(line, getattr(result.__cause__, "message", None) or str(result), tell=not fatal)
            if fatal:
                stopped = stopped or session.translate(result, client)
    return stopped


def _conclude(session: Session, report: Report, stopped: CommandError | None, rejects: str | None) -> None:
    if not report.failed:
        session.output.note(f"{plural(report.submitted)} submitted")
        return
    where = f"they are in {rejects}" if rejects else "submit those alone"
    code = ExitCode.FAILURE if stopped is None else stopped.code
    reason = "" if stopped is None else f"{stopped.format_message()}; "
    raise CommandError(
        f"{reason}{plural(report.submitted)} submitted, {plural(len(report.failed), 'line')} not: "
        f"{number_ranges(report.failed)}; mend what is wrong, and {where}",
        code,
    )


def ranges(lines: list[Line]) -> str:
    """The numbers of lines in short."""
    return number_ranges([line.number for line in lines])


def number_ranges(numbers: list[int]) -> str:
    """`3, 7-9, 12`; cut after a while."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in parts]
    return ", ".join(texts[:MOST_TOLD]) + (", ..." if len(texts) > MOST_TOLD else "")
