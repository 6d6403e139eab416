"""Charts of the jobs' results, as PNG files. They are drawn from rows, without a display."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pyspark.sql import Row

LANES_MAX: Final = 48
"""Partitions in one chart: more are not distinguishable."""
OWNERS_NAMED_MAX: Final = 12
_DOTS_PER_INCH: Final = 150
_COLOURS: Final = (
    "#4477aa", "#ee8866", "#228833", "#aa3377", "#66ccee", "#ccbb44", "#775544", "#9988cc", "#44aa99",
    "#dd99bb",
)  # fmt: skip
_GREY: Final = "#8a8f98"
_RED: Final = "#d01c1c"
_FAINT: Final = "#e6e8ec"


# --- lifecycle -------------------------------------------------------------------------------


def lifecycle_chart(
    path: Path, latencies: Sequence[Row], backlog: Sequence[Row], unended: int, now_ms: int
) -> None:
    """The upper chart has the number of waiting requests of each broker over time; the lower one their
    durations.

    `latencies` and `backlog` are rows of the functions of these names in `lifecycle`, `unended` is the number
    of requests without an end. Raises OSError if the file cannot be written.
    """
    rows = [row for row in latencies if row.total_max_ms is not None]
    brokers = sorted({row.broker for row in (*latencies, *backlog)})
    colours = dict(zip(brokers, _cycle(len(brokers)), strict=True))
    figure, (above, below) = _figure(2, 3.4, 1.4 + 0.34 * max(4, len(rows)))
    open_ones = f", {unended} without an end" if unended else ""
    figure.suptitle(f"State changes: {sum(row.requests for row in latencies)} requests{open_ones}")
    _draw_backlog(above, backlog, colours, now_ms if unended else None)
    _draw_latencies(below, rows, colours)
    _save(figure, path)


def _draw_backlog(axes: Axes, backlog: Iterable[Row], colours: Mapping[int, str], now_ms: int | None) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("requests that wait, by broker", loc="left", fontsize=11)
    by_broker = groupby(sorted(backlog, key=lambda row: (row.broker, row.at_ms)), lambda row: row.broker)
    for broker, steps in by_broker:
        points = [(row.at_ms, row.waiting) for row in steps]
        if now_ms is not None and points[-1][1]:
            points.append((max(now_ms, points[-1][0]), points[-1][1]))
        times = _times([points[0][0], *(at for at, _ in points)])
        waiting = [0, *(count for _, count in points)]
        axes.step(
            times, waiting, where="post", color=colours[broker], linewidth=1.4, label=f"broker {broker}"
        )
        axes.fill_between(times, waiting, step="post", color=colours[broker], alpha=0.12, linewidth=0)
    if not axes.lines:
        _say(axes, "nothing ever waited")
        return
    _time_axis(axes)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    axes.legend(loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False)


def _draw_latencies(axes: Axes, rows: Sequence[Row], colours: Mapping[int, str]) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_title("from request to completion: p50 ●, p95 |, max ○", loc="left", fontsize=11)
    if not rows:
        _say(axes, "nothing was completed")
        return
    for lane, row in enumerate(rows):
        # A logarithmic scale has no zero.
        half, most_of_all, longest = (
            max(value, 0.5) for value in (row.total_p50_ms, row.total_p95_ms, row.total_max_ms)
        )
        colour = colours[row.broker]
        axes.plot([half, longest], [lane, lane], color=colour, linewidth=1.2, alpha=0.45)
        axes.plot([half, most_of_all], [lane, lane], color=colour, linewidth=4, alpha=0.45)
        axes.plot(half, lane, "o", color=colour, markersize=7)
        axes.plot(most_of_all, lane, "|", color=colour, markersize=12, markeredgewidth=2)
        axes.plot(longest, lane, "o", color=colour, markersize=6, markerfacecolor="white")
    axes.set_yticks(
        range(len(rows)), [f"broker {row.broker}  {row.command}  ×{row.completed}" for row in rows]
    )
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
    axes.xaxis.set_major_formatter(lambda value, _: _duration(value))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x", color=_FAINT)


# --- ownership -------------------------------------------------------------------------------


def ownership_chart(
    path: Path,
    timeline: Sequence[Row],
    overlaps: Sequence[Row],
    rebalances: Sequence[Row],
    last_ms: int,
) -> None:
    """A lane for each partition with its owners over time; it is empty without an owner, and red with two.
    Rebalances are shaded.

    The arguments are rows of the functions of these names in `ownership`, and the time of the last event.
    Only the first LANES_MAX partitions are drawn. Raises OSError if the file cannot be written.
    """
    names = sorted({(row.group, row.topic, row.partition) for row in timeline})
    lanes = {name: lane for lane, name in enumerate(names[:LANES_MAX])}
    shown = [row for row in timeline if _lane_of(row) in lanes]
    owners = list(dict.fromkeys(row.owner for row in sorted(shown, key=lambda row: row.from_ms or 0)))
    colours = dict(zip(owners, _cycle(len(owners)), strict=True))
    figure, (axes,) = _figure(1, 1.5 + 0.3 * max(4, len(lanes)))
    groups = sorted({row.group for row in shown})
    left_out = f", {len(names) - len(lanes)} partitions left out" if len(names) > len(lanes) else ""
    figure.suptitle(f"Owners of partitions: {', '.join(groups) or 'no group'}{left_out}")
    if not lanes:
        _say(axes, "no partition ever had an owner")
        _save(figure, path)
        return
    known = [row.from_ms for row in shown if row.from_ms is not None]
    first_ms = min(known, default=last_ms)
    _draw_rebalances(axes, rebalances, lanes, first_ms)
    for row in shown:
        begin, end = row.from_ms or first_ms, row.to_ms or last_ms
        _bar(axes, lanes[_lane_of(row)], begin, end, color=colours[row.owner], height=0.62)
        if row.ended in ("lost", "member_left"):
            axes.plot(_times([end]), [lanes[_lane_of(row)]], "x", color=_RED, markersize=6, zorder=4)
    for row in overlaps:
        if _lane_of(row) in lanes:
            lane = lanes[_lane_of(row)]
            style = {"facecolor": _RED, "edgecolor": _RED, "height": 0.95, "alpha": 0.75, "linewidth": 2}
            _bar(axes, lane, row.from_ms, row.to_ms or last_ms, zorder=5, **style)
    _label_lanes(axes, lanes, groups)
    _legend(axes, colours, bool(overlaps), any(row.ended in ("lost", "member_left") for row in shown))
    _save(figure, path)


_Lane = tuple[str, str, int]


def _lane_of(row: Row) -> _Lane:
    return (row.group, row.topic, row.partition)


def _draw_rebalances(
    axes: Axes, rebalances: Iterable[Row], lanes: Mapping[_Lane, int], first_ms: int
) -> None:
    """Shades the rebalances behind the lanes of their groups."""
    for row in rebalances:
        own = [lane for name, lane in lanes.items() if name[0] == row.group]
        if own and row.from_ms >= first_ms:
            begin, end = _times([row.from_ms, row.to_ms or row.from_ms])
            height = (min(own) - 0.5, max(own) + 0.5)
            axes.fill_betweenx(height, begin, end, color=_GREY, alpha=0.25, linewidth=0.6, zorder=0)


def _bar(axes: Axes, lane: int, begin_ms: int, end_ms: int, **style: Any) -> None:
    begin, end = _times([begin_ms, max(end_ms, begin_ms)])
    axes.barh(lane, end - begin, left=begin, **style)


def _label_lanes(axes: Axes, lanes: Mapping[_Lane, int], groups: Sequence[str]) -> None:
    many = len(groups) > 1
    labels = [f"{group}  {topic}-{number}" if many else f"{topic}-{number}" for group, topic, number in lanes]
    axes.set_yticks(list(lanes.values()), labels)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.grid(axis="x", color=_FAINT)
    _time_axis(axes)


def _legend(axes: Axes, colours: Mapping[str, str], overlaps: bool, vanished: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    owners = list(colours.items())
    named = owners[:OWNERS_NAMED_MAX]
    handles: list[Any] = [Patch(color=colour, label=_short(owner)) for owner, colour in named]
    if len(owners) > OWNERS_NAMED_MAX:
        handles.append(Patch(alpha=0, label=f"and {len(owners) - OWNERS_NAMED_MAX} more"))
    handles.append(Patch(color=_GREY, alpha=0.25, label="rebalance"))
    if vanished:
        handles.append(Line2D([], [], color=_RED, marker="x", linestyle="", label="lost"))
    if overlaps:
        handles.append(Patch(color=_RED, alpha=0.75, label="two owners"))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False)


# --- shared ------------------------------------------------------------------------------------


def _figure(panels: int, *heights: float) -> tuple[Figure, Sequence[Axes]]:
    """Panels of these heights in inches, one below the other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, sum(heights) + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(panels, 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for (axes,) in grid:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color=_FAINT)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=9)
    return figure, [axes for (axes,) in grid]


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=_DOTS_PER_INCH, format="png")


def _times(at_ms: Sequence[int]) -> Any:
    """matplotlib's unit: days since 1970."""
    import numpy as np

    return np.asarray(at_ms, dtype=float) / 86_400_000


def _time_axis(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=5, maxticks=11)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.set_xlabel("UTC", fontsize=9, loc="left")


def _say(axes: Axes, words: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, words, ha="center", va="center", color=_GREY, transform=axes.transAxes)


def _cycle(count: int) -> list[str]:
    return [_COLOURS[number % len(_COLOURS)] for number in range(count)]


def _short(member: str) -> str:
    """A member id without most of its random part."""
    return member if len(member) <= 22 else f"{member[:20]}…"


def _duration(value_ms: float) -> str:
    if value_ms < 1_000:
        return f"{value_ms:g} ms"
    seconds = value_ms / 1_000
    if seconds < 60:
        return f"{seconds:g} s"
    return f"{seconds / 60:g} min" if seconds < 3_600 else f"{seconds / 3_600:.3g} h"
