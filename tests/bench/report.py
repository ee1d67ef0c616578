"""Writes the figures of docs/benchmarks/*.json into the tables of docs/benchmarks.md: `python -m bench.report`."""

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "benchmarks.md"
SLOWEST_PAGES = 12


def own_table() -> str:
    """What loadgen measured."""
    saved = json.loads((DOCS / "benchmarks" / "loadgen.json").read_text())
    conditions = ", ".join(f"{name} {value}" for name, value in saved["conditions"].items())
    lines = [conditions, "", "| what | figures |", "| --- | --- |"]
    for group, measured in saved["figures"].items():
        for name, figures in measured.items():
            shown = ", ".join(f"{write(value)} {unit}" for unit, value in figures.items())
            lines.append(f"| {group}: {name} | {shown} |")
    return "\n".join(lines)


def peers_table() -> str:
    """What the harness measured, and pulse's ratio to the fastest Python peer in the same run."""
    saved = json.loads((DOCS / "benchmarks" / "peers.json").read_text())
    columns = {
        "one by one /s": ("w1", "enqueue_one_per_s"),
        "in bulk /s": ("w1", "enqueue_bulk_per_s"),
        "one worker drains /s": ("w1", "per_s"),
        "p50 ms": ("w2", "p50_ms"),
        "p99 ms": ("w2", "p99_ms"),
        "500k waiting /s": ("w3", "per_s"),
    }
    lines = [f"| | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]

    def row(name: str, values: list[str]) -> None:
        lines.append(f"| {name} | {' | '.join(values)} |")

    def figure(peer: dict[str, Any], place: tuple[str, str]) -> float:
        return float(peer[place[0]][place[1]])

    for name, peer in saved["peers"].items():
        row(name, [write(figure(peer, place)) for place in columns.values()])
    peers = saved["peers"]
    for other in ("pgqueuer", "graphile-worker"):
        ratios = [figure(peers["pulse"], place) / figure(peers[other], place) for place in columns.values()]
        row(f"pulse / {other}", [f"{ratio:.2f}" for ratio in ratios])
    return "\n".join(lines)


def dashboard_table() -> str:
    """How long the slowest pages of the dashboard took."""
    saved = json.loads((DOCS / "benchmarks" / "dashboard.json").read_text())
    slowest = sorted(saved["pages"].items(), key=lambda page: -page[1]["p95"])[:SLOWEST_PAGES]
    lines = [
        f"{len(saved['pages'])} pages and questions, {saved['jobs']:,} jobs; the slowest:",
        "",
        "| page | p50 ms | p95 ms |",
        "| --- | ---: | ---: |",
    ]
    lines += [f"| {name} | {write(times['p50'])} | {write(times['p95'])} |" for name, times in slowest]
    return "\n".join(lines)


def write(value: float) -> str:
    """With as many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def main() -> None:
    """Rewrite the page."""
    text = PAGE.read_text()
    tables = {"loadgen": own_table(), "peers": peers_table(), "dashboard": dashboard_table()}
    for name, table in tables.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*(<!-- end of {name} -->)", re.DOTALL)
        before, after = marked.search(text), f"{table}\n"
        assert before is not None, f"{PAGE} has no place for {name}"
        text = text[: before.end(1)] + after + text[before.start(2) :]
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
