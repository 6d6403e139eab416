"""Draws kept results: `python -m strandline_lab.bench.scale.pictures RESULTS FOLDER`, an SVG a dimension.

Both axes are logarithmic, so a cost that grows as size**k is a straight line of slope k. A dashed line has
the slope of n log n. Colours are legible on a light and on a dark page.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import cycle
from math import ceil, floor, log, log10
from pathlib import Path
from typing import Final

from strandline_lab.bench.scale import results
from strandline_lab.bench.scale.curves import DIMENSIONS
from strandline_lab.bench.scale.series import Dimension, Step

WIDTH: Final = 720
PLOT: Final = (60, 40, 640, 280)
"""Left, top, width and height of the part with the lines."""
LEGEND_ROW: Final = 18
COLOURS: Final = (
    *("#0a84c6", "#d9822b", "#2f9e5b", "#c2459a", "#8a63d2", "#b58a00"),
    *("#d64545", "#4f9aa8", "#7d8a2e", "#3f63e0", "#a0603c", "#00a88f"),
)
GREY: Final = "#8a8f98"

Point = tuple[float, float]


def picture(dimension: Dimension, steps: Sequence[Step]) -> str:
    """The lines of all costs of one dimension, as SVG. `steps` has at least two, by size."""
    costs = [(name, figure.head) for name, figure in dimension.figures.items() if figure.total]
    drawn = [
        (head, [(float(step.size), step.figures[name]) for step in steps if step.figures[name] > 0])
        for name, head in costs
    ]
    lines = [(head, points) for head, points in drawn if len(points) > 1]
    values = [value for _, points in lines for _, value in points]
    low, high = 10.0 ** floor(log10(min(values))), 10.0 ** ceil(log10(max(values)))
    place = _placing((steps[0].size, steps[-1].size), (low, high))
    height = PLOT[1] + PLOT[3] + 44 + LEGEND_ROW * (len(lines) + 1)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'font-family="sans-serif" font-size="12" fill="{GREY}">',
            f'<text x="{PLOT[0]}" y="22" font-size="15">{escape(dimension.title)}</text>',
            *_grid(steps, low, high, place),
            *_bar(steps, low, high, place),
            *_lines(lines, place),
            "</svg>\n",
        ]
    )


def _placing(sizes: tuple[float, float], values: tuple[float, float]) -> Callable[[Point], Point]:
    left, top, width, height = PLOT

    def place(point: Point) -> Point:
        x = log(point[0] / sizes[0]) / log(sizes[1] / sizes[0])
        y = log(point[1] / values[0]) / log(values[1] / values[0])
        return left + width * x, top + height * (1 - y)

    return place


def _grid(steps: Sequence[Step], low: float, high: float, place: Callable[[Point], Point]) -> Iterator[str]:
    left, top, width, height = PLOT
    for power in range(round(log10(low)), round(log10(high)) + 1):
        _, y = place((steps[0].size, 10.0**power))
        yield f'<path d="M{left} {y:.1f}h{width}" stroke="{GREY}" stroke-opacity=".3"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>'
    for step in steps:
        x, _ = place((step.size, low))
        yield f'<path d="M{x:.1f} {top}v{height}" stroke="{GREY}" stroke-opacity=".3"/>'
        yield f'<text x="{x:.1f}" y="{top + height + 16}" text-anchor="middle">{step.size:,}</text>'


def _bar(steps: Sequence[Step], low: float, high: float, place: Callable[[Point], Point]) -> Iterator[str]:
    """The slope of n log n, through the middle of the plot's bottom."""
    first, last = steps[0].size, steps[-1].size
    growth = (last * log(last)) / (first * log(first))
    begin = max(low, (low * high / growth) ** 0.5)
    share = min(1.0, log(high / begin) / log(growth))  # of it is below the plot's top
    ends = [(first, begin), (first * (last / first) ** share, begin * growth**share)]
    yield f'<path d="{_path(list(map(place, ends)))}" stroke="{GREY}" stroke-dasharray="5 4" fill="none"/>'


def _lines(lines: Sequence[tuple[str, Sequence[Point]]], place: Callable[[Point], Point]) -> Iterator[str]:
    row = PLOT[1] + PLOT[3] + 44
    for (head, points), colour in zip(lines, cycle(COLOURS), strict=False):
        placed = [place(point) for point in points]
        yield f'<path d="{_path(placed)}" stroke="{colour}" stroke-width="2" fill="none"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed)
        yield f'<path d="M{PLOT[0]} {row - 4}h18" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{PLOT[0] + 26}" y="{row}">{escape(head)}</text>'
        row += LEGEND_ROW
    yield f'<path d="M{PLOT[0]} {row - 4}h18" stroke="{GREY}" stroke-dasharray="5 4"/>'
    yield f'<text x="{PLOT[0] + 26}" y="{row}">slope of n log n</text>'


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def main() -> None:
    """Draws every dimension that has two steps."""
    kept, folder = results.load(Path(sys.argv[1])), Path(sys.argv[2])
    for name, steps in kept.items():
        if len(steps) > 1:
            (folder / f"scale-{name}.svg").write_text(picture(DIMENSIONS[name], steps))


if __name__ == "__main__":
    main()
