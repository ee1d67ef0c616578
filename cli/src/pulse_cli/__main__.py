"""The program `pulse`."""

import click

from pulse_cli import __version__


@click.group()
@click.version_option(__version__, prog_name="pulse", message="%(prog)s %(version)s")
def main() -> None:
    """Look at a pulse job queue and act on it."""


if __name__ == "__main__":
    main()
