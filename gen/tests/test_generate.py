"""gen/src can't drift from its sources: whoever touches one side only is told what to run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
PACKAGE = "gen/src/pulse_gen"
ADVICE = "run: python3 noxfile.py -s generate"


class Clone:
    """A copy of what generation reads and writes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def replace(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def generate(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "gen/generate.py", *arguments],
            cwd=self.root,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="session")
def fresh_clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The sources as they are, with the package that they give."""
    root = tmp_path_factory.mktemp("clone")
    for name in ("proto", "queries", "migrations", "gen/plugins"):
        shutil.copytree(REPO / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("buf.yaml", "buf.gen.yaml", "sqlc.yaml", "gen/generate.py"):
        shutil.copy(REPO / name, root / name)
    clone = Clone(root)
    generation = clone.generate()
    assert generation.returncode == 0, generation.stderr
    return clone


@pytest.fixture
def clone(fresh_clone: Clone, tmp_path: Path) -> Clone:
    """One to play with."""
    shutil.copytree(fresh_clone.root, tmp_path, dirs_exist_ok=True)
    return Clone(tmp_path)


def test_same_sources_give_the_same_code(clone: Clone) -> None:
    check = clone.generate("--check")
    assert (check.returncode, check.stdout) == (0, f"{PACKAGE} is fresh\n")


def test_new_field_in_a_message_asks_for_generation(clone: Clone) -> None:
    clone.replace(
        "proto/pulse/v1/job.proto",
        "message SubmitJobRequest {",
        "message SubmitJobRequest {\n  // New.\n  string brand_new = 4711;",
    )
    check = clone.generate("--check")
    assert check.returncode == 1
    assert f"changed: {PACKAGE}/rpc/pulse/v1/__init__.py\n" in check.stdout
    assert f"changed: {PACKAGE}/codec/pulse_v1.py\n" in check.stdout
    assert ADVICE in check.stdout


def test_lost_column_of_a_query_asks_for_generation_which_settles_it(clone: Clone) -> None:
    clone.replace("queries/jobs.sql", "RETURNING jobs.id, jobs.topic;", "RETURNING jobs.id;")
    check = clone.generate("--check")
    assert check.returncode == 1
    changed, advice = check.stdout.splitlines()
    assert changed == f"changed: {PACKAGE}/db/jobs.py"
    assert ADVICE in advice
    assert clone.generate().returncode == 0
    assert clone.generate("--check").returncode == 0


def test_edits_leftovers_and_losses_are_found_and_undone(clone: Clone) -> None:
    package = clone.root / PACKAGE
    with (package / "db/models.py").open("a") as models:
        models.write("# by hand\n")
    (package / "db/leftover.py").touch()
    (package / "py.typed").unlink()
    check = clone.generate("--check")
    assert check.returncode == 1
    assert check.stdout.splitlines()[:-1] == [
        f"removed: {PACKAGE}/db/leftover.py",
        f"changed: {PACKAGE}/db/models.py",
        f"added: {PACKAGE}/py.typed",
    ]
    assert clone.generate().returncode == 0
    assert clone.generate("--check").returncode == 0


def test_source_that_does_not_parse_changes_nothing(clone: Clone) -> None:
    before = (clone.root / PACKAGE / "db/jobs.py").read_text()
    clone.replace("queries/jobs.sql", "SELECT", "SELEKT")
    run = clone.generate()
    assert run.returncode == 1
    assert "jobs.sql" in run.stderr
    assert run.stderr.endswith("generate: `sqlc generate` failed, nothing was changed\n")
    assert (clone.root / PACKAGE / "db/jobs.py").read_text() == before


def test_missing_tool_is_one_clear_line(clone: Clone, tmp_path: Path) -> None:
    run = clone.generate("--check", PATH=str(tmp_path))
    assert run.returncode == 1
    assert run.stderr == ("generate: buf is not on the PATH: run python3 noxfile.py -s generate\n")
