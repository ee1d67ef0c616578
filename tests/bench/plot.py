"""Bars as SVG: enough for a page of figures."""

from html import escape

BAR, GAP, LABEL, WIDTH = 18, 8, 200, 460


def draw_bars(unit: str, values: dict[str, float]) -> str:
    """A bar for each value, its figure beside it."""
    longest = max(values.values())
    height = len(values) * (BAR + GAP) + 40
    rows = []
    for index, (name, value) in enumerate(values.items()):
        top = 30 + index * (BAR + GAP)
        middle = top + BAR - 5
        length = WIDTH * value / longest
        rows.append(
            f'<text x="{LABEL - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{LABEL}" y="{top}" width="{length:.0f}" height="{BAR}" rx="2" fill="#3b6fd4"/>'
            f'<text x="{LABEL + length + 8:.0f}" y="{middle}">{value:,.0f}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LABEL + WIDTH + 90} {height}"'
        f' font-family="system-ui, sans-serif" font-size="12" fill="#555">'
        f'<title>{escape(unit)}</title><text x="{LABEL}" y="18">{escape(unit)}</text>{"".join(rows)}</svg>\n'
    )
