"""Remembers producers that were refused their first batch of a partition, and will send it again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from strandline.errors import Outcome, StrandlineError
from strandline.ids import TopicPartition
from strandline.records import BatchHeader
from strandline.records.header import HEADER_BYTES

REFUSED_MAX: Final = 10_000
"""Producers that are remembered; the one that was refused first is forgotten first."""
REMEMBERED_S: Final = 300.0
"""Longer than the two minutes for which Java's producer and others repeat a batch by default."""


class Sequenced(NamedTuple):
    """What a batch says of its producer."""

    producer_id: int
    epoch: int
    base_sequence: int

    @classmethod
    def of(cls, records: memoryview | bytes) -> Sequenced | None:
        """None: the bytes are no batch, or one of a producer that is not idempotent."""
        if len(records) < HEADER_BYTES:
            return None
        header = BatchHeader.parse(records)
        if header.producer_id < 0:
            return None
        return cls(header.producer_id, header.producer_epoch, header.base_sequence)


class RefusedFirsts:
    """For all connections of one broker. Times are monotonic seconds.

    A leader may refuse the first batch of a producer, and be ready when the second one arrives, which was on
    its way already. The log has no record of this producer, as if the broker had forgotten it. librdkafka
    ends for good if a batch that it repeats is of an unknown producer; if the batch is out of order, it sends
    both again.
    """

    def __init__(self) -> None:
        self._at_s: OrderedDict[tuple[TopicPartition, int, int], float] = OrderedDict()

    def note(
        self, name: TopicPartition, batch: Sequenced | None, error: StrandlineError, now_s: float
    ) -> None:
        """A batch got this error."""
        if batch is None or batch.base_sequence != 0 or error.outcome is Outcome.FATAL:
            return
        key = (name, batch.producer_id, batch.epoch)
        self._at_s[key] = now_s
        self._at_s.move_to_end(key)
        if len(self._at_s) > REFUSED_MAX:
            self._at_s.popitem(last=False)

    def precede(self, name: TopicPartition, batch: Sequenced | None, now_s: float) -> bool:
        """Whether the producer of this batch still has to repeat its first one."""
        if batch is None:
            return False
        at_s = self._at_s.get((name, batch.producer_id, batch.epoch))
        return at_s is not None and now_s - at_s <= REMEMBERED_S
