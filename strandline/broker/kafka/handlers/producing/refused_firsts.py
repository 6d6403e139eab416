"""Remembers producers that were refused a batch of a partition, and will send it again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from strandline.broker.core.replication.producer_state import precedes
from strandline.errors import Outcome, OutOfOrderSequence, StrandlineError
from strandline.ids import TopicId, TopicPartition
from strandline.records import BatchHeader
from strandline.records.header import HEADER_BYTES

REFUSED_MAX: Final = 10_000
"""Refusals that are remembered, two of a producer that names topics by ids; the first is forgotten first."""
REMEMBERED_S: Final = 300.0
"""Longer than the two minutes for which Java's producer and others repeat a batch by default."""


class Place(NamedTuple):
    """A partition as a producer names it: by the topic's name, or by its id in place of it."""

    topic: str
    partition: int
    by_id: bool = False


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
    topic_id: TopicId
    """Of the log that refused it, NO_TOPIC_ID if there was none; or the one by which the producer asked."""
    error: StrandlineError


class RefusedFirsts:
    """For all connections of one broker. Times are monotonic seconds.

    A partition that does not know a producer takes a batch of any sequence from it (KIP-360). But a leader
    may refuse the producer's first batch there, and be ready when the next one arrives, which was on its way
    already. If it took that one, the first would come too late, and be lost as a duplicate. Such a batch is
    out of order: clients send both again.

    A refusal by another topic of this name says less: the producer may have delivered that batch to another
    broker since then. The next one gets the same error, once. If it comes again, nothing comes before it.

    So it is with ids. A producer that learns the id of the next topic of the name may send it beside batches
    that are refused by the old id. An id that is gone has no name here, so any other id counts as that of the
    next topic.
    """

    def __init__(self, topic_id: Callable[[TopicPartition], TopicId]) -> None:
        """`topic_id`: of the log of this name that is here, or NO_TOPIC_ID."""
        self._topic_id = topic_id
        self._refused: OrderedDict[tuple[Place, int, int], _Refused] = OrderedDict()

    def note(self, place: Place, batch: Sequenced | None, error: StrandlineError, now_s: float) -> None:
        """A batch got this error."""
        if batch is None or error.outcome is Outcome.FATAL:
            return
        topic_id = self._topic_at(place)
        for each in _looked_at(place):
            before = self._before(each, batch, now_s)
            if before is not None and before.topic_id == topic_id:
                continue
            key = (each, batch.producer_id, batch.epoch)
            self._refused[key] = _Refused(batch.base_sequence, now_s, topic_id, error)
            self._refused.move_to_end(key)
            if len(self._refused) > REFUSED_MAX:
                self._refused.popitem(last=False)

    def refusal(self, place: Place, batch: Sequenced | None, now_s: float) -> StrandlineError | None:
        """The error of this batch if its producer is not known: one before it may have to come again."""
        if batch is None:
            return None
        for each in _looked_at(place):
            before = self._before(each, batch, now_s)
            if before is None:
                continue
            if before.topic_id != self._topic_at(place):
                return before.error
            return OutOfOrderSequence("a batch before this one was refused, and has to come first")
        return None

    def _topic_at(self, place: Place) -> TopicId:
        if place.by_id:
            return TopicId(place.topic)
        return self._topic_id(TopicPartition(place.topic, place.partition))

    def _before(self, place: Place, batch: Sequenced, now_s: float) -> _Refused | None:
        refused = self._refused.get((place, batch.producer_id, batch.epoch))
        if refused is None or now_s - refused.at_s > REMEMBERED_S:
            return None
        return refused if precedes(refused.base_sequence, batch.base_sequence) else None


def _looked_at(place: Place) -> tuple[Place, ...]:
    """Where its refusals stand: those by an id stand also where each other id finds them."""
    return (place, Place("", place.partition, by_id=True)) if place.by_id else (place,)
