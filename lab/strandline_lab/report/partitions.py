"""The course of each partition, from observations. Pure; times are milliseconds since one moment."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from strandline.auditing.cluster import Observation
from strandline.ids import TopicPartition
from strandline_lab.report.events import Election
from strandline_lab.report.facts import PartitionFact
from strandline_lab.report.spans import Held, Span
from strandline_lab.report.traffic import BIN_MS, Rate

SILENT_MS: Final = 1_500
"""An observation of a partition counts for at most this time."""


def newest(observations: Iterable[Observation]) -> dict[TopicPartition, list[Observation]]:
    """The observations by partition, in time order, without outdated ones: those with an older epoch than
    another observer reported earlier."""
    seen: dict[TopicPartition, list[Observation]] = defaultdict(list)
    epochs: dict[TopicPartition, int] = defaultdict(lambda: -1)
    for each in sorted(observations, key=lambda each: each.at_ms):
        if 0 <= each.epoch < epochs[each.place]:
            continue
        epochs[each.place] = max(epochs[each.place], each.epoch)
        seen[each.place].append(each)
    return {place: seen[place] for place in sorted(seen)}


def leaders_of(observed: Sequence[Observation], end_ms: float) -> Iterator[Held]:
    """The leaders of one partition, each with its time."""
    return _merged(Held(*span, each.place, each.leader) for each, span in _looks(observed, end_ms))


def members_of(observed: Sequence[Observation], end_ms: float) -> Iterator[Held]:
    """The members of one partition's ISR over time, broker by broker."""
    looks = list(_looks(observed, end_ms))
    for broker in sorted({broker for each in observed for broker in each.isr}):
        yield from _merged(Held(*span, each.place, broker) for each, span in looks if broker in each.isr)


def _looks(
    observed: Sequence[Observation], end_ms: float
) -> Iterator[tuple[Observation, tuple[float, float]]]:
    """Each observation, and the time it holds: until the next one, but no longer than SILENT_MS."""
    for number, each in enumerate(observed):
        until_ms = observed[number + 1].at_ms if number + 1 < len(observed) else end_ms
        until_ms = max(each.at_ms, min(until_ms, each.at_ms + SILENT_MS))
        yield each, (float(each.at_ms), float(until_ms))


def _merged(held: Iterable[Held]) -> Iterator[Held]:
    """Joins neighbours that are equal."""
    last: Held | None = None
    for each in held:
        if last is not None and (last.broker, last.to_ms) == (each.broker, each.from_ms):
            last = replace(last, to_ms=each.to_ms)
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


def growth_of(observed: Iterable[Observation], span: Span) -> tuple[Rate, ...]:
    """By how many records a second the high watermark rose, bin by bin, never below zero. Records that were
    not observed at first count in the bin where they are observed."""
    bins = [0] * (int(span.took_ms // BIN_MS) + 1)
    known: int | None = None
    for each in observed:
        if each.watermark is None:
            continue
        if known is not None and span.from_ms <= each.at_ms <= span.to_ms:
            bins[int((each.at_ms - span.from_ms) // BIN_MS)] += max(0, each.watermark - known)
        known = each.watermark if known is None else max(known, each.watermark)
    if known is None:
        return ()
    return tuple(Rate(span.from_ms + bin * BIN_MS, grown * 1000 / BIN_MS) for bin, grown in enumerate(bins))


def falls_of(observed: Iterable[Observation]) -> list[float]:
    """When an observer saw a high watermark below its own earlier one."""
    highest: dict[str, int] = {}
    falls = []
    for each in observed:
        if each.watermark is None:
            continue
        if each.watermark < highest.get(each.observer, 0):
            falls.append(float(each.at_ms))
        highest[each.observer] = max(each.watermark, highest.get(each.observer, 0))
    return falls


def full_size(observed: Sequence[Observation], settled_ms: int | None) -> int:
    """The full size of the ISR: its size when the cluster had settled or, if it never did, the largest size
    that was observed."""
    if settled_ms is not None:
        before = [each for each in observed if each.at_ms <= settled_ms]
        if before:
            return len(before[-1].isr)
    return max(len(each.isr) for each in observed)


def wholeness(
    seen: Mapping[TopicPartition, Sequence[Observation]], full: Mapping[TopicPartition, int]
) -> list[tuple[float, bool]]:
    """Each time at which this changed: True if from then on every ISR was full."""
    steps: list[tuple[float, bool]] = []
    short: set[TopicPartition] = set()
    for each in sorted((each for those in seen.values() for each in those), key=lambda each: each.at_ms):
        if len(each.isr) < full[each.place]:
            short.add(each.place)
        else:
            short.discard(each.place)
        whole = not short
        if not steps or steps[-1][1] is not whole:
            steps.append((float(each.at_ms), whole))
    return steps


def first_whole(steps: Sequence[tuple[float, bool]], from_ms: float) -> float | None:
    """Time from `from_ms` until every ISR was full; 0 if it was full then, None if it never was."""
    then = bisect_right(steps, from_ms, key=lambda step: step[0])
    if then and steps[then - 1][1]:
        return 0.0
    return next((at_ms - from_ms for at_ms, whole in steps[then:] if whole), None)


def whole_after(observed: Sequence[Observation], full: int, healed_ms: int | None) -> float | None:
    """Time from healing until one ISR was full and stayed full; 0 if it was. None if it never was, or there
    was no healing."""
    if healed_ms is None or not observed or len(observed[-1].isr) < full:
        return None
    short = [number for number, each in enumerate(observed) if len(each.isr) < full]
    whole_ms = observed[short[-1] + 1].at_ms if short else healed_ms
    return float(max(0, whole_ms - healed_ms))


def elections_of(
    elections: Sequence[Election], place: TopicPartition, observed: Sequence[Observation], span: Span
) -> int:
    """The number of elections in the round: the recorded ones or, if there are none, the observed changes of
    the epoch."""
    if elections:
        return sum(each.place == place and span.from_ms <= each.at_ms <= span.to_ms for each in elections)
    epochs = [each.epoch for each in observed if each.epoch >= 0]
    return sum(before != after for before, after in pairwise(epochs))


@dataclass(frozen=True, slots=True)
class Courses:
    """The courses of all partitions that were observed."""

    seen: Mapping[TopicPartition, Sequence[Observation]]
    """As `newest` has them."""
    full: Mapping[TopicPartition, int]
    """The full size of each ISR."""

    @classmethod
    def of(cls, observations: Iterable[Observation], settled_ms: int | None) -> Courses:
        seen = newest(observations)
        return cls(seen, {place: full_size(observed, settled_ms) for place, observed in seen.items()})

    @property
    def wholeness(self) -> Sequence[tuple[float, bool]]:
        return wholeness(self.seen, self.full)

    def leaders(self, end_ms: float) -> tuple[Held, ...]:
        return tuple(held for observed in self.seen.values() for held in leaders_of(observed, end_ms))

    def members(self, end_ms: float) -> tuple[Held, ...]:
        return tuple(held for observed in self.seen.values() for held in members_of(observed, end_ms))

    def growth(self, span: Span) -> Mapping[TopicPartition, Sequence[Rate]]:
        return {place: growth_of(observed, span) for place, observed in self.seen.items()}

    def fact(
        self,
        place: TopicPartition,
        span: Span,
        healed_ms: int | None,
        *,
        acked: int = 0,
        gaps: Sequence[Span] = (),
        elections: Sequence[Election] = (),
        read_after_ms: float | None = None,
    ) -> PartitionFact:
        """What is known of one partition. What was not recorded counts as none."""
        observed, full = self.seen.get(place, ()), self.full.get(place, 0)
        watermarks = [each.watermark for each in observed]
        return PartitionFact(
            place=place,
            acked=acked,
            gap=max(gaps, key=lambda gap: gap.took_ms, default=None),
            high_watermark=next((mark for mark in reversed(watermarks) if mark is not None), None),
            elections=elections_of(elections, place, observed, span),
            unclean=sum(each.unclean for each in elections if each.place == place),
            least_isr=min((len(each.isr) for each in observed), default=None),
            whole_after_ms=whole_after(observed, full, healed_ms),
            read_after_ms=read_after_ms,
        )
