"""Seeds, sizes and figures of the chaos runs.

--seed N        decide as in an earlier run; a failure names its seed. Also PULSE_CHAOS_SEED
--long          the sizes that take hours
--figures PAGE  write the figures into this page, between its markers
"""

import os
import platform
import random
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from chaos.postgres import Cluster
from chaos.system import Storm

MARKED = re.compile(r"(?<=<!-- figures -->\n).*(?=<!-- end of the figures -->)", re.DOTALL)
# What a failure shows of each program's log.
LAST_WORDS = 3000


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos")
    group.addoption("--seed", type=int, default=os.environ.get("PULSE_CHAOS_SEED"), help="decide as in an earlier run")
    group.addoption("--long", action="store_true", help="the sizes that take hours")
    group.addoption("--figures", type=Path, help="write the figures into this page, between its markers")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.seed is None:
        config.option.seed = random.randrange(1, 10**6)


def pytest_report_header(config: pytest.Config) -> str:
    return f"chaos: --seed {config.option.seed}"


@pytest.fixture
def storm(request: pytest.FixtureRequest, tmp_path: Path) -> Storm:
    """The test's share of chance."""
    options = request.config.option
    return Storm(options.seed, tmp_path, options.long, random.Random(f"{options.seed} {request.node.name}"))


@pytest.fixture
async def cluster(storm: Storm) -> AsyncIterator[Cluster]:
    """A Postgres of the test's own."""
    async with Cluster(storm.directory / "postgres") as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A report carries the figures; a failure also its seed and what the programs said last."""
    storm = getattr(item, "funcargs", {}).get("storm")
    if storm is not None and call.when == "call":
        item.user_properties += storm.figures.items()
    report = yield
    if storm is not None and report.failed:
        again = f"python3 noxfile.py -s chaos -- --seed {storm.seed} {'--long ' if storm.long else ''}-k '{item.name}'"
        report.sections.append(("play it again", again))
        for log in sorted(storm.directory.glob("*.log")):
            report.sections.append((log.name, log.read_text(errors="replace")[-LAST_WORDS:]))
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The figures as the table that docs/reliability.md shows."""
    passed = [report for report in terminalreporter.getreports("passed") if report.user_properties]
    if not passed:
        return
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    conditions = f"{day}, seed {config.option.seed}, {os.cpu_count()} cores, Python {platform.python_version()}"
    lines = [conditions + (", long" if config.option.long else ""), ""]
    lines += ["| fault | seconds | figures |", "| --- | --- | --- |"]
    for report in passed:
        name = report.nodeid.rpartition("::")[2].removeprefix("test_").replace("_", " ")
        figures = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in report.user_properties)
        lines.append(f"| {name} | {report.duration:.0f} | {figures} |")
    terminalreporter.write_sep("=", "figures")
    terminalreporter.write_line("\n".join(lines))
    if (page := config.option.figures) is not None:
        table = "\n".join(lines) + "\n"
        page.write_text(MARKED.sub(lambda _: table, page.read_text()))
