"""`pulse save creds`: keep a connection for later."""

import os
from pathlib import Path
from typing import Any

import click

from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.connection import DEFAULT_ADDRESS, is_interactive, resolve
from pulse_cli.profiles import DEFAULT, config_path, save_profile


@click.group()
def save() -> None:
    """Save address and credentials."""


@save.command(cls=ServerCommand)
@click.option("--no-check", is_flag=True, help="Save without asking the server whether it lets us in.")
@click.pass_obj
def creds(session: Session, no_check: bool) -> None:
    """Save address and credentials for later commands.

    Flags, and then the environment, say what; on a terminal the rest is asked for. They are kept in
    ~/.config/pulse/config.json, readable by you alone, under the name that --profile gives.
    """
    given = session.given
    name = given.get("profile") or os.environ.get("PULSE_PROFILE") or DEFAULT
    if is_interactive():
        _ask(given)
    # What is saved is what was said now: nothing is taken over from an older profile.
    session.target = target = resolve(given, with_profile=False)
    if not no_check:
        _check()
    values = {
        "addr": target.address,
        "user": target.user,
        "password": target.password,
        "tls": target.tls,
        # Later commands may run in another directory.
        "tls_ca": str(Path(target.tls_ca).absolute()) if target.tls_ca else None,
    }
    path = config_path()
    save_profile(path, name, {key: value for key, value in values.items() if value is not None})
    suffix = "" if name == DEFAULT else f"; use it with --profile {name}"
    session.output.note(f"saved {target.address} as profile {name!r} in {path}{suffix}")
    if not session.output.for_people:
        session.output.record({"profile": name, "path": str(path), "addr": target.address, "user": target.user})


def _ask(given: dict[str, Any]) -> None:
    if not given.get("addr") and not os.environ.get("PULSE_ADDR"):
        given["addr"] = click.prompt("server", default=DEFAULT_ADDRESS, err=True)
    if not given.get("user") and not os.environ.get("PULSE_USER"):
        user = click.prompt("user (empty: none)", default="", show_default=False, err=True)
        given["user"] = user or None


@operation
async def _check(session: Session) -> None:
    async with session.client() as client:
        await client.server_info()
