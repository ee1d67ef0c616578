"""The accessibility scan."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

SOURCE = (Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
# `preload` would fetch style sheets, which the browser has read already.
RUN = "axe.run({resultTypes: ['violations'], preload: false})"


def serious_findings(page: Page) -> list[str]:
    """What axe takes for serious or critical on this page, each with the elements it is about."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(SOURCE)  # from outside: the page's policy lets no such script in
    violations = page.evaluate(RUN)["violations"]
    return [_describe(each) for each in violations if each["impact"] in ("serious", "critical")]


def _describe(violation: dict[str, Any]) -> str:
    places = [f"    {node['target'][0]}: {node['failureSummary']}" for node in violation["nodes"]]
    return "\n".join([f"{violation['id']} ({violation['impact']}): {violation['help']}", *places])
