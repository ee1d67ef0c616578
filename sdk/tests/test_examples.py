"""The examples do what they say."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pulse
import pulse.sync

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATIENCE = 60


def environment(address: str) -> dict[str, str]:
    return {**os.environ, "PULSE_ADDR": address, "PYTHONUNBUFFERED": "1"}


def run_example(name: str, address: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env=environment(address),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def worker(server: Any) -> Iterator["subprocess.Popen[str]"]:
    """The worker of examples/emails.py, running."""
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "emails.py"), "worker"],
        env=environment(server.address),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        yield process
        if process.poll() is None:
            process.kill()


def test_worker_and_producer(server: Any, worker: "subprocess.Popen[str]") -> None:
    output = run_example("emails.py", server.address, "producer")
    assert "1000 stored" in output
    assert "is COMPLETED after 1 attempt" in output
    with pulse.sync.Pulse(server.address) as p:
        while p.count_jobs(status=["pending", "running"]).count:
            pass
        (dead,) = p.list_jobs(status="dead_lettered")
        assert dead.last_error == "'nobody' is not an address"
    worker.send_signal(signal.SIGTERM)
    printed, _ = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0
    assert "sent 'Hello' to ada@example.com, attempt 1" in printed
    assert "resized a photo of 5 bytes" in printed


def test_snippet_of_the_readme_runs_as_it_stands(server: Any, tmp_path: Path) -> None:
    readme = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    snippet = readme.split("```python\n")[1].split("```")[0]
    program = tmp_path / "snippet.py"
    program.write_text(snippet.replace("localhost:50051", server.address))
    with subprocess.Popen([sys.executable, "-u", str(program)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "to a@b.c, attempt 1\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    with pulse.sync.Pulse(server.address) as p:
        assert [job.status for job in p.list_jobs(topic="send-email")] == ["COMPLETED"]


def test_schedules(server: Any) -> None:
    output = run_example("schedules.py", server.address)
    assert "report for Berlin, due None" in output  # triggered by hand
    assert "report for Oslo" in output
    assert "every second: 0 fired" not in output


def test_pause_and_resume(server: Any) -> None:
    output = run_example("pause_resume.py", server.address)
    assert "paused: True, because the database moves" in output
    assert "resumed: the job is COMPLETED" in output


def test_plain_script(server: Any) -> None:
    output = run_example("plain_script.py", server.address)
    assert "is PENDING" in output
    assert "once is enough" in output


@pytest.mark.skipif(
    importlib.util.find_spec("starlette") is None or importlib.util.find_spec("httpx") is None,
    reason="starlette and httpx are not installed",
)
async def test_web_app(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    monkeypatch.setenv("PULSE_ADDR", server.address)
    spec = importlib.util.spec_from_file_location("web_app", EXAMPLES / "web_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    transport = httpx.ASGITransport(app=module.app)
    async with module.lifespan(module.app), httpx.AsyncClient(transport=transport, base_url="http://test") as web:
        first = await web.post("/sign-up", json={"email": "a@b.c"})
        again = await web.post("/sign-up", json={"email": "a@b.c"})
        assert (first.status_code, first.json()["already"], again.json()["already"]) == (202, False, True)
        shown = await web.get(f"/jobs/{first.json()['job']}")
        assert shown.json() == {"status": "PENDING", "attempts": 0}
        assert (await web.get("/jobs/nonsense")).status_code == 404


def test_demo_s_worker_does_what_its_producer_submits(server: Any) -> None:
    """Started as `up` starts them, and stopped once some of it is done."""
    programs = [
        subprocess.Popen(
            [sys.executable, str(EXAMPLES / "demo" / name)],
            env=environment(server.address),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("worker.py", "producer.py")
    ]
    try:
        with pulse.sync.Pulse(server.address) as p:
            while p.count_jobs(status="completed", limit=100).count < 100:
                assert all(program.poll() is None for program in programs)
            assert len(list(p.list_schedules(topic="count-stock"))) == 2
        programs[0].terminate()
        assert programs[0].wait(PATIENCE) == 0
    finally:
        for program in programs:
            program.kill()
            program.communicate()
