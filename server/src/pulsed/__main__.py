"""The program `pulsed`: serve, migrate, check."""

import argparse
import logging
import sys
import textwrap
from collections.abc import Sequence

import uvloop

from pulsed import __version__
from pulsed.app import run_app
from pulsed.auth import parse_users
from pulsed.errors import PulsedError, first_error
from pulsed.logs import configure_logging
from pulsed.migrations import check, migrate, status
from pulsed.processes import rest_collector, run_processes, stop_signal
from pulsed.settings import Settings, load_settings
from pulsed.store import connected, open_store
from pulsed.tls import load_tls

logger = logging.getLogger("pulsed")

EPILOG = "Every option can also be set as PULSE_NAME in the environment, PULSE_GRPC_ADDR for one."


def make_parser() -> argparse.ArgumentParser:
    """The command line: one option for each setting."""
    options = argparse.ArgumentParser(add_help=False)
    group = options.add_argument_group("settings")
    described = describe_settings()
    for name, text in described.items():
        group.add_argument(f"--{name.replace('_', '-')}", metavar="VALUE", help=text.replace("%", "%%"))
    parser = argparse.ArgumentParser(
        prog="pulsed",
        description="The server of the pulse job queue. Without a command it serves.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="settings, in the environment or as options such as --grpc-addr:\n"
        + "\n".join(
            textwrap.fill(f"PULSE_{name.upper():<20} {text}", 100, initial_indent="  ", subsequent_indent=" " * 29)
            for name, text in described.items()
        ).replace("%", "%%"),
    )
    parser.add_argument("--version", action="version", version=f"pulsed {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in (
        ("serve", "run the server; with the embedded Postgres it migrates by itself"),
        ("migrate", "bring the database's schema up to date"),
        ("check", "check settings, database and schema, and say what is wrong"),
    ):
        command = commands.add_parser(name, help=text, description=text, epilog=EPILOG, parents=[options])
        if name == "migrate":
            command.add_argument("--status", action="store_true", help="only say what is applied and what is missing")
    return parser


def describe_settings() -> dict[str, str]:
    """What each setting is for, and its default."""
    described = {}
    for name, field in Settings.model_fields.items():
        default = field.get_default()
        shown = "" if default in (None, {}) else f" [{_show(default)}]"
        described[name] = f"{field.description}{shown}"
    return described


def _show(default: object) -> str:
    total_seconds = getattr(default, "total_seconds", None)
    return f"{total_seconds():g}s" if total_seconds else str(default)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program; whatever stops it is one line on standard error and a non-zero exit."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] not in ("serve", "migrate", "check", "-h", "--help", "--version"):
        arguments = ["serve", *arguments]
    flags = vars(make_parser().parse_args(arguments))
    command, status = flags.pop("command"), flags.pop("status", False)
    try:
        settings = load_settings(**flags)
        configure_logging(settings.log_level)
        match command:
            case "serve":
                uvloop.run(serve(settings))
            case "migrate":
                uvloop.run(migrate_database(settings, status_only=status))
            case _:
                uvloop.run(check_database(settings))
    except* PulsedError as group:
        sys.exit(f"pulsed: {first_error(group)}")
    except* KeyboardInterrupt:
        sys.exit(130)


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT."""
    stop = stop_signal()
    async with open_store(settings) as store:
        if settings.processes > 1:
            async with run_processes(settings, store.dsn):
                await store.run_until(stop)
            return
        async with run_app(settings, store.dsn) as app:
            rest_collector()
            logger.info("serving", extra={"port": app.port, "version": __version__})
            await store.run_until(stop)
            logger.info("stopping")


async def migrate_database(settings: Settings, *, status_only: bool) -> None:
    """Applies what is missing, or says what that would be."""
    async with open_store(settings, prepare=False) as store, connected(store.dsn) as connection:
        if status_only:
            found = await status(connection)
            for row in found.applied:
                print(f"{row.version:04}_{row.name}  applied {row.applied_at:%Y-%m-%d %H:%M:%S}Z")
            for migration in found.pending:
                print(f"{migration.version:04}_{migration.name}  pending")
            return
        applied = await migrate(connection)
        for migration in applied:
            print(f"{migration.version:04}_{migration.name}  applied now")
        print("the schema is up to date")


async def check_database(settings: Settings) -> None:
    """Says that settings, database and schema are fine; what is not is an error."""
    load_tls(settings)
    if settings.auth_users is not None:
        parse_users(settings.auth_users.get_secret_value())
    async with open_store(settings, prepare=False) as store, connected(store.dsn) as connection:
        await check(connection)
    print("settings, database and schema are fine")


if __name__ == "__main__":
    main()
