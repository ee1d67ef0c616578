"""The program `pulse`: as little as possible before Ctrl-C has a handler."""

import sys


def main() -> None:
    """Run the command line and end with its exit code."""
    try:
        from pulse_cli.program import run

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        # It came while modules were loading: there is nothing to tidy up.
        sys.exit(130)


if __name__ == "__main__":
    main()
