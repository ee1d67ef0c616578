"""Run in an environment with nothing but the SDK's wheel: what did `pip install` bring?

An application takes all of it into its own environment. So there is no database driver, no web
framework, no CLI library and no Postgres in it, and it grows only when somebody adds a line here.
"""

import importlib
import sys
from importlib import metadata

EXPECTED = {
    "pulse-sdk",
    "pulse-gen",
    # Messages.
    "betterproto2",
    "python-dateutil",
    "six",
    "tzdata",
    "typing-extensions",
    # gRPC.
    "grpclib",
    "h2",
    "hpack",
    "hyperframe",
    "multidict",
    # Arguments of tasks.
    "annotated-types",
    "pydantic",
    "pydantic-core",
    "typing-inspection",
    # Not ours: every environment may have them.
    "pip",
    "setuptools",
}


def main() -> int:
    """Return the exit status."""
    importlib.import_module("pulse")
    installed = {each.metadata["Name"].lower().replace("_", "-") for each in metadata.distributions()}
    print("the SDK needs:", ", ".join(sorted(installed - {"pip", "setuptools"})))
    if unexpected := installed - EXPECTED:
        print("pulse-sdk has new dependencies:", ", ".join(sorted(unexpected)), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
