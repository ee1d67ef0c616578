"""Mistakes: one line that says what to do, the right exit code, never a traceback."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ID = "0190b5b2-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("nonsense", "No such command 'nonsense'"),
        ("jobs nonsense", "No such command"),
        ("--nonsense", "No such option '--nonsense'"),
        ("jobs list --nonsense", "No such option"),
        ("jobs list -o xml", "'xml' is not one of 'table', 'json', 'jsonl'"),
        ("jobs list --status nonsense", "'nonsense' is no status; there are pending, running"),
        ("jobs list --limit many", "--limit"),
        ("jobs list --payload {", "not JSON"),
        ("jobs list --submitted-after yesterday", "or a time ago such as 2h"),
        ("jobs list --submitted-after 2026-01-01T00:00", "names no time zone"),
        ("jobs list --worker me", "is not the id of a worker"),
        ("jobs list --timeout soon", "is not a duration such as"),
        ("jobs list --addr localhost:99999", "is not an address"),
        ("jobs list --addr ftp://x", "an address is"),
        ("jobs list --tls-ca /nowhere.pem", "/nowhere.pem"),
        ("jobs get 4711", "find it with `pulse jobs list`"),
        ("jobs get", "Missing argument 'JOB'"),
        ("jobs cancel", "which jobs?"),
        (f"jobs cancel {ID} --topic t", "either ids of jobs or conditions"),
        (f"jobs cancel {ID} --dry-run", "--dry-run"),
        ("jobs cancel --topic=", "an empty value for topic"),
        ("jobs cancel --status completed", "can't be canceled; that works for pending, retrying, running"),
        ("jobs retry --status completed", "can't be retried"),
        ("jobs delete --status running", "can't be deleted"),
        ("jobs priority --topic t --status completed 1", "can't be given another priority"),
        (f"jobs priority {ID} high", "'high' is not a valid integer"),
        (f"jobs priority {ID} 99999999999", "PRIORITY"),
        (f"jobs priority {ID} --nonsense 1", "No such option"),
        ("jobs watch", "Missing argument"),
        ("submit", "which topic?"),
        ("submit t {bad", "the payload is not JSON"),
        ("submit t 1 --file x", "give one of them"),
        ("submit t --file /nowhere", "/nowhere: No such file"),
        ("submit t --lines /nowhere", "/nowhere: No such file"),
        ("submit t 1 --lines x", "--lines brings the payloads"),
        ("submit t 1 --keep-going", "are for --lines"),
        ("submit t 1 --delay 1s --run-at 2099-01-01T00:00Z", "give one of them"),
        ("submit t 1 --meta novalue", "--meta is KEY=VALUE"),
        ("submit t 1 --unique-for 1h", "--unique-for needs --unique"),
        ("submit t - --password-stdin", "--password-stdin"),
        ("submit t --lines - --password-stdin", "--password-stdin"),
        ("schedules create n t", "one of --cron, --every and --at"),
        ("schedules create n t --every 1m --cron x", "one of --cron, --every and --at"),
        ("schedules create n t --every 1m --tz UTC", "--tz is for --cron"),
        ("schedules create n t --cron x --start 2099-01-01T00:00Z", "--start is for --every"),
        ("dispatch pause --topic=", "--topic is empty"),
        ("explain 4711", "is not the id of a job"),
        ("stats --interval 1ms --watch", "at least 100ms"),
        ("passwd a:b --password-stdin", "no colon"),
        ("passwd a", "no terminal to ask"),
        ("completion powershell", "is not one of 'bash', 'zsh', 'fish'"),
        ("--profile nowhere jobs list", "pulse save creds --profile nowhere"),
    ],
)
def test_wrong_usage_is_exit_code_2(stranger: Any, arguments: str, told: str) -> None:
    assert told in stranger.refused(2, *arguments.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("submit t 1 --priority 9999999999", "priority"),
        ("stats --window 1s", "window"),
        ("schedules create n t --cron nonsense", "cron"),
        ("schedules create n t --cron '* * * * *' --tz Mars/Olympus", "zone"),
        ("schedules create n t --every 1ms", "interval"),
    ],
)
def test_what_the_server_refuses_is_exit_code_2(program: Any, arguments: str, told: str) -> None:
    import shlex

    assert told in program.refused(2, *shlex.split(arguments))


def test_without_arguments_the_help_is_shown(stranger: Any) -> None:
    done = stranger.run()
    assert (done.code, done.out) == (2, "")
    assert "Commands:" in done.err


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_no_server_is_exit_code_5(stranger: Any, silent: str) -> None:
    for arguments in ("submit t 1", "stats --watch", f"jobs watch {ID}"):
        said = stranger.refused(5, *arguments.split(), "--addr", "127.0.0.1:1")
        assert "can't reach a pulse server at 127.0.0.1:1: Connection refused" in said
        assert "--addr or PULSE_ADDR" in said
    assert "Name or service not known" in stranger.refused(5, "jobs", "list", "--addr", "no.such.host.invalid:1")
    said = stranger.refused(5, "jobs", "list", "--addr", silent, "--timeout", "300ms")
    assert f"no answer from {silent} within 0.3 s" in said
    assert "--timeout" in said


def test_mistakes_on_a_terminal(stranger: Any) -> None:
    for arguments, code in (("jobs get 4711", 2), ("jobs list --addr 127.0.0.1:1", 5)):
        terminal = stranger.on_terminal(*arguments.split())
        assert terminal.wait() == code
        assert terminal.text.startswith("error: ")
        assert terminal.text.count("\n") == 1


def test_a_bug_of_ours_is_one_line_too(stranger: Any, tmp_path: Path) -> None:
    """A broken installation stands for what nobody foresaw."""
    (tmp_path / "pulse.py").write_text("raise RuntimeError('broken\\ninstallation')")
    said = stranger.refused(1, "jobs", "list", env={"PYTHONPATH": str(tmp_path)})
    assert "RuntimeError: broken installation" in said
    assert "PULSE_DEBUG=1" in said
