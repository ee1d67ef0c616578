"""Runs the chaos suite: once, or with fresh seeds until time is over.

    python tests/chaos/run.py [--hours HOURS] [--seed SEED] [arguments of pytest]

With --hours every round has the long sizes and the next seed; the first failure ends it.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from itertools import count
from pathlib import Path


def main() -> int:
    """The exit code of the last round."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--hours", type=float, default=0)
    parser.add_argument("--seed", type=int, default=os.environ.get("PULSE_CHAOS_SEED") or random.randrange(10**6))
    arguments, rest = parser.parse_known_args()
    ends_at = time.monotonic() + arguments.hours * 3600
    for seed in count(arguments.seed):
        command = [sys.executable, "-m", "pytest", "--numprocesses=2", str(Path(__file__).parent), f"--seed={seed}"]
        code = subprocess.run([*command, *(["--long"] if arguments.hours else []), *rest]).returncode
        if code != 0 or time.monotonic() >= ends_at:
            return code
    raise AssertionError("there is always another seed")


if __name__ == "__main__":
    sys.exit(main())
