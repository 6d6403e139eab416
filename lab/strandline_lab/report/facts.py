"""The facts that a page and its picture show. Times are milliseconds since one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strandline.ids import TopicPartition
from strandline.report.verdict import Verdict
from strandline_lab.report.events import Election
from strandline_lab.report.spans import Held, Span
from strandline_lab.report.traffic import Latency, Rate, SenderFact


@dataclass(frozen=True, slots=True)
class FaultFact:
    """One fault. `span` is None if it was not applied, and `detail` then says why."""

    number: int
    kind: str
    who: tuple[str, ...]
    detail: str
    span: Span | None
    gap: tuple[TopicPartition, Span] | None = None
    """The longest time without an acknowledged write of a partition that overlaps the fault."""
    whole_after_ms: float | None = None
    """Time from its end until every ISR was seen full."""
    next_leader_ms: float | None = None
    """The longest time from its begin until a partition that its brokers led had another leader; None if they
    led none, or none was elected while it lasted."""


@dataclass(frozen=True, slots=True)
class PartitionFact:
    """`gap` is the longest time without an acknowledged write. `whole_after_ms` is the time from healing
    until the ISR was seen full and stayed full. `read_after_ms` is the longest time from an acknowledgement
    until a reader by assignment received the record. None if it is unknown."""

    place: TopicPartition
    acked: int
    gap: Span | None
    high_watermark: int | None
    """The last one that was observed."""
    elections: int
    unclean: int
    least_isr: int | None
    whole_after_ms: float | None
    read_after_ms: float | None


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the page and the picture show."""

    seed: int | None
    verdict: Verdict
    reasons: tuple[str, ...]
    span: Span
    loaded: Span | None
    """The time from the first record sent to the last; None: no client recorded its times."""
    faults: tuple[FaultFact, ...]
    places: tuple[TopicPartition, ...]
    leaders: tuple[Held, ...]
    members: tuple[Held, ...]
    """The members of each ISR, over time."""
    growth: Mapping[TopicPartition, Sequence[Rate]]
    """How fast high watermarks rose."""
    falls: Mapping[TopicPartition, Sequence[float]]
    """When an observer saw a lower high watermark than before."""
    unclean: tuple[Election, ...]
    died: tuple[tuple[str, int], ...]
    """Members that ended without a fault, and when that was seen."""
    gaps: Mapping[TopicPartition, Sequence[Span]]
    """All times between two acknowledged writes of a partition."""
    partitions: tuple[PartitionFact, ...]
    senders: tuple[SenderFact, ...]
    acked: tuple[Rate, ...]
    received: tuple[Rate, ...]
    failed: tuple[Rate, ...]
    """Records that failed for certain or with an unknown outcome, by the time of the answer."""
    latencies: tuple[Latency, ...]
    healed_ms: int | None
    settled_after_ms: float | None
    """Time from healing until every ISR was full and every member served."""
    writable_after_ms: float | None
