"""The program `pulse-ui`."""

import argparse

from pulse_ui import __version__


def main() -> None:
    """There is nothing to serve yet: the program only knows its version."""
    parser = argparse.ArgumentParser(prog="pulse-ui", description="The dashboard of pulse (not built yet).")
    parser.add_argument("--version", action="version", version=f"pulse-ui {__version__}")
    parser.parse_args()
    parser.error("the dashboard is not built yet")


if __name__ == "__main__":
    main()
