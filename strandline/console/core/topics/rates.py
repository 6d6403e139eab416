"""How fast partitions grow, from what was seen of them in the last seconds."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from strandline.errors import StrandlineError
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.vocabulary.log import DescribedReplicas
from strandline.vocabulary.log_position import is_foreign

SPAN_MS: Final = 15_000
"""Older samples are forgotten."""
STEP_MS: Final = 900
"""Samples are at least this far apart."""
PARTITIONS_MAX: Final = 6_000
"""Partitions of which samples are kept; those that were seen longest ago go first."""


Described = Mapping[TopicPartition, DescribedReplicas]
"""What leaders said of their partitions."""


class Sample(NamedTuple):
    at_ms: int
    log_end: int
    size_bytes: int
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class Rate:
    """Per second. `bytes` falls short where old segments were deleted meanwhile."""

    records: float
    bytes: float

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.records + other.records, self.bytes + other.bytes)


class Rates:
    """Samples of partitions, taken for any page."""

    def __init__(self) -> None:
        self._samples: OrderedDict[TopicPartition, deque[Sample]] = OrderedDict()

    def note(self, name: TopicPartition, sample: Sample) -> None:
        """Take a sample. A log of another topic has the name since then, or has lost its end, if it ends
        earlier: its growth is counted from here on."""
        samples = self._samples.setdefault(name, deque())
        self._samples.move_to_end(name)
        if samples:
            last = samples[-1]
            if is_foreign(last.topic_id, sample.topic_id) or sample.log_end < last.log_end:
                samples.clear()
        if not samples or sample.at_ms - samples[-1].at_ms >= STEP_MS:
            samples.append(sample)
        while sample.at_ms - samples[0].at_ms > SPAN_MS:
            samples.popleft()
        while len(self._samples) > PARTITIONS_MAX:
            self._samples.popitem(last=False)

    def take(
        self, answers: Mapping[TopicPartition, DescribedReplicas | StrandlineError], now_ms: int
    ) -> Described:
        """Takes a sample of each partition whose leader answered, and returns these answers."""
        described = {
            name: answer
            for name, answer in answers.items()
            if not isinstance(answer, StrandlineError) and answer.error is None
        }
        for name, answer in described.items():
            self.note(name, Sample(now_ms, answer.log_end_offset, answer.size_bytes, answer.topic_id))
        return described

    def of(self, name: TopicPartition) -> Rate | None:
        """None before there are two samples."""
        samples = self._samples.get(name)
        if samples is None or len(samples) < 2:
            return None
        first, last = samples[0], samples[-1]
        per_s = 1000 / (last.at_ms - first.at_ms)
        grown = max(0, last.size_bytes - first.size_bytes)
        return Rate((last.log_end - first.log_end) * per_s, grown * per_s)

    def of_all(self, names: Iterable[TopicPartition]) -> Rate | None:
        """The sum; None if one is unknown, or if there are none."""
        total = None
        for name in names:
            rate = self.of(name)
            if rate is None:
                return None
            total = rate if total is None else total + rate
        return total
