"""An idempotent producer: a partition has several batches in flight, and a batch keeps its sequence numbers.

After an error or the loss of a connection it waits until all answers of the partition are there or will
never come. Then it sends everything that is not acknowledged again, in order and with the same sequences,
to the leader, wherever that is now.

A topic that is made anew knows no producer, and takes any first sequence (KIP-360). A batch may be the first
there although the one before it was refused. Then that one is out of order, and the producer numbers all that
are left anew, under another id, as Kafka's producers do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from strandline.broker.kafka.wire.produce import (
    PartitionRecords,
    ProduceAnswer,
    ProducedPartition,
    ProduceRequest,
)
from strandline.broker.kafka.wire.producer_id import InitProducerIdRequest
from strandline.broker.kafka.wire.topics import OfTopic, each_partition
from strandline.errors import ErrorCode
from strandline.ids import ACKS_ALL
from strandline.records import PackedRecords, pack
from strandline_lab.simulation.kafka.client import AGAIN_S, ANSWER_S_MAX, LOOK_AGAIN, KafkaClient
from strandline_lab.simulation.kafka.connection import Disconnected
from strandline_lab.simulation.kafka.messages import INIT_PRODUCER_ID, PRODUCE

IN_FLIGHT_MAX: Final = 5
"""Batches of one partition: brokers tell repeated ones from new ones up to this number (KIP-98)."""
RECORDS_MAX: Final = 3
"""Records of one batch."""
TIMEOUT_MS: Final = 1_000

OnAcked = Callable[[int, int, int], None]
"""Gets a record's number, its partition, and its offset; -1: the broker no longer knows it."""


@dataclass(slots=True)
class _Batch:
    records: list[int]
    packed: PackedRecords
    sequence: int


def is_passing(error: int, *, after_error: bool) -> bool:
    """Whether a batch with this error may be written once it is sent again. `after_error`: a batch before
    it, sent on the same connection, is not acknowledged."""
    return error in LOOK_AGAIN or (after_error and error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


class _Partition:
    """What one partition waits for."""

    def __init__(self) -> None:
        self.fresh: deque[tuple[int, bytes]] = deque()
        """Records without a batch."""
        self.batches: deque[_Batch] = deque()
        """Not acknowledged, in order."""
        self.sequence = 0
        self.identity: tuple[int, int] | None = None
        """Its own producer id and epoch, once it had to be numbered anew."""
        self.renewed = False
        """It has to be numbered anew."""
        self.woken = asyncio.Event()

    @property
    def idle(self) -> bool:
        return not self.fresh and not self.batches


class KafkaProducer:
    """Writes values to the partitions of one topic. `run` sends until it is cancelled."""

    def __init__(
        self, client: KafkaClient, partitions: int, on_acked: OnAcked, *, unsteady: bool = False
    ) -> None:
        """`unsteady`: the topic may be made anew under its name."""
        self._client = client
        self._unsteady = unsteady
        self._partitions = [_Partition() for _ in range(partitions)]
        self._on_acked = on_acked
        self._identity = (-1, -1)

    def send(self, partition: int, record: int, value: bytes) -> None:
        self._partitions[partition].fresh.append((record, value))
        self._partitions[partition].woken.set()

    @property
    def idle(self) -> bool:
        """Everything is acknowledged."""
        return all(each.idle for each in self._partitions)

    async def run(self) -> None:
        self._identity = await self._new_identity()
        async with asyncio.TaskGroup() as tasks:
            for number, partition in enumerate(self._partitions):
                tasks.create_task(self._deliver(number, partition))

    async def _new_identity(self) -> tuple[int, int]:
        while True:
            try:
                found = await self._client.ask_any(INIT_PRODUCER_ID, InitProducerIdRequest(None))
            except Disconnected:
                found = None
            if found is not None and found.error == 0:
                return found.producer_id, found.producer_epoch
            await self._client.host.clock.sleep(AGAIN_S)

    async def _deliver(self, number: int, partition: _Partition) -> None:
        while True:
            if partition.idle:
                await partition.woken.wait()
            partition.woken.clear()
            if not await self._send_in_order(number, partition):
                await self._client.refresh()
            if partition.renewed:
                await self._number_anew(partition)

    async def _number_anew(self, partition: _Partition) -> None:
        """Nothing of the partition is in flight."""
        partition.identity = await self._new_identity()
        partition.sequence, partition.renewed = 0, False
        for batch in partition.batches:
            batch.sequence = partition.sequence
            partition.sequence += len(batch.records)

    # --- sending -----------------------------------------------------------------------------

    async def _send_in_order(self, number: int, partition: _Partition) -> bool:
        """Sends until nothing is left. False: something went wrong, and nothing is in flight now."""
        led = self._client.led(number)
        try:
            connection = await self._client.connection(led.broker)
        except Disconnected:
            return False
        in_flight: deque[tuple[_Batch, asyncio.Future[ProduceAnswer]]] = deque()
        unsent = deque(partition.batches)
        well = True
        while in_flight or (well and (unsent or partition.fresh)):
            while well and len(in_flight) < IN_FLIGHT_MAX and (unsent or partition.fresh):
                batch = unsent.popleft() if unsent else self._new_batch(partition)
                in_flight.append((batch, connection.ask(PRODUCE, self._request(number, partition, batch))))
            batch, answer = in_flight.popleft()
            try:
                async with asyncio.timeout(ANSWER_S_MAX):
                    found = await answer
            except TimeoutError:
                connection.close()
                well = False
            except Disconnected:
                well = False
            else:
                [(_, produced)] = each_partition(found.topics)
                well = self._settle(number, partition, batch, produced, after_error=not well)
        return well

    def _new_batch(self, partition: _Partition) -> _Batch:
        count = min(len(partition.fresh), self._client.random.randint(1, RECORDS_MAX))
        taken = [partition.fresh.popleft() for _ in range(count)]
        at_ms = self._client.host.clock.wall_ms()
        packed = pack([(None, value, (), at_ms) for _, value in taken])
        batch = _Batch([record for record, _ in taken], packed, partition.sequence)
        partition.sequence += count
        partition.batches.append(batch)
        return batch

    def _request(self, number: int, partition: _Partition, batch: _Batch) -> ProduceRequest:
        producer_id, epoch = partition.identity or self._identity
        records = batch.packed.seal(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=batch.sequence
        )
        topic = OfTopic(self._client.topic, (PartitionRecords(number, memoryview(records)),))
        return ProduceRequest(ACKS_ALL, TIMEOUT_MS, (topic,))

    def _settle(
        self,
        number: int,
        partition: _Partition,
        batch: _Batch,
        produced: ProducedPartition,
        *,
        after_error: bool,
    ) -> bool:
        """False if the batch has to be sent again."""
        if produced.error in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            partition.batches.remove(batch)
            for place, record in enumerate(batch.records):
                offset = -1 if produced.base_offset < 0 else produced.base_offset + place
                self._on_acked(record, number, offset)
            return not after_error
        if is_passing(produced.error, after_error=after_error):
            return False
        if self._unsteady and produced.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            partition.renewed = True
        else:
            self._wrong(number, batch, f"was refused with error {produced.error}: {produced.message}")
        return False

    def _wrong(self, number: int, batch: _Batch, what: str) -> None:
        self._client.wrong.append(
            f"{self._client.name}: the batch of {self._client.topic}-{number} with sequence {batch.sequence} "
            f"{what}"
        )
