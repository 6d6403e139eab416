"""The metrics of single partitions, under the names that Kafka's JMX exporter and kafka-exporter give them.

A turn of the event loop copies a few numbers of each replica. The thread of a scrape makes samples of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from strandline.adapters.telemetry.metrics import Sample, gauge
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.replica import Replica

_LABELS: Final = ("topic", "partition")
_LOG: Final = "kafka_log_log_"
LOG_SIZE: Final = gauge(f"{_LOG}size", "Bytes of a replica's log.", *_LABELS)
LOG_SEGMENTS: Final = gauge(f"{_LOG}numlogsegments", "Segments of a replica's log.", *_LABELS)
LOG_START: Final = gauge(f"{_LOG}logstartoffset", "The first offset of a replica's log.", *_LABELS)
LOG_END: Final = gauge(f"{_LOG}logendoffset", "The offset after the last one of a replica's log.", *_LABELS)

_PARTITION: Final = "kafka_cluster_partition_"
REPLICAS: Final = gauge(
    f"{_PARTITION}replicascount",
    "Assigned replicas of a partition that is led here, without those that a reassignment adds.",
    *_LABELS,
)
IN_SYNC: Final = gauge(
    f"{_PARTITION}insyncreplicascount", "Members of the ISR of a partition that is led here.", *_LABELS
)
UNDER_REPLICATED: Final = gauge(
    f"{_PARTITION}underreplicated",
    "1 if a partition that is led here has fewer members in the ISR than replicas, else 0.",
    *_LABELS,
)
UNDER_MIN_ISR: Final = gauge(
    f"{_PARTITION}underminisr",
    "1 if a partition that is led here has fewer members in the ISR than `min.insync.replicas`, else 0.",
    *_LABELS,
)
AT_MIN_ISR: Final = gauge(
    f"{_PARTITION}atminisr", "1 if it has exactly `min.insync.replicas` members, else 0.", *_LABELS
)

_EXPORTER: Final = "kafka_topic_partition_"
CURRENT_OFFSET: Final = gauge(
    f"{_EXPORTER}current_offset",
    "The high watermark of a partition that is led here: where consumers have read everything.",
    *_LABELS,
)
OLDEST_OFFSET: Final = gauge(
    f"{_EXPORTER}oldest_offset", "The first offset of a partition that is led here.", *_LABELS
)

LEFT_OUT: Final = gauge(
    "strandline_partitions_without_series",
    "Replicas here that have no series of their own, because there are more than `metrics_partitions_max`.",
)

PARTITION_METRICS: Final = (
    LOG_SIZE, LOG_SEGMENTS, LOG_START, LOG_END,
    REPLICAS, IN_SYNC, UNDER_REPLICATED, UNDER_MIN_ISR, AT_MIN_ISR, CURRENT_OFFSET, OLDEST_OFFSET, LEFT_OUT,
)  # fmt: skip


class Coverage(NamedTuple):
    """How well a partition is replicated, as its leader sees it."""

    replicas: int
    """Assigned ones. As in Kafka, those that a reassignment adds do not count while they catch up."""
    in_sync: int
    needed: int
    """`min.insync.replicas`"""

    @property
    def under_replicated(self) -> bool:
        return self.in_sync < self.replicas

    @property
    def under_min_isr(self) -> bool:
        return self.in_sync < self.needed

    @property
    def at_min_isr(self) -> bool:
        return self.in_sync == self.needed


def coverage(replica: Replica, leadership: Leadership) -> Coverage:
    """That of a partition that is led here."""
    core, moving = leadership.core, replica.reassignment
    wanted = replica.assigned if moving is None else moving.original
    return Coverage(len(wanted), len(core.isr.members), core.min_insync)


class _Row(NamedTuple):
    """The numbers of one replica."""

    topic: str
    partition: int
    size: int
    segments: int
    start: int
    end: int
    watermark: int
    coverage: Coverage | None
    """None: this broker does not lead the partition."""


class PartitionSeries:
    """The replicas that are added first; the manager's order hardly changes while the process runs. Their
    samples are made when this is iterated."""

    def __init__(self, partitions_max: int) -> None:
        self._partitions_max = partitions_max
        self._rows: list[_Row] = []
        self._left_out = 0

    def add(self, replica: Replica, led: Coverage | None) -> None:
        """`led` None: this broker does not lead the partition."""
        if len(self._rows) < self._partitions_max:
            self._rows.append(_row(replica, led))
        else:
            self._left_out += 1

    def __iter__(self) -> Iterator[Sample]:
        yield LEFT_OUT.is_now(self._left_out)
        for topic, partition, size, segments, start, end, watermark, led in self._rows:
            labels = (topic, str(partition))
            yield Sample(LOG_SIZE, labels, size)
            yield Sample(LOG_SEGMENTS, labels, segments)
            yield Sample(LOG_START, labels, start)
            yield Sample(LOG_END, labels, end)
            if led is not None:
                yield Sample(REPLICAS, labels, led.replicas)
                yield Sample(IN_SYNC, labels, led.in_sync)
                yield Sample(UNDER_REPLICATED, labels, led.under_replicated)
                yield Sample(UNDER_MIN_ISR, labels, led.under_min_isr)
                yield Sample(AT_MIN_ISR, labels, led.at_min_isr)
                yield Sample(CURRENT_OFFSET, labels, watermark)
                yield Sample(OLDEST_OFFSET, labels, start)


def _row(replica: Replica, led: Coverage | None) -> _Row:
    name, log = replica.name, replica.log
    return _Row(
        name.topic,
        name.partition,
        log.size_bytes,
        log.segment_count,
        log.log_start_offset,
        log.log_end_offset,
        replica.high_watermark,
        led,
    )
