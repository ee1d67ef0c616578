"""The distribution."""

from importlib.metadata import version

import pulse_ui


def test_it_says_its_version() -> None:
    assert pulse_ui.__version__ == version("pulse-ui")
