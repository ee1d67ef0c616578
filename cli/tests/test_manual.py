"""docs/cli.md is what the program says about itself."""

import os
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_reference_is_current(stranger: Any) -> None:
    """Run with PULSE_UPDATE_DOCS=1 to write it anew."""
    text = stranger.ok("reference").out
    if os.environ.get("PULSE_UPDATE_DOCS"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text
    for command in ("pulse jobs list", "pulse submit", "pulse save creds", "pulse completion"):
        assert f"\n### {command}\n" in text
