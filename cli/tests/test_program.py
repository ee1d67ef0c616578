"""The program as a user starts it."""

import subprocess
import sys


def test_it_says_its_version() -> None:
    done = subprocess.run([sys.executable, "-m", "pulse_cli", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "pulse 0.1.0\n"
