"""Which server, as whom: flag over environment over saved profile, decided once into one value."""

import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pulse_cli.errors import CommandError, ExitCode
from pulse_cli.profiles import DEFAULT, Profile, config_path, load_profiles

if TYPE_CHECKING:
    import pulse

DEFAULT_ADDRESS = "localhost:50051"
DEFAULT_TIMEOUT = timedelta(seconds=10)
# A person waits for the answer: a server that is not there is reported within a second.
RETRIES = 3


@dataclass(frozen=True, kw_only=True)
class Target:
    """Everything that a connection needs, and where it was found, for `pulse doctor`."""

    address: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool | None = None
    tls_ca: str | None = None
    timeout: timedelta = DEFAULT_TIMEOUT
    profile: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    def client(self) -> "pulse.Pulse":
        """A client of the SDK; it connects with its first call."""
        import pulse

        try:
            return pulse.Pulse(
                self.address,
                user=self.user,
                password=self.password,
                tls=self.tls,
                tls_ca=self.tls_ca,
                timeout=self.timeout,
                retries=RETRIES,
            )
        except pulse.PulseError as error:
            raise CommandError(f"{error}; `pulse doctor` looks at the whole setup", ExitCode.USAGE) from None


def resolve(given: Mapping[str, Any], *, with_profile: bool = True) -> Target:
    """The target for these flags and this environment.

    The parts of a profile belong together. Where flags or environment name another address, a profile that was not
    asked for by name stays out of it, and so does a password that was saved for another user: secrets go where their
    owner meant them to go.
    """
    env = os.environ
    asked = given.get("profile") or env.get("PULSE_PROFILE") or None
    saved = _find_profile(asked) if with_profile else {}
    sources: dict[str, str] = {}
    name = asked or DEFAULT

    def choose(key: str, variable: str) -> Any:
        for source, value in (
            (f"--{key.replace('_', '-')}", given.get(key)),
            (variable, env.get(variable) or None),
            (f"profile {name!r}", saved.get(key)),
        ):
            if value is not None:
                sources[key] = source
                return value
        return None

    address = choose("addr", "PULSE_ADDR") or DEFAULT_ADDRESS
    if asked is None and saved.get("addr") not in (None, address):
        saved = {}
    user = choose("user", "PULSE_USER")
    password = _given_password(given) or _environment_password(env, sources)
    if password is None and user == saved.get("user"):
        password = saved.get("password")
    if user is not None and password is None:
        password = _ask_password(user)
    if user is None and password is not None:
        raise CommandError("a password without a user: give --user or set PULSE_USER", ExitCode.AUTH)
    return Target(
        address=address,
        user=user,
        password=password,
        tls=_flag(choose("tls", "PULSE_TLS")),
        tls_ca=choose("tls_ca", "PULSE_TLS_CA"),
        timeout=given.get("timeout") or DEFAULT_TIMEOUT,
        profile=name if saved else None,
        sources=sources,
    )


def _find_profile(asked: str | None) -> Profile:
    path = config_path()
    profiles = load_profiles(path)
    if asked is not None and asked not in profiles:
        known = f"there are {', '.join(sorted(profiles))}" if profiles else "there is none"
        raise CommandError(
            f"no profile {asked!r} in {path}, {known}; make it with `pulse save creds --profile {asked}`",
            ExitCode.USAGE,
        )
    return dict(profiles.get(asked or DEFAULT, {}))


def _flag(value: bool | str | None) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if value.strip().lower() in ("1", "true", "yes", "on"):
        return True
    if value.strip().lower() in ("0", "false", "no", "off"):
        # Not "off" but "not asked for": an address with https:// or a CA may still ask for it.
        return None
    raise CommandError(f"PULSE_TLS: {value!r} is not 1 or 0", ExitCode.USAGE)


def _given_password(given: Mapping[str, Any]) -> str | None:
    ways = [name for name in ("password", "password_file", "password_stdin") if given.get(name)]
    if len(ways) > 1:
        options = " and ".join(f"--{way.replace('_', '-')}" for way in ways)
        raise click.UsageError(f"{options} say the same twice: give one of them")
    if "password" in ways:
        click.echo("warning: others can see a password on the command line; use --password-file, or a prompt", err=True)
        return str(given["password"])
    if "password_file" in ways:
        return read_password_file("--password-file", str(given["password_file"]))
    if "password_stdin" in ways:
        return read_password_stdin()
    return None


def _environment_password(env: Mapping[str, str], sources: dict[str, str]) -> str | None:
    for name in ("PULSE_PASSWORD", "PULSE_PASSWORD_FILE"):
        if value := env.get(name):
            sources["password"] = name
            return read_password_file(name, value) if name.endswith("_FILE") else value
    return None


def read_password_file(name: str, file: str) -> str:
    """The first line of a file. One that others can read gets a warning only: mounted secrets often are like that."""
    try:
        with Path(file).open(encoding="utf-8") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            password = stream.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise CommandError(f"{name}: {file}: {reason}; name a file with the password in it", ExitCode.AUTH) from None
    if not password:
        raise CommandError(f"{name}: {file} is empty; write the password into it", ExitCode.AUTH)
    if stat.S_ISREG(mode) and mode & stat.S_IROTH:
        click.echo(f"warning: {file} can be read by others; run `chmod 600 {file}`", err=True)
    return password


def read_password_stdin() -> str:
    """The first line of standard input."""
    password = sys.stdin.readline().rstrip("\r\n") if sys.stdin else ""
    if not password:
        raise CommandError("--password-stdin: standard input is empty; pipe the password into it", ExitCode.AUTH)
    return password


def is_interactive() -> bool:
    """Whether there is somebody to ask."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())


def _ask_password(user: str) -> str:
    if not is_interactive():
        raise CommandError(
            f"a user ({user}) without a password: give --password-file or --password-stdin, or set PULSE_PASSWORD_FILE",
            ExitCode.AUTH,
        )
    return str(click.prompt(f"password of {user}", hide_input=True, err=True))
