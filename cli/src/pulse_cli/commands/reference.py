"""`pulse reference`: the manual, written by the program itself. docs/cli.md is its output."""

import click

from pulse_cli.command import Session


@click.command(hidden=True)
@click.pass_context
def reference(ctx: click.Context) -> None:
    """Print the reference of all commands, in Markdown."""
    from pulse_cli.manual import render

    session = ctx.find_object(Session)
    root = ctx.find_root().command
    assert session is not None
    assert isinstance(root, click.Group)
    session.output.write(render(root))
