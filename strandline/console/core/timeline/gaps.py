"""When it is not known who leads: no broker answers, or the leader's broker is away."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.lanes.steps import Step, Steps
from strandline.console.core.timeline.places import Ref
from strandline.console.core.timeline.view import View

SILENT: Final = "no broker answers"

V = TypeVar("V")


class Gap(NamedTuple):
    """A time in which nothing is known. `since_ms`: when its reason began, which another gap may have covered
    until `from_ms`; `until_ms` None: it lasts. `began` and `ended` are the events that say so."""

    since_ms: int
    from_ms: int
    until_ms: int | None
    why: str
    began: Ref
    ended: Ref | None


class Gaps:
    """The gaps within a view, by leader."""

    def __init__(self, rows: Rows, view: View) -> None:
        self._rows = rows
        self._view = view
        self._silent = self._untrue(rows.answers, SILENT)
        self._of: dict[int, list[Gap]] = {}

    def of(self, leader: int) -> list[Gap]:
        """In the order of time; they do not overlap."""
        if leader not in self._of:
            broker = self._rows.brokers.get(leader)
            away = [] if broker is None else self._untrue(broker.alive, f"broker {leader} is away")
            rest = [part for each in away for part in _without(each, self._silent)]
            self._of[leader] = sorted(self._silent + rest, key=lambda gap: gap.from_ms)
        return self._of[leader]

    def _untrue(self, steps: Steps[bool], why: str) -> list[Gap]:
        found: list[Gap] = []
        view = self._view
        for step in steps.drawn(view.from_ms, view.until_ms, view.pixel_ms):
            if found and found[-1].until_ms == step.at_ms:
                found[-1] = found[-1]._replace(ended=step.ref)
            if not step.value and step.merged == 1:
                found.append(Gap(step.at_ms, step.at_ms, step.until_ms, why, step.ref, None))
        return found


def _without(gap: Gap, others: Sequence[Gap]) -> Iterator[Gap]:
    """What others leave of a gap."""
    for other in others:
        if other.until_ms is not None and other.until_ms <= gap.from_ms:
            continue
        if gap.until_ms is not None and gap.until_ms <= other.from_ms:
            break
        if gap.from_ms < other.from_ms:
            yield gap._replace(until_ms=other.from_ms, ended=None)
        if other.until_ms is None or (gap.until_ms is not None and gap.until_ms <= other.until_ms):
            return
        gap = gap._replace(from_ms=other.until_ms)
    yield gap


def led(
    leaders: Iterable[Step[int]], sizes: Sequence[Step[V]], gaps: Gaps
) -> Iterator[tuple[Step[int], Gap | None]]:
    """The steps of a partition's leader in their parts, as `parted`. `sizes`: those of its ISR, which say
    that there is a leader."""
    at = [each.at_ms for each in sizes]
    of: dict[int, list[Gap]] = {}
    for step in leaders:
        if step.value not in of:
            of[step.value] = list(_until_sizes(gaps.of(step.value), sizes, at))
        yield from parted(step, of[step.value])


def _until_sizes(gaps: Sequence[Gap], sizes: Sequence[Step[V]], at: Sequence[int]) -> Iterator[Gap]:
    """The gaps, each of which ends with the first size after its reason began."""
    for gap in gaps:
        here = bisect_right(at, gap.since_ms)
        if here == len(at) or (gap.until_ms is not None and gap.until_ms <= at[here]):
            yield gap
        elif at[here] > gap.from_ms:
            yield gap._replace(until_ms=at[here], ended=sizes[here].ref)


def parted(step: Step[V], gaps: Sequence[Gap]) -> Iterator[tuple[Step[V], Gap | None]]:
    """The parts of a step, each with the part of a gap that it lies in: None if it is known. A step that
    began after the reason of a gap is known."""
    began_ms = step.at_ms
    first = max(0, bisect_right(gaps, step.at_ms, key=lambda gap: gap.from_ms) - 1)
    for gap in islice(gaps, first, None):
        if step.merged > 1 or (step.until_ms is not None and gap.from_ms >= step.until_ms):
            break
        if gap.since_ms <= began_ms:
            continue
        if gap.from_ms > step.at_ms:
            yield step._replace(until_ms=gap.from_ms), None
        ends = gap.until_ms is not None and (step.until_ms is None or gap.until_ms < step.until_ms)
        until_ms = gap.until_ms if ends else step.until_ms
        within = gap._replace(since_ms=gap.from_ms, until_ms=until_ms)
        yield step._replace(at_ms=gap.from_ms, until_ms=until_ms, ref=gap.began), within
        if not ends:
            return
        assert gap.until_ms is not None
        step = step._replace(at_ms=gap.until_ms, ref=step.ref if gap.ended is None else gap.ended)
    yield step, None
