"""How commands are made: found without being loaded, with the common options, run to an exit code."""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from pulse_cli.errors import CommandError, translate
from pulse_cli.parameters import Duration

if TYPE_CHECKING:
    import pulse
    from pulse_cli.connection import Target
    from pulse_cli.output import Output

P = ParamSpec("P")

FORMATS = ("table", "json", "jsonl")


class Session:
    """What one run of the program knows: the common options, from before the command and from after it."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    @functools.cached_property
    def output(self) -> "Output":
        """Where data and messages go."""
        from pulse_cli.output import Output

        return Output(self.given.get("output", "table"))

    @functools.cached_property
    def target(self) -> "Target":
        """Which server, as whom."""
        from pulse_cli.connection import resolve

        return resolve(self.given)

    @asynccontextmanager
    async def client(self) -> AsyncIterator["pulse.Pulse"]:
        """A client; what goes wrong with its calls becomes one line and an exit code."""
        import pulse

        client = self.target.client()
        try:
            async with client:
                yield client
        except pulse.PulseError as error:
            raise self.translate(error, client) from error

    def translate(self, error: "pulse.PulseError", client: "pulse.Pulse") -> CommandError:
        """One line and an exit code, where a command goes on after the error."""
        return translate(error, client.address, self.target.timeout.total_seconds())


def operation(function: Callable[Concatenate[Session, P], Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A coroutine function as the body of a command; it gets the session first."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        import asyncio

        session = click.get_current_context().find_object(Session)
        assert session is not None
        asyncio.run(function(session, *args, **kwargs))

    return run


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Common options work before and after the command's name; the nearer one wins."""
    session = ctx.find_object(Session)
    if session is not None and value is not None:
        session.given[param.name] = value


def _option(*names: str, **attributes: Any) -> click.Option:
    return click.Option(names, expose_value=False, callback=_remember, default=None, **attributes)


def output_option() -> click.Option:
    """-o."""
    return _option("-o", "--output", type=click.Choice(FORMATS), help="How to print data. Default: table.")


def connection_options() -> list[click.Option]:
    """Which server, as whom."""
    return [
        _option("--addr", metavar="HOST:PORT", help="The server. PULSE_ADDR; default: localhost:50051."),
        _option("--user", metavar="NAME", help="The user. PULSE_USER."),
        _option("--password-file", metavar="FILE", help="A file with the password. PULSE_PASSWORD_FILE."),
        _option("--password-stdin", is_flag=True, flag_value=True, help="Read the password from standard input."),
        _option("--password", metavar="TEXT", help="The password, for others to see; rather use one of the above."),
        _option("--tls/--no-tls", help="Use TLS, checked by the system's authorities. PULSE_TLS."),
        _option("--tls-ca", metavar="FILE", help="Use TLS, checked by this authority. PULSE_TLS_CA."),
        _option("--profile", metavar="NAME", help="A saved connection. PULSE_PROFILE; default: default."),
        _option("--timeout", type=Duration(), help="How long one call may take. Default: 10s."),
    ]


class LocalCommand(click.Command):
    """A command that needs no server. What all commands share is listed apart from what is its own."""

    _common: list[click.Option] | None = None

    def common_options(self) -> list[click.Option]:
        """The options that it shares with others."""
        return [output_option()]

    def common(self) -> list[click.Option]:
        """Those of them that it has no option of its own for; made once, because click compares by identity."""
        if self._common is None:
            taken = {name for parameter in self.params for name in parameter.opts}
            self._common = [option for option in self.common_options() if taken.isdisjoint(option.opts)]
        return self._common

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *self.common()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, chosen in (("Options", False), ("Common options", True)):
            records = [
                record
                for parameter in self.get_params(ctx)
                if isinstance(parameter, click.Option) and (parameter in self.common()) is chosen
                if (record := parameter.get_help_record(ctx)) is not None
            ]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class ServerCommand(LocalCommand):
    """A command that talks to the server."""

    def common_options(self) -> list[click.Option]:
        return [output_option(), *connection_options()]


class LazyGroup(click.Group):
    """A group that loads the module of a command when that command is asked for.

    `lazy` says for each command where it is and, where the group's help must be quick, its summary.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *self._lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, name = self._lazy[cmd_name][0].partition(":")
        command = getattr(import_module(f"pulse_cli.commands.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Click would load every command for the first sentence of its help.
        commands = ((name, super(LazyGroup, self).get_command(ctx, name)) for name in self.commands)
        own = [(name, command.get_short_help_str(100)) for name, command in commands if command is not None]
        lazy = [(name, summary) for name, (_, summary) in self._lazy.items() if summary]
        with formatter.section("Commands"):
            formatter.write_dl([*own, *lazy])
