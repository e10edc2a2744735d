"""Pictures of curves as SVG: both axes logarithmic, a line for each series, its name beside its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 860, 480
LEFT, RIGHT, TOP, BOTTOM = 70, 220, 50, 70
COLOURS = ("#0b62a4", "#58a6d6", "#c0392b", "#d98324", "#666666", "#2e8b57")


@dataclass
class Series:
    """Points of one line, in rising x; `dashed` for bounds."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def size_label(bytes_: float) -> str:
    """4 B, 64 KiB, 1 MiB."""
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if bytes_ >= scale:
            return f"{bytes_ / scale:g} {unit}"
    return f"{bytes_:g} B"


def value_label(value: float) -> str:
    """0.1, 10, 1000, 100k."""
    return f"{value / 1000:g}k" if value >= 10000 else f"{value:g}"


class Plot:
    """The plane of one picture."""

    def __init__(self, series: Sequence[Series]) -> None:
        xs = [x for one in series for x, _ in one.points]
        ys = [y for one in series for _, y in one.points]
        self._x = (math.log(min(xs)), math.log(max(xs)) or 1)
        self.decades = range(math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys))) + 1)
        self.sizes = sorted(set(xs))

    def x(self, value: float) -> float:
        """Pixels from the left."""
        low, high = self._x
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(value) - low) / ((high - low) or 1)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        low, high = self.decades[0], self.decades[-1]
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - math.log10(value)) / ((high - low) or 1)


def _text(x: float, y: float, words: str, anchor: str = "start", colour: str = "#222", size: int = 13) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}" font-size="{size}">{escape(words)}</text>'


def _axes(plot: Plot) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for decade in plot.decades:
        y = plot.y(10.0**decade)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, y + 4, value_label(10.0**decade), "end"))
    every = max(1, math.ceil(len(plot.sizes) / 8))
    for number, size in enumerate(plot.sizes):
        x = plot.x(size)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#eee"/>')
        if number % every == 0:
            parts.append(_text(x, bottom + 18, size_label(size), "middle"))
    return parts


def _lines(plot: Plot, series: Sequence[Series]) -> list[str]:
    parts = []
    # Names stay apart where ends meet.
    ends = sorted((plot.y(one.points[-1][1]), number) for number, one in enumerate(series))
    label_y: dict[int, float] = {}
    last = -math.inf
    for y, number in ends:
        last = max(y, last + 16)
        label_y[number] = last
    for number, one in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        dash = ' stroke-dasharray="6 4"' if one.dashed else ""
        points = " ".join(f"{plot.x(x):.1f},{plot.y(y):.1f}" for x, y in one.points)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{plot.x(x):.1f}" cy="{plot.y(y):.1f}" r="2.5" fill="{colour}"/>' for x, y in one.points]
        parts.append(_text(plot.x(one.points[-1][0]) + 10, label_y[number] + 4, one.name, colour=colour))
    return parts


def draw(path: Path, title: str, unit: str, series: Sequence[Series], source: str) -> None:
    """Writes a picture. x in bytes, y in `unit`, both above 0; `source` is the line below that says where it comes
    from. Series without points are left out."""
    series = [one for one in series if one.points]
    if not series:
        return
    plot = Plot(series)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 28, f"{title}, {unit}", size=16),
        *_axes(plot),
        *_lines(plot, series),
        _text(LEFT, HEIGHT - 18, source, colour="#777", size=11),
        "</svg>",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n")
