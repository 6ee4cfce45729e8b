"""Writes what was measured: `results.json`, and graphs as SVG that read well on light and dark pages."""

import json

STYLE = """<style>
  text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #24292f }
  .small { font-size: 11px; fill: #57606a } .bar { fill: #2f7d6d } .over { fill: #c2562f } .line { stroke: #8c959f }
  .curve { fill: none; stroke: #2f7d6d; stroke-width: 2 } .other { fill: none; stroke: #8c959f; stroke-width: 2 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .bar { fill: #4fb39d } .over { fill: #e5875f }
    .curve { stroke: #4fb39d } }
</style>"""


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("`", "")


def page(width, height, parts):
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    return "\n".join([begin, STYLE, *parts, "</svg>", ""])


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escaped(words)}</text>'


def budgets(rows):
    """One bar per budget: how much of it is used."""
    left, full, height = 390, 260, 24
    parts = []
    for number, row in enumerate(rows):
        top = 34 + number * height
        length = min(row["used"], 1.8) * full
        kind = "bar" if row["used"] <= 1 else "over"
        parts.append(text(left - 8, top + 13, row["what"], anchor="end"))
        parts.append(f'<rect x="{left}" y="{top}" width="{length:.1f}" height="17" rx="2" class="{kind}"/>')
        parts.append(text(left + length + 6, top + 13, f"{row['used'] * 100:.0f} %", "small"))
    bottom = 34 + len(rows) * height
    parts.append(f'<line x1="{left + full}" y1="26" x2="{left + full}" y2="{bottom}" class="line" stroke-dasharray="3 3"/>')
    parts.append(text(left + full, 18, "budget", "small", "middle"))
    return page(left + int(full * 1.8) + 60, bottom + 8, parts)


def waterfall(spans, total):
    """Spans of (name, begin, end) in milliseconds from the start of the command."""
    left, wide, height = 250, 520, 26
    scale = wide / total
    parts = []
    for number, (name, begin, end) in enumerate(spans):
        top = 10 + number * height
        length = max((end - begin) * scale, 1.5)
        parts.append(text(left - 8, top + 13, name, anchor="end"))
        parts.append(f'<rect x="{left + begin * scale:.1f}" y="{top}" width="{length:.1f}" height="17" rx="2" class="bar"/>')
        parts.append(text(left + end * scale + 6, top + 13, f"{end - begin:.2f} ms", "small"))
    bottom = 10 + len(spans) * height
    for mark in range(0, int(total) + 1, 2 if total > 8 else 1):
        parts.append(text(left + mark * scale, bottom + 14, f"{mark}", "small", "middle"))
    parts.append(text(left - 8, bottom + 14, "milliseconds", "small", "end"))
    return page(left + wide + 80, bottom + 22, parts)


def scale(points):
    """`up` to first `exec` and bwrap, by the number of live workspaces."""
    left, wide, tall = 50, 560, 220
    most, top = points[-1]["live"], max(point["up"] for point in points) * 1.15
    place = lambda live, ms: f"{left + live / most * wide:.1f},{20 + tall - ms / top * tall:.1f}"
    parts = [f'<line x1="{left}" y1="{20 + tall}" x2="{left + wide}" y2="{20 + tall}" class="line"/>']
    for name, kind in [("up", "curve"), ("bwrap", "other")]:
        parts.append(f'<polyline points="{" ".join(place(point["live"], point[name]) for point in points)}" class="{kind}"/>')
    for point in points:
        parts.append(text(left + point["live"] / most * wide, 36 + tall, str(point["live"]), "small", "middle"))
    for share in [0.25, 0.5, 0.75, 1]:
        parts.append(text(left - 6, 24 + tall - share * tall, f"{top * share:.0f}", "small", "end"))
    parts.append(text(left, 14, "milliseconds from `up` to the end of its first `exec`, beside bwrap (grey), by live workspaces", "small"))
    return page(left + wide + 30, tall + 50, parts)


def write(bench, directory):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "results.json").write_text(json.dumps(bench.rows, indent=1, ensure_ascii=False))
    drawn = {}
    if rows := [row for row in bench.rows if row["used"] is not None]:
        drawn["budgets"] = budgets(rows)
    for name, (spans, total) in bench.waterfalls.items():
        drawn[name] = waterfall(spans, total)
    if bench.points:
        drawn["scale"] = scale(bench.points)
    for name, svg in drawn.items():
        (directory / f"{name}.svg").write_text(svg)
    print(f"  written to {directory}: results.json {' '.join(f'{name}.svg' for name in drawn)}")
