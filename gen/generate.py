"""Make gen/src/pulse_gen from proto/, queries/ and migrations/, or check that it is fresh.

    python gen/generate.py            replaces gen/src/pulse_gen
    python gen/generate.py --check    changes nothing, exit status 1 if there is any difference

The tools have to be on the PATH; `python3 noxfile.py -s generate` and `-s generate_check` bring
them, pinned. Both ways generate into a copy of the sources elsewhere, so that nothing that lies
around leaks into the result, and a failure leaves the tree as it was.
"""

import argparse
import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATED = Path("gen/src/pulse_gen")
SOURCES = ("proto", "queries", "migrations", "gen/plugins", "buf.yaml", "buf.gen.yaml", "sqlc.yaml")
TOOLS = ("buf", "protoc-gen-python_betterproto2", "sqlc", "ruff")
# Read by our ruff and by the one that betterproto2's compiler calls: not the user's own settings.
RUFF_SETTINGS = 'line-length = 100\ntarget-version = "py311"\n'
PACKAGE_DOCSTRING = "Made from proto/, queries/ and migrations/ by gen/generate.py: never edited."
CACHE = "__pycache__"


class GenerationError(Exception):
    """Generated code cannot be made; the message is one line for a person."""


def generate(sandbox: Path) -> Path:
    """Generate everything inside an empty directory; return the package made."""
    for tool in TOOLS:
        if shutil.which(tool) is None:
            raise GenerationError(f"{tool} is not on the PATH: run python3 noxfile.py -s generate")
    for name in SOURCES:
        _copy(ROOT / name, sandbox / name)
    (sandbox / "ruff.toml").write_text(RUFF_SETTINGS)
    _run(sandbox, "buf", "generate")
    _run(sandbox, "sqlc", "generate")
    package = sandbox / GENERATED
    (package / "__init__.py").write_text(f'"""{PACKAGE_DOCSTRING}"""\n')
    (package / "py.typed").touch()
    _run(sandbox, "ruff", "format", "--quiet", "--no-cache", str(GENERATED))
    return package


def differences(fresh: Path, committed: Path) -> list[str]:
    """What generating changes, a line for each file."""
    fresh_files, committed_files = _files(fresh), _files(committed)
    found = dict.fromkeys(fresh_files - committed_files, "added")
    found |= dict.fromkeys(committed_files - fresh_files, "removed")
    for name in fresh_files & committed_files:
        if not filecmp.cmp(fresh / name, committed / name, shallow=False):
            found[name] = "changed"
    return [f"{found[name]}: {GENERATED / name}" for name in sorted(found)]


def _run(directory: Path, *command: str) -> None:
    """Run a tool that is silent unless it fails: then its words come before ours."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        raise GenerationError(f"`{' '.join(command)}` failed, nothing was changed")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(CACHE))
    else:
        shutil.copy(source, target)


def _files(directory: Path) -> set[Path]:
    """What git would track below the directory."""
    return {path.relative_to(directory) for path in directory.rglob("*") if path.is_file() and CACHE not in path.parts}


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(description="Generate gen/src/pulse_gen.")
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    check = parser.parse_args().check
    committed = ROOT / GENERATED
    try:
        with tempfile.TemporaryDirectory(prefix="pulse-generate-") as sandbox:
            fresh = generate(Path(sandbox))
            found = differences(fresh, committed)
            if found and not check:
                shutil.rmtree(committed, ignore_errors=True)
                shutil.copytree(fresh, committed)
    except GenerationError as error:
        print(f"generate: {error}", file=sys.stderr)
        return 1
    for line in found:
        print(line)
    if not found:
        print(f"{GENERATED} is fresh")
    elif check:
        print(f"{GENERATED} is not what its sources give; run: python3 noxfile.py -s generate")
    return 1 if found and check else 0


if __name__ == "__main__":
    sys.exit(main())
