"""A load with a memory: what `demo` and `perf failover` send, read and wait for while they break things."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline.adapters.system.clock import SystemClock
from strandline.cli.load.ledger import Ledger
from strandline.errors import Outcome, RequestTimedOut, StrandlineError

if TYPE_CHECKING:
    from strandline import Admin, Consumer, ConsumerRecord, Producer, RecordMetadata, TopicPartition

WAIT_S_MAX: Final = 30.0
"""For one step: a new leader, a whole ISR, the last record. Longer means that it will not happen."""
LOOK_AGAIN_S: Final = 0.05
POLL_MS: Final = 100


@dataclass(slots=True)
class _Expected:
    """Somebody waits for the first acknowledgement of a record sent later than `sent_after`."""

    partition: int
    sent_after: float
    acked_at: asyncio.Future[float]


class Feeder:
    """Sends records in order and enters what becomes of each into a ledger."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.ledger = Ledger()
        self.sent = 0
        self.first_error: BaseException | None = None
        self._producer = producer
        self._topic = topic
        self._monotonic = SystemClock().monotonic
        self._expected: list[_Expected] = []

    async def send(self, key: bytes | None, value: bytes, *, partition: int | None = None) -> None:
        """Send one record; does not wait for its acknowledgement."""
        number, self.sent = self.sent, self.sent + 1
        future = await self._producer.send(self._topic, value, key, partition=partition)
        future.add_done_callback(partial(self._ended, number, self._monotonic(), key, value))

    def expect_ack(self, partition: int, *, sent_after: float) -> asyncio.Future[float]:
        """When the first record of `partition` that was sent after that moment was acknowledged.

        Records sent before do not count: their acknowledgement may already have been on its way.
        """
        expected = _Expected(partition, sent_after, asyncio.get_running_loop().create_future())
        self._expected.append(expected)
        return expected.acked_at

    def _ended(
        self,
        number: int,
        sent_at: float,
        key: bytes | None,
        value: bytes,
        future: asyncio.Future[RecordMetadata],
    ) -> None:
        error = future.exception()
        if error is None:
            metadata = future.result()
            self.ledger.acknowledge(number, metadata.partition, metadata.offset, key, value)
            self._meet(metadata.partition, sent_at)
            return
        if self.first_error is None:
            self.first_error = error
        if not isinstance(error, StrandlineError) or error.outcome is Outcome.UNKNOWN:
            self.ledger.give_up(key, value)

    def _meet(self, partition: int, sent_at: float) -> None:
        for expected in list(self._expected):
            if expected.partition == partition and sent_at > expected.sent_after:
                expected.acked_at.set_result(self._monotonic())
                self._expected.remove(expected)


async def within(what: str, future: asyncio.Future[float]) -> float:
    """Wait for `future`. Raises RequestTimedOut that says what did not happen."""
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            return await future
    except TimeoutError:
        raise RequestTimedOut(f"{what} did not happen within {WAIT_S_MAX:.0f} s") from None


async def isr_whole(admin: Admin, topic: str) -> Mapping[int, int]:
    """Wait until each replica of `topic` is in sync; the leader of each partition.

    Raises RequestTimedOut.
    """
    clock = SystemClock()
    deadline = clock.monotonic() + WAIT_S_MAX
    while True:
        (description,) = await admin.describe_topics([topic])
        partitions = description.partitions
        if all(each.leader >= 0 and set(each.isr) == set(each.replicas) for each in partitions):
            return {each.partition: each.leader for each in partitions}
        if clock.monotonic() > deadline:
            behind = {each.partition: sorted(set(each.replicas) - set(each.isr)) for each in partitions}
            raise RequestTimedOut(
                f"after {WAIT_S_MAX:.0f} s replicas are still out of sync, by partition: {behind}"
            )
        await clock.sleep(LOOK_AGAIN_S)


async def read_until_complete(
    consumer: Consumer, partitions: Sequence[TopicPartition], sent: asyncio.Event
) -> list[ConsumerRecord]:
    """Read `partitions` from their beginning; once `sent` is set, on to the ends that they have then.

    Returns the records in the order in which they came. Raises RequestTimedOut when they stop coming
    before the end.
    """
    monotonic = SystemClock().monotonic
    reached = await consumer.beginning_offsets(partitions)
    consumer.assign(partitions)
    for each, offset in reached.items():
        consumer.seek(each, offset)
    records: list[ConsumerRecord] = []
    ends: Mapping[TopicPartition, int] | None = None
    heard = monotonic()
    while True:
        for each, batch in (await consumer.getmany(timeout_ms=POLL_MS)).items():
            records.extend(batch)
            reached[each] = batch[-1].offset + 1
            heard = monotonic()
        if ends is None and sent.is_set():
            ends = await consumer.end_offsets(list(partitions))
            heard = monotonic()
        if ends is not None:
            if all(reached[each] >= ends[each] for each in partitions):
                return records
            if monotonic() - heard > WAIT_S_MAX:
                raise RequestTimedOut(
                    f"the consumer stands at {reached} and gets no further; the ends are {ends}"
                )
