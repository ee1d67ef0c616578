"""Saved connections: `~/.config/pulse/config.json`, readable by its owner alone.

{"profiles": {"default": {"addr": "queue:50051", "user": "ops", "password": "...", "tls_ca": "/etc/ssl/ca.pem"}}}
"""

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from pulse_cli.errors import CommandError, ExitCode

DEFAULT = "default"
KEYS = ("addr", "user", "password", "tls", "tls_ca")

Profile = dict[str, Any]


def config_path() -> Path:
    """Where they are saved."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path("~/.config").expanduser()) / "pulse" / "config.json"


def load_profiles(path: Path) -> dict[str, Profile]:
    """Everything in the file, nothing without one. A file that others can read is refused: its secrets are out."""
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno())
            text = file.read()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {getattr(error, 'strerror', None) or error}", ExitCode.USAGE) from None
    if mode.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CommandError(
            f"{path} can be read by others: run `chmod 600 {path}`, and change the passwords in it", ExitCode.AUTH
        )
    try:
        return _check(json.loads(text))
    except ValueError as error:
        raise CommandError(
            f"{path}: {error}; mend it, or remove it and run `pulse save creds`", ExitCode.USAGE
        ) from None


def _check(content: object) -> dict[str, Profile]:
    profiles = content.get("profiles") if isinstance(content, dict) else None
    if not isinstance(profiles, dict):
        raise ValueError('is not of the form {"profiles": {"default": {...}}}')
    for name, profile in profiles.items():
        if not isinstance(profile, dict):
            raise ValueError(f"profile {name!r} is not an object")
        if unknown := profile.keys() - set(KEYS):
            raise ValueError(f"profile {name!r}: unknown {', '.join(sorted(unknown))}; known are {', '.join(KEYS)}")
        for key, value in profile.items():
            if not isinstance(value, bool if key == "tls" else str):
                raise ValueError(f"profile {name!r}: {key} is not {'true or false' if key == 'tls' else 'a string'}")
    return profiles


def save_profile(path: Path, name: str, profile: Profile) -> None:
    """Add or replace one profile: whole or not at all, and never readable by others, not even for a moment."""
    profiles = load_profiles(path) | {name: profile}
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes it 0600; the rename puts it in place in one step.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".config-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"profiles": profiles}, file, indent=2)
                file.write("\n")
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CommandError(f"can't write {path}: {error.strerror or error}") from None
