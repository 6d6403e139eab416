"""The lag of groups over time: samples in bounded memory, what they say, and their picture. Pure.

A group's older samples are thinned out: whenever it has too many, every second one of its older half is
dropped. So the last minutes are there in full, and hours before them in steps that grow.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strandline.consumer.described.view import GroupView

SAMPLES_MAX: Final = 240
"""Samples of one group."""
GROUPS_MAX: Final = 200
"""Groups with samples; the ones that were sampled longest ago go first."""
AGE_MS_MAX: Final = 24 * 3600 * 1000
GAP_MS_MIN: Final = 90_000
"""Between samples further apart than this, and than three times the step before, nothing is known."""
RATE_MS: Final = 30_000
"""The time over which a rate is taken."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A group's standing at one moment. `committed` and `end` are the sums over all partitions, with `lag`
    between them: None if one is unknown. What was deleted counts as committed, and nothing beyond the end."""

    at_ms: int
    lag: int | None
    committed: int | None = None
    end: int | None = None
    partitions: int = 0
    """Sums over different partitions are not compared."""


def sample(view: GroupView, at_ms: int) -> Sample:
    """The standing of a group."""
    end = sum(each.end or 0 for each in view.partitions)
    if view.lag is None:
        return Sample(at_ms, None, partitions=len(view.partitions))
    return Sample(at_ms, view.lag, end - view.lag, end, len(view.partitions))


class LagHistory:
    """The samples of all groups."""

    def __init__(self) -> None:
        self._samples: OrderedDict[str, list[Sample]] = OrderedDict()

    def add(self, group: str, new: Sample) -> None:
        """Keep a sample; one that is not later than the last one is dropped."""
        samples = self._samples.setdefault(group, [])
        self._samples.move_to_end(group)
        if samples and new.at_ms <= samples[-1].at_ms:
            return
        samples.append(new)
        if len(samples) > SAMPLES_MAX:
            half = SAMPLES_MAX // 2
            samples[:half] = samples[:half:2]
        while samples[0].at_ms < new.at_ms - AGE_MS_MAX:
            del samples[0]
        while len(self._samples) > GROUPS_MAX:
            self._samples.popitem(last=False)

    def of(self, group: str) -> tuple[Sample, ...]:
        """A group's samples, the oldest first."""
        return tuple(self._samples.get(group, ()))

    def groups(self) -> tuple[str, ...]:
        """Those that have samples."""
        return tuple(self._samples)

    def forget(self, group: str) -> None:
        """Drop the samples of a group that exists no longer."""
        self._samples.pop(group, None)


@dataclass(frozen=True, slots=True)
class Pace:
    """Records a second, over the last RATE_MS: how many were read, and how many were written. `left_ms` is
    how long it takes at this pace until nothing is left to read: None if the lag does not fall."""

    read_per_s: float
    written_per_s: float
    left_ms: int | None


def pace(samples: Sequence[Sample]) -> Pace | None:
    """The present pace; None if it is not known."""
    if not samples:
        return None
    last = samples[-1]
    before = [each for each in samples[:-1] if last.at_ms - each.at_ms <= RATE_MS]
    if not before or last.committed is None or last.end is None or last.lag is None:
        return None
    first = before[0]
    if first.committed is None or first.end is None or first.partitions != last.partitions:
        return None
    seconds = (last.at_ms - first.at_ms) / 1000
    read, written = (last.committed - first.committed) / seconds, (last.end - first.end) / seconds
    if read < 0 or written < 0:  # offsets were reset, or a topic was made anew
        return None
    left = None if last.lag == 0 or read <= written else int(1000 * last.lag / (read - written))
    return Pace(read, written, left)


# --- the picture --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chart:
    """The lag as lines in a picture `width` wide and `height` high, with what has to stand beside it."""

    width: int
    height: int
    lines: tuple[str, ...]
    """The points of each line, as SVG's `polyline` takes them: a gap in the samples begins a new one."""
    lag_max: int
    from_ms: int
    until_ms: int


def chart(samples: Sequence[Sample], *, width: int = 600, height: int = 100) -> Chart | None:
    """The picture of these samples; None if there are not two with a lag."""
    known = [each for each in samples if each.lag is not None]
    if len(known) < 2:
        return None
    first, last = known[0].at_ms, known[-1].at_ms
    lag_max = max(each.lag or 0 for each in known)
    top = max(1, lag_max)

    def point(each: Sample) -> str:
        x = width * (each.at_ms - first) / (last - first)
        y = height * (1 - (each.lag or 0) / top)
        return f"{x:.1f},{y:.1f}"

    lines = tuple(" ".join(map(point, run)) for run in _runs(samples) if len(run) > 1)
    return Chart(width, height, lines, lag_max, first, last)


def _runs(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Samples with a lag, in runs without a gap."""
    runs: list[list[Sample]] = [[]]
    for each in samples:
        run = runs[-1]
        if each.lag is None:
            runs.append([])
            continue
        step_ms = run[-1].at_ms - run[-2].at_ms if len(run) > 1 else 0
        if run and each.at_ms - run[-1].at_ms > max(GAP_MS_MIN, 3 * step_ms):
            runs.append(run := [])
        run.append(each)
    return runs


def figures(samples: Sequence[Sample], count: int = 12) -> tuple[Sample, ...]:
    """The samples as a table has them: at most `count`, the newest first, in steps as even as they are."""
    if len(samples) <= count:
        return tuple(reversed(samples))
    first, last = samples[0].at_ms, samples[-1].at_ms
    picked: dict[int, Sample] = {}
    for each in samples:
        picked[(count - 1) * (each.at_ms - first) // (last - first)] = each
    return tuple(reversed(picked.values()))


def peak(samples: Sequence[Sample]) -> Sample | None:
    """The sample with the greatest lag, the newest of several."""
    known = [each for each in samples if each.lag is not None]
    return max(reversed(known), key=lambda each: each.lag or 0, default=None)
