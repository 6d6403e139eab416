"""Draws the picture of a round: all panels share one time axis, so the effects of a fault stand below it.

Only this file imports matplotlib. It needs no display.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from strandline.ids import TopicPartition
from strandline_lab.report.facts import Facts, FaultFact
from strandline_lab.report.spans import NOBODY, Held, Span
from strandline_lab.report.traffic import BIN_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS_MAX: Final = 32
"""Partitions in one picture: a reader cannot distinguish more."""
GAP_SHOWN_MS: Final = 500
"""A time without an acknowledged write is marked if it is longer than this."""
CALM_MS: Final = 1_500
"""Time that is drawn after the last event."""
_DOTS_PER_INCH: Final = 140
_BROKERS: Final = (
    "#4477aa", "#ee8866", "#228833", "#aa3377", "#66ccee", "#ccbb44", "#775544", "#9988cc", "#44aa99",
    "#dd99bb",
)  # fmt: skip
_INK: Final = "#1f2430"
_GREY: Final = "#8a8f98"
_FAINT: Final = "#e6e8ec"
_RED: Final = "#d01c1c"
_GREEN: Final = "#2e7d4f"
_KINDS: Final = {
    "kill": "#2b303b", "terminate": "#4a5160", "chase": "#2b303b", "pause": "#8b7fa8",
    "disconnect": "#7a6a53", "one-way": "#a8927a", "unreachable": "#8f7f5f", "refused": "#6f6a5a",
    "disk-full": "#9c5b5b", "reassign": "#6f9a9a",
    "add-partitions": "#6f9a9a",
    "stop": "#4a5160", "cut": "#7a6a53", "reset": "#6f6a5a", "lose": "#2b303b", "fill": "#9c5b5b",
    "spoil": "#9c5b5b", "isolate": "#7a6a53", "expire": "#8b7fa8", "freeze": "#8b7fa8", "part": "#7a6a53",
    "slow": "#a8927a", "shrink": "#2b303b", "bounce": "#4a5160",
}  # fmt: skip
"""Colours by the first word of a kind. Faults have dark, dull ones, so that no fault looks like a broker."""


class NoMatplotlib(Exception):
    """Matplotlib is not installed; the message says how to install it."""


def draw(facts: Facts, svg: Path, png: Path) -> None:
    """Draws the same picture to both files. Raises NoMatplotlib, OSError."""
    try:
        import matplotlib
    except ImportError as error:
        raise NoMatplotlib(f"pictures need matplotlib: pip install matplotlib ({error})") from None
    with matplotlib.rc_context(
        {"svg.hashsalt": "strandline", "font.family": ["DejaVu Sans"], "font.size": 9}
    ):
        figure = _whole(facts)
        drawn = BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
        svg.write_bytes(drawn.getvalue())
        figure.set_layout_engine("none")  # once is enough
        figure.savefig(png, format="png", dpi=_DOTS_PER_INCH)


def _whole(facts: Facts) -> Figure:
    places = facts.places[:ROWS_MAX]
    fault_rows = _fault_rows(facts.faults)
    heights = [
        0.55 + 0.27 * max(1, len(fault_rows)),
        0.5 + 0.42 * max(1, len(places)),
        0.4 + 0.24 * max(1, len(places)),
        *((1.5, 1.8) if facts.loaded is not None else ()),
    ]
    figure, panels = _panels(heights)
    faults, leaders, marks = panels[:3]
    axis = _Time(facts.span)
    figure.suptitle(_headline(facts), x=0.01, ha="left", fontsize=11, color=_INK)
    _draw_faults(faults, facts, fault_rows, axis)
    _draw_partitions(leaders, facts, places, axis)
    _draw_growth(marks, facts, places, axis)
    for axes, draw_panel in zip(panels[3:], (_draw_rates, _draw_latencies), strict=False):
        draw_panel(axes, facts, axis)
    for axes in panels:
        _draw_moments(axes, facts, axis, named=axes is faults)
    panels[-1].set_xlim(0, axis.of(_last_ms(facts)) or 1)
    panels[-1].set_xlabel("seconds since it began", fontsize=9, loc="left")
    return figure


def _last_ms(facts: Facts) -> float:
    """When the picture ends: after the load only the final readers follow."""
    ends = [fault.span.to_ms for fault in facts.faults if fault.span is not None]
    if facts.loaded is None:
        return facts.span.to_ms
    after = (facts.writable_after_ms, facts.settled_after_ms)
    ends += [facts.healed_ms + each for each in after if each is not None and facts.healed_ms is not None]
    return min(facts.span.to_ms, max(facts.loaded.to_ms, *ends, facts.loaded.to_ms) + CALM_MS)


def _headline(facts: Facts) -> str:
    seed = "a round" if facts.seed is None else f"seed {facts.seed}"
    return f"{seed}: {facts.verdict.value}"


class _Time:
    """Converts times to seconds since the round began."""

    def __init__(self, span: Span) -> None:
        self._began_ms = span.from_ms

    def of(self, at_ms: float) -> float:
        return (at_ms - self._began_ms) / 1000

    def bar(self, span: Span) -> tuple[float, float]:
        """The beginning and the width of a bar."""
        return self.of(span.from_ms), span.took_ms / 1000


def _panels(heights: Sequence[float]) -> tuple[Figure, Sequence[Axes]]:
    """Panels of these heights in inches, one below the other, with one time axis."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, sum(heights) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(
        len(heights), 1, squeeze=False, sharex=True, gridspec_kw={"height_ratios": list(heights)}
    )
    for (axes,) in grid:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(_GREY)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=9, color=_GREY)
    return figure, [axes for (axes,) in grid]


# --- faults -----------------------------------------------------------------------------------

_Row = tuple[str, int]
"""A member, and the index of its row: it has several rows if its faults overlap."""


def _fault_rows(faults: Iterable[FaultFact]) -> dict[_Row, list[FaultFact]]:
    """The faults by member. A fault of several members is in the row of each; one of no member is in the
    cluster's row."""
    rows: dict[_Row, list[FaultFact]] = {}
    for fault in faults:
        if fault.span is None:
            continue
        for who in fault.who or ("cluster",):
            index = 0
            while any(_meet(fault.span, other.span) for other in rows.get((who, index), ())):
                index += 1
            rows.setdefault((who, index), []).append(fault)
    return {row: rows[row] for row in sorted(rows, key=_row_order)}


def _row_order(row: _Row) -> tuple[int, str, int, int]:
    """Brokers, controllers, ZooKeeper, the cluster; by number."""
    who, index = row
    role, _, number = who.partition(" ")
    roles = ("broker", "controller", "zookeeper", "cluster")
    place = roles.index(role) if role in roles else len(roles)
    return place, role, int(number) if number.isdecimal() else 0, index


def _meet(one: Span, other: Span | None) -> bool:
    return other is not None and one.meets(other)


def _draw_faults(axes: Axes, facts: Facts, rows: Mapping[_Row, Sequence[FaultFact]], axis: _Time) -> None:
    _title(axes, "faults; ×: ended without a fault" if facts.died else "faults", above=14)
    if not rows:
        _say(axes, "no fault was done")
        return
    seconds = facts.span.took_ms / 1000
    for row, faults in enumerate(rows.values()):
        for fault in faults:
            assert fault.span is not None
            begin, width = axis.bar(fault.span)
            shown = max(width, seconds / 300)
            axes.barh(
                row, shown, left=begin, height=0.72, color=_KINDS.get(fault.kind.split()[0], _GREY), zorder=3
            )
            inside = width > seconds * 0.009 * len(fault.kind)
            at = begin + shown / 2 if inside else begin + shown + seconds / 300
            side, colour = ("center", "white") if inside else ("left", _INK)
            axes.text(at, row, fault.kind, va="center_baseline", ha=side, fontsize=8, color=colour, zorder=4)
    for who, at_ms in facts.died:
        row = next((row for row, (member, _) in enumerate(rows) if member == who), len(rows) - 1)
        axes.plot(axis.of(at_ms), row, "x", color=_RED, markersize=9, markeredgewidth=2.5, zorder=5)
    axes.set_yticks(range(len(rows)), [who if index == 0 else "" for who, index in rows])
    for label, (who, _) in zip(axes.get_yticklabels(), rows, strict=True):
        if who.startswith("broker "):
            label.set_color(_colour(who.removeprefix("broker ")))
            label.set_fontweight("bold")
    axes.set_ylim(len(rows) - 0.4, -0.6)


def _draw_moments(axes: Axes, facts: Facts, axis: _Time, *, named: bool) -> None:
    """The faults as shades behind everything, and the times of healed, writable and settled."""
    for fault in facts.faults:
        if fault.span is not None:
            begin, end = axis.of(fault.span.from_ms), axis.of(fault.span.to_ms)
            axes.axvspan(begin, end, color=_INK, alpha=0.045, linewidth=0, zorder=0)
            axes.axvline(begin, color=_INK, alpha=0.25, linewidth=0.6, zorder=0)
    if facts.healed_ms is None:
        return
    after = {"healed": 0.0, "writable": facts.writable_after_ms, "settled": facts.settled_after_ms}
    known = sorted((after_ms, what) for what, after_ms in after.items() if after_ms is not None)
    for place, (after_ms, what) in enumerate(known):
        at = axis.of(facts.healed_ms + after_ms)
        axes.axvline(at, color=_GREEN, linewidth=1, linestyle="-" if what == "healed" else ":", zorder=1)
        if named:
            axes.annotate(
                what if what == "healed" else f"{what} +{after_ms / 1000:.1f} s", (at, 1),
                (3, 3 + 9 * (len(known) - 1 - place)), xycoords=("data", "axes fraction"),
                textcoords="offset points", fontsize=8, color=_GREEN,
            )  # fmt: skip


# --- partitions -------------------------------------------------------------------------------


def _draw_partitions(axes: Axes, facts: Facts, places: Sequence[TopicPartition], axis: _Time) -> None:
    """Draws a row for each partition: the leader as a thick bar, below it a thin line for each in-sync
    broker."""
    left_out = len(facts.places) - len(places)
    more = f"; {left_out} partitions left out" if left_out > 0 else ""
    axes.set_title(
        f"leader (thick) and in-sync replicas (thin) of each partition{more}",
        loc="left",
        fontsize=10,
        color=_INK,
    )
    brokers = sorted({held.broker for held in (*facts.leaders, *facts.members)} - {NOBODY})
    if not brokers:
        _say(axes, "the partitions were not observed")
        return
    row = {place: number for number, place in enumerate(places)}
    leaders = [held for held in facts.leaders if held.place in row]
    led = [held for held in leaders if held.broker != NOBODY]
    _blocks(axes, [(axis, held, row[held.place] - 0.37, 0.4, _colour(held.broker)) for held in led])
    for held in leaders:
        if held.broker == NOBODY:
            _draw_vacancy(axes, held, row[held.place], axis)
    step = 0.34 / len(brokers)
    _blocks(
        axes,
        [
            (
                axis,
                held,
                row[held.place] + 0.1 + step * brokers.index(held.broker),
                step * 0.7,
                _colour(held.broker),
            )
            for held in facts.members
            if held.place in row
        ],
    )
    gaps = [(place, gap) for place in places for gap in facts.gaps[place] if gap.took_ms > GAP_SHOWN_MS]
    _blocks(axes, [(axis, gap, row[place] - 0.47, 0.07, _RED) for place, gap in gaps])
    for election in facts.unclean:
        if election.place in row:
            at = axis.of(election.at_ms)
            axes.plot(at, row[election.place] - 0.17, "X", color=_RED, markersize=8, zorder=6)
    axes.set_yticks(range(len(places)), [str(place) for place in places])
    axes.set_ylim(len(places) - 0.4, -0.6)
    _partition_legend(axes, brokers, gaps=facts.loaded is not None, unclean=bool(facts.unclean))


def _draw_vacancy(axes: Axes, held: Held, row: int, axis: _Time) -> None:
    begin, width = axis.bar(held)
    axes.barh(
        row - 0.17, width, left=begin, height=0.4, facecolor="white", edgecolor=_RED, hatch="/////",
        linewidth=0.8, zorder=4,
    )  # fmt: skip


def _partition_legend(axes: Axes, brokers: Iterable[int], *, gaps: bool, unclean: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        *(Patch(color=_colour(broker), label=f"broker {broker}") for broker in brokers),
        Patch(facecolor="white", edgecolor=_RED, hatch="/////", label="no leader"),
        Patch(facecolor="white", edgecolor=_GREY, linewidth=0.5, label="no broker answered"),
    ]
    if gaps:
        handles.append(Patch(color=_RED, label=f"no acknowledged\nwrite for > {GAP_SHOWN_MS / 1000:g} s"))
    if unclean:
        handles.append(Line2D([], [], color=_RED, marker="X", linestyle="", label="unclean election"))
    _legend(axes, handles)


def _draw_growth(axes: Axes, facts: Facts, places: Sequence[TopicPartition], axis: _Time) -> None:
    """Draws a row for each partition: how fast its high watermark rose, in the colour of the leader. A full
    row is twice the partition's median rate."""
    fell = "; ▼: it fell" if any(facts.falls.values()) else ""
    _title(axes, f"high watermark of each partition: how fast it rose (grey: no leader was seen){fell}")
    if not any(facts.growth.values()):
        _say(axes, "no high watermark was observed")
        return
    for row, place in enumerate(places):
        rates = facts.growth.get(place, ())
        risen = [rate.per_s for rate in rates if rate.per_s]
        if risen:
            full = 2 * median(risen)
            led = [held for held in facts.leaders if held.place == place]
            bars = []
            for rate in rates:
                height = 0.8 * min(1.0, rate.per_s / full)
                bin = Span(rate.at_ms, rate.at_ms + BIN_MS)
                bars.append((axis, bin, row + 0.4 - height, height, _led_by(led, rate.at_ms + BIN_MS / 2)))
            _blocks(axes, bars)
        axes.axhline(row + 0.4, color=_FAINT, linewidth=0.8, zorder=2)
        for at_ms in facts.falls.get(place, ()):
            axes.plot(axis.of(at_ms), row, "v", color=_RED, markersize=7, zorder=5)
    for fact in facts.partitions[: len(places)]:
        if fact.high_watermark is not None:
            axes.annotate(
                f"{fact.high_watermark:,}", (1.005, places.index(fact.place) + 0.15), fontsize=8, color=_INK,
                xycoords=("axes fraction", "data"), va="center",
            )  # fmt: skip
    axes.set_yticks(range(len(places)), [str(place) for place in places])
    axes.set_ylim(len(places) - 0.4, -0.6)


def _led_by(led: Iterable[Held], at_ms: float) -> str:
    """The colour of the leader at that time."""
    leader = next((held.broker for held in led if held.from_ms <= at_ms < held.to_ms), NOBODY)
    return _GREY if leader == NOBODY else _colour(leader)


# --- records ----------------------------------------------------------------------------------


def _draw_rates(axes: Axes, facts: Facts, axis: _Time) -> None:
    _title(axes, "records a second, on a square-root scale")
    axes.grid(axis="y", color=_FAINT)
    if not facts.acked and not facts.received:
        _say(axes, "no record was acknowledged or received")
        return
    for name, rates, colour in (("received", facts.received, _GREY), ("acknowledged", facts.acked, _INK)):
        if rates:
            times, per_s = [axis.of(rate.at_ms) for rate in rates], [rate.per_s for rate in rates]
            axes.step(times, per_s, where="post", color=colour, linewidth=1.3, label=name)
    if facts.failed:
        times = [axis.of(rate.at_ms) for rate in facts.failed]
        axes.vlines(times, 0, [rate.per_s for rate in facts.failed], color=_RED, linewidth=2, label="failed")
    _root_scale(axes)
    _legend(axes)


def _root_scale(axes: Axes) -> None:
    """A square-root scale from zero: a backlog arrives all at once, and would hide the usual rates."""
    top = 1.05 * max(line.get_ydata().max() for line in axes.lines)  # type: ignore[union-attr]
    axes.set_yscale("function", functions=(lambda rate: rate.clip(0) ** 0.5, lambda root: root**2))
    axes.set_ylim(0, top)
    round_ones = [digit * 10**power for power in range(7) for digit in (1, 2, 5)]
    axes.set_yticks([0, *(each for each in round_ones if top / 20 <= each <= top)])
    axes.yaxis.set_major_formatter(lambda rate, _: f"{rate:,.0f}")


def _draw_latencies(axes: Axes, facts: Facts, axis: _Time) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    _title(axes, "from sent to acknowledged, by when it was sent")
    axes.grid(axis="y", color=_FAINT)
    if not facts.latencies:
        _say(axes, "no record was acknowledged")
        return
    times = [axis.of(each.at_ms + BIN_MS / 2) for each in facts.latencies]
    p50, p99, most = (
        [max(0.1, getattr(each, name)) for each in facts.latencies] for name in ("p50", "p99", "most")
    )
    axes.fill_between(times, p50, most, color=_GREY, alpha=0.18, linewidth=0)
    axes.plot(times, most, ".", color=_RED, markersize=3.5, label="longest")
    axes.plot(times, p99, color=_GREY, linewidth=1.2, label="p99")
    axes.plot(times, p50, color=_INK, linewidth=1.4, label="p50")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(numticks=6))
    axes.yaxis.set_major_formatter(lambda value, _: _duration(value))
    axes.yaxis.set_minor_locator(NullLocator())
    _legend(axes)


# --- drawing ----------------------------------------------------------------------------------


def _blocks(axes: Axes, blocks: Sequence[tuple[_Time, Span, float, float, str]]) -> None:
    """Draws bars, each with its times, place, height and colour. One artist draws all, since there are
    hundreds."""
    from matplotlib.collections import PolyCollection

    corners, colours = [], []
    for axis, span, low, height, colour in blocks:
        begin, width = axis.bar(span)
        end, high = begin + width, low + height
        corners.append([(begin, low), (end, low), (end, high), (begin, high)])
        colours.append(colour)
    axes.add_collection(PolyCollection(corners, facecolors=colours, linewidths=0, zorder=3), autolim=False)


def _title(axes: Axes, words: str, *, above: float = 5) -> None:
    axes.set_title(words, loc="left", fontsize=10, color=_INK, pad=above)


def _legend(axes: Axes, handles: Sequence[Any] | None = None) -> None:
    named = {} if handles is None else {"handles": handles}
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, fontsize=8, **named)


def _say(axes: Axes, words: str) -> None:
    axes.set_yticks([])
    axes.text(0.5, 0.5, words, ha="center", va="center", color=_GREY, transform=axes.transAxes)


def _colour(broker: int | str) -> str:
    number = int(broker) if str(broker).isdecimal() else 0
    return _BROKERS[(number - 1) % len(_BROKERS)]


def _duration(value_ms: float) -> str:
    return f"{value_ms:g} ms" if value_ms < 1_000 else f"{value_ms / 1_000:g} s"
