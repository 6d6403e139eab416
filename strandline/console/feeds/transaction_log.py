"""Reads what `__transaction_state` says of one transactional id: only while a page looks at it.

Thousands of transactions a second leave thousands of records there, so the console follows none of them
unasked. A look reads the newest records of the one partition that has the id, later looks what has come
since.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from strandline.broker.coordinators.placement import partition_of
from strandline.broker.core.transactions.records import decode_value, encode_key
from strandline.client.reading.records import ConsumerRecord
from strandline.console.core.timeline.facts.transactions import Changed
from strandline.console.feeds.shared_answers import SharedAnswers
from strandline.consumer.consumer import Consumer
from strandline.errors import OffsetOutOfRange, StrandlineError
from strandline.ids import TRANSACTIONS_TOPIC, TopicPartition
from strandline.ports import Clock

BACK_RECORDS: Final = 10_000
"""The newest records of the partition, with which a first look begins."""
CHANGES_MAX: Final = 5_000
"""Records of one transactional id that are kept; the oldest go first."""
LOOKED_AT_MAX: Final = 16
"""Transactional ids that are kept, each for one caller; those that were looked at longest ago go first."""
POLL_MS: Final = 1_000

NewConsumer = Callable[[], Consumer]
"""A consumer of the caller's, with `offset_reset = none`."""


@dataclass(slots=True)
class Looked:
    """What is known of one transactional id. All that was written up to `read_until_ms` is in it; what was
    before `kept_from_ms` is not, and None if it begins with the log. `version` rises with its changes."""

    transactional_id: str
    changes: deque[Changed] = field(default_factory=lambda: deque(maxlen=CHANGES_MAX))
    next_offset: int | None = None
    kept_from_ms: int | None = None
    read_until_ms: int = 0
    version: int = 0


class TransactionLog:
    """What was looked at lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked: OrderedDict[tuple[Hashable, str], Looked] = OrderedDict()
        self._answers: SharedAnswers[Looked] = SharedAnswers(clock)

    async def look(self, caller: Hashable, transactional_id: str, new_consumer: NewConsumer) -> Looked:
        """What is known of the id now. `caller`: equal ones have the same rights. Raises
        UnknownTopicOrPartition before the first transaction of the cluster, TopicAuthorizationFailed, …"""
        key = (caller, transactional_id)

        async def read() -> Looked:
            looked = self._looked.setdefault(key, Looked(transactional_id))
            self._looked.move_to_end(key)
            while len(self._looked) > LOOKED_AT_MAX:
                self._looked.popitem(last=False)
            try:
                await self._read_on(looked, new_consumer)
            except OffsetOutOfRange:
                del self._looked[key]  # the topic is another one now, or has lost what was read
                raise
            return looked

        return await self._answers.get(key, read)

    def found(self, caller: Hashable, partition: int, offset: int) -> Changed | None:
        """A record of an id that this caller looked at lately; None if it is not kept."""
        for (who, _), looked in self._looked.items():
            if who == caller:
                for change in looked.changes:
                    if (change.partition, change.offset) == (partition, offset):
                        return change
        return None

    async def _read_on(self, looked: Looked, new_consumer: NewConsumer) -> None:
        key = encode_key(looked.transactional_id)
        now_ms = self._clock.wall_ms()
        async with new_consumer() as consumer:
            name, begin, end = await _place(consumer, looked.transactional_id)
            cut = looked.next_offset is None and end - begin > BACK_RECORDS
            first = max(begin, end - BACK_RECORDS) if looked.next_offset is None else looked.next_offset
            consumer.assign([name])
            consumer.seek(name, first)
            while await consumer.position(name) < end:
                for record in (await consumer.getmany(name, timeout_ms=POLL_MS)).get(name, ()):
                    if cut and looked.kept_from_ms is None:
                        looked.kept_from_ms = record.timestamp
                    if record.key == key:
                        _note(looked, name.partition, record)
                looked.next_offset = await consumer.position(name)
        looked.read_until_ms = now_ms


async def _place(consumer: Consumer, transactional_id: str) -> tuple[TopicPartition, int, int]:
    """The partition of the id, where its log begins, and where it ends."""
    count = len(await consumer.partitions_for(TRANSACTIONS_TOPIC))
    name = TopicPartition(TRANSACTIONS_TOPIC, partition_of(transactional_id, count))
    begins, ends = await consumer.beginning_offsets([name]), await consumer.end_offsets([name])
    return name, begins[name], ends[name]


def _note(looked: Looked, partition: int, record: ConsumerRecord) -> None:
    """A record that cannot be read says nothing here."""
    try:
        held = record.value and decode_value(looked.transactional_id, record.value, record.headers)
    except StrandlineError:
        return
    if len(looked.changes) == CHANGES_MAX:
        looked.kept_from_ms = looked.changes[0].at_ms
    looked.changes.append(Changed(partition, record.offset, record.timestamp, held or None))
    looked.version += 1
