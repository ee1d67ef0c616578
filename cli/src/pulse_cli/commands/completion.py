"""`pulse completion`: scripts for shells."""

import click

from pulse_cli.command import Session

SHELLS = ("bash", "zsh", "fish")
HINTS = {
    "bash": 'eval "$(pulse completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(pulse completion zsh)"  # in ~/.zshrc, after compinit',
    "fish": "pulse completion fish > ~/.config/fish/completions/pulse.fish",
}


@click.command(epilog="\b\n" + "\n".join(HINTS.values()))
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands in a shell."""
    from click.shell_completion import get_completion_class

    session = ctx.find_object(Session)
    found = get_completion_class(shell)
    assert session is not None
    assert found is not None
    session.output.write(found(ctx.find_root().command, {}, "pulse", "_PULSE_COMPLETE").source() + "\n")
