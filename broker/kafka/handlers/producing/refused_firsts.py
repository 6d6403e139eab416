"""Remembers producers that were refused a batch of a partition, and will send it again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from strandline.broker.core.replication.producer_state import precedes
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


class _Refused(NamedTuple):
    base_sequence: int
    at_s: float


class RefusedFirsts:
    """For all connections of one broker. Times are monotonic seconds.

    A partition that does not know a producer takes a batch of any sequence from it (KIP-360). But a leader
    may refuse the producer's first batch there, and be ready when the next one arrives, which was on its way
    already. If it took that one, the first would come too late, and be lost as a duplicate. Such a batch is
    out of order: clients send both again.
    """

    def __init__(self) -> None:
        self._refused: OrderedDict[tuple[TopicPartition, int, int], _Refused] = OrderedDict()

    def note(
        self, name: TopicPartition, batch: Sequenced | None, error: StrandlineError, now_s: float
    ) -> None:
        """A batch got this error."""
        if batch is None or error.outcome is Outcome.FATAL or self.precede(name, batch, now_s):
            return
        key = (name, batch.producer_id, batch.epoch)
        self._refused[key] = _Refused(batch.base_sequence, now_s)
        self._refused.move_to_end(key)
        if len(self._refused) > REFUSED_MAX:
            self._refused.popitem(last=False)

    def precede(self, name: TopicPartition, batch: Sequenced | None, now_s: float) -> bool:
        """Whether a batch before this one was refused, and has to come again."""
        if batch is None:
            return False
        refused = self._refused.get((name, batch.producer_id, batch.epoch))
        if refused is None or now_s - refused.at_s > REMEMBERED_S:
            return False
        return precedes(refused.base_sequence, batch.base_sequence)
