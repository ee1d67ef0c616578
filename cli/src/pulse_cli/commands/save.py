"""`pulse save creds`: keep a connection for later."""

import dataclasses

import click

from pulse_cli.command import ServerCommand, Session, operation
from pulse_cli.connection import DEFAULT_ADDRESS, is_interactive
from pulse_cli.profiles import DEFAULT, config_path, save_profile


@click.group()
def save() -> None:
    """Save settings of this command line."""


@save.command(cls=ServerCommand)
@click.option("--no-check", is_flag=True, help="Save without asking the server whether it lets us in.")
@click.pass_obj
def creds(session: Session, no_check: bool) -> None:
    """Save address and credentials for later commands.

    Flags, and then the environment, say what; on a terminal the rest is asked for. They are kept in
    ~/.config/pulse/config.json, readable by you alone, under the name that --profile gives.
    """
    given = session.given
    name = given.pop("profile", None) or DEFAULT
    if is_interactive():
        _ask(given)
    # What is saved is what was said now: nothing is taken over from an older profile of that name.
    given["_saved"] = {}
    target = session.target
    if not no_check:
        _check(session)
    values = {
        "addr": target.address,
        "user": target.user,
        "password": target.password,
        "tls": target.tls,
        "tls_ca": target.tls_ca,
    }
    path = config_path()
    save_profile(path, name, {key: value for key, value in values.items() if value is not None})
    suffix = "" if name == DEFAULT else f"; use it with --profile {name}"
    session.output.note(f"saved {target.address} as profile {name!r} in {path}{suffix}")
    if not session.output.for_people:
        session.output.record({"profile": name, "path": str(path), "addr": target.address, "user": target.user})


def _ask(given: dict[str, object]) -> None:
    import os

    if not given.get("addr") and not os.environ.get("PULSE_ADDR"):
        given["addr"] = click.prompt("server", default=DEFAULT_ADDRESS, err=True)
    if not given.get("user") and not os.environ.get("PULSE_USER"):
        user = click.prompt("user (empty: none)", default="", show_default=False, err=True)
        given["user"] = user or None


@operation
async def _check(session: Session) -> None:
    async with session.client() as client:
        await client.server_info()


__all__ = ["dataclasses", "save"]
