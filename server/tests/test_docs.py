"""The documentation says what the program does."""

import os
from datetime import timedelta
from pathlib import Path

from pulsed.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
ROW = "| `PULSE_{name}` | {default} | {description} |"


def shown(default: object) -> str:
    """A default as people write it."""
    if default is None or default == {}:
        return "unset"
    if isinstance(default, timedelta):
        seconds = default.total_seconds()
        if seconds < 1:
            return f"`{seconds * 1000:g}ms`"
        return f"`{default.days}d`" if default.days else f"`{seconds:g}s`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_the_settings_page_lists_every_setting_as_it_is() -> None:
    """Run with PULSE_UPDATE_DOCS=1 to write the table anew."""
    rows = [
        ROW.format(name=name.upper(), default=shown(field.get_default()), description=field.description)
        for name, field in Settings.model_fields.items()
    ]
    page = PAGE.read_text()
    start, end = "| --- | --- | --- |\n", "\n<!-- end of the table -->"
    before, rest = page.split(start)
    after = rest[rest.index(end) :]
    expected = before + start + "\n".join(rows) + "\n" + after
    if os.environ.get("PULSE_UPDATE_DOCS"):
        PAGE.write_text(expected)
    assert PAGE.read_text() == expected
