"""`pulse submit`: from an argument, a file, standard input; one job, or one a line."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

FIVE = '{"n": 1}\n{"n": 2}\n{"n":\n{"n": 4}\n{"n": 5}\n'


def test_from_argument_file_and_standard_input(program: Any, hands: Any, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"from": "file"}')
    for arguments, stdin, payload in (
        (('{"from": "argument"}',), "", b'{"from": "argument"}'),
        (("--file", str(file)), "", b'{"from": "file"}'),
        (("-",), '{"from": "stdin"}', b'{"from": "stdin"}'),
        (("--file", "-"), "[1]", b"[1]"),
        ((), "", b"null"),
    ):
        done = program.ok("submit", topic, *arguments, stdin=stdin)
        assert done.err == ""
        job = hands.job(done.out.strip())
        assert (job.topic, job.payload, job.content_type) == (topic, payload, "application/json")


def test_every_option_arrives(program: Any, hands: Any, topic: str) -> None:
    job_id = str(uuid4())
    arguments = ["--id", job_id, "--priority", "-3", "--max-attempts", "7", "--job-timeout", "2m", "--lease", "90s"]
    arguments += ["--unique", "key", "--unique-for", "1h", "--tag", "a", "--tag", "b", "--meta", "k=v=w"]
    arguments += ["--backoff", "fixed", "--backoff-base", "5s", "--backoff-cap", "1m", "--backoff-jitter", "0.5"]
    first = program.json("submit", topic, "{}", *arguments, "--delay", "1h")
    assert first == {"job_id": job_id, "existing": False}
    again = program.ok("submit", topic, "{}", *arguments, "--delay", "1h", "-o", "json")
    assert again.json() == {"job_id": job_id, "existing": True}
    assert "there already" in again.err
    job = hands.job(job_id)
    options = job.options
    assert (job.priority, job.max_attempts, job.tags, options.metadata) == (-3, 7, ("a", "b"), {"k": "v=w"})
    assert (options.timeout.total_seconds(), options.lease.total_seconds()) == (120, 90)
    assert (options.unique.key, options.unique.period.total_seconds()) == ("key", 3600)
    backoff = options.backoff
    assert (backoff.kind, backoff.base.total_seconds(), backoff.cap.total_seconds()) == ("FIXED", 5, 60)
    assert backoff.jitter == 0.5
    assert (job.next_run_at - job.submitted_at).total_seconds() == 3600
    later = program.submit(topic, "{}", "--run-at", "2099-01-31T09:00+01:00")
    assert hands.job(later).next_run_at.isoformat() == "2099-01-31T08:00:00+00:00"


def test_an_id_that_names_another_job_is_a_conflict(program: Any, topic: str) -> None:
    job_id = str(uuid4())
    program.submit(topic, '{"n": 1}', "--id", job_id)
    program.refused(6, "submit", topic, '{"n": 2}', "--id", job_id)


def test_lines_are_payloads_of_one_topic(program: Any, hands: Any, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text('{"n": 1.10}\n\n  [2]  \n"three"')
    done = program.ok("submit", topic, "--lines", str(file), "--priority", "4")
    ids = done.out.split()
    assert [hands.job(job).payload for job in ids] == [b'{"n": 1.10}', b"[2]", b'"three"']
    assert {hands.job(job).priority for job in ids} == {4}
    assert done.err == "3 jobs submitted\n"


def test_lines_are_whole_jobs(program: Any, hands: Any, topic: str) -> None:
    job_id = str(uuid4())
    jobs = [
        {"topic": topic, "payload": {"n": 12345678901234567890}, "priority": 9, "job_id": job_id, "delay": "10m"},
        {"topic": f"{topic}-2", "tags": ["a"], "metadata": {"k": "v"}, "timeout": 5, "unique_key": "u"},
        {"topic": topic, "run_at": "2099-01-01T00:00Z", "backoff": {"kind": "linear", "base": "2s"}},
    ]
    done = program.ok("submit", "--lines", "-", "-o", "jsonl", stdin="\n".join(map(json.dumps, jobs)))
    results = done.lines()
    assert [(each["line"], each["existing"], each["error"]) for each in results] == [
        (number, False, None) for number in (1, 2, 3)
    ]
    assert results[0]["job_id"] == job_id
    first, second, third = (hands.job(each["job_id"]) for each in results)
    assert (first.payload, first.priority) == (b'{"n": 12345678901234567890}', 9)
    assert (second.topic, second.payload, second.tags) == (f"{topic}-2", b"null", ("a",))
    assert third.options.backoff.kind == "LINEAR"


def test_broken_line_3_of_5_stores_nothing(program: Any, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text(FIVE)
    for source, stdin in ((str(file), ""), ("-", FIVE)):
        said = program.refused(1, "submit", topic, "--lines", source, stdin=stdin)
        assert "line 3 of 5 is broken: not JSON" in said
        assert "nothing was submitted" in said
        assert "--keep-going" in said
    assert program.json("jobs", "list", "--topic", topic) == []


def test_keep_going_submits_the_others_and_keeps_the_rejects(program: Any, topic: str, tmp_path: Path) -> None:
    rejects = tmp_path / "rejects"
    done = program.run("submit", topic, "--lines", "-", "--keep-going", "--rejects", str(rejects), stdin=FIVE)
    assert done.code == 1
    assert len(done.out.split()) == 4
    assert done.err.splitlines()[0] == "line 3: not JSON: Expecting value at column 6"
    assert "4 jobs submitted, 1 line not: 3" in done.err.splitlines()[1]
    assert rejects.read_text() == '{"n":\n'
    assert len(program.json("jobs", "list", "--topic", topic)) == 4


def test_lines_that_the_server_refuses_are_told_by_number(program: Any, hands: Any, topic: str) -> None:
    same, taken = hands.submit(topic, 2), hands.submit(topic, "something else")
    jobs = [
        {"topic": topic, "payload": 1},
        {"topic": topic, "payload": 2, "job_id": same},
        {"topic": topic, "payload": 3, "job_id": taken},
        {"topic": topic, "payload": 4, "max_attempts": 0},
        {"topic": topic, "payload": 5},
    ]
    done = program.run("submit", "--lines", "-", "-o", "json", stdin="\n".join(map(json.dumps, jobs)))
    assert done.code == 1
    results = done.json()
    assert [bool(each["job_id"]) for each in results] == [True, True, False, False, True]
    assert [each["existing"] for each in results] == [False, True, False, False, False]
    assert f"line 3: job_id: {taken}" in done.err
    assert "line 4: max_attempts" in done.err
    assert "3 jobs submitted, 2 lines not: 3-4" in done.err


def test_whole_jobs_with_mistakes_are_told_before_anything_is_stored(program: Any, topic: str) -> None:
    for line, told in (
        ("[]", "not an object"),
        ("{}", "topic: is missing"),
        ('{"topic": "t", "priorty": 1}', "unknown key 'priorty'"),
        ('{"topic": "t", "delay": "soon"}', "delay: 'soon' is not a duration"),
        ('{"topic": "t", "run_at": "2026-01-01T00:00"}', "run_at: '2026-01-01T00:00' names no time zone"),
        ('{"topic": "t", "payload": NaN}', "NaN is no JSON number"),
    ):
        said = program.refused(1, "submit", "--lines", "-", stdin=f'{{"topic": "{topic}"}}\n{line}\n')
        assert f"line 2 of 2 is broken: {'not JSON: ' if 'NaN' in line else ''}{told}" in said
    assert program.json("jobs", "list", "--topic", topic) == []


def test_lines_without_a_server_is_one_line(stranger: Any) -> None:
    said = stranger.refused(5, "submit", "t", "--lines", "-", "--addr", "127.0.0.1:1", stdin="1\n2\n3\n")
    assert "0 jobs submitted, 3 lines not: 1-3" in said


def test_progress_on_a_terminal_only(program: Any, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("{}\n" * 1500)
    done = program.ok("submit", topic, "--lines", str(file))
    assert done.err == "1,500 jobs submitted\n"
    terminal = program.on_terminal("submit", topic, "--lines", str(file), "-o", "jsonl")
    assert terminal.wait() == 0
    assert "━" in terminal.raw
    assert "1,500 jobs submitted" in terminal.text
    plain = program.on_terminal("submit", topic, "--lines", str(file), env={"NO_COLOR": "1"})
    assert plain.wait() == 0
    assert "\x1b" not in plain.raw
    assert program.ok("jobs", "cancel", "--topic", topic, "--dry-run").out == "4,500 jobs would be canceled\n"
