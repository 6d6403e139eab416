"""A reader: long polls with the leader's epoch, and a look whether its position is still in the log.

When it learns of a new leader epoch it asks where the epoch of its last record ends (KIP-320). An end before
its position means that records which it has read are gone: no broker may lose what a reader got, unless the
topic is unsteady. There the reader goes on where the log is another one.

A reader of committed records leaves out what the aborted transactions wrote that come with them (KIP-98).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from strandline.broker.kafka.wire.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchedPartition,
    FetchRequest,
    PartitionPosition,
)
from strandline.broker.kafka.wire.offsets import (
    EpochEndsRequest,
    ListOffsetsRequest,
    PartitionEpoch,
    PartitionEpochEnd,
    PartitionTime,
)
from strandline.broker.kafka.wire.topics import OfTopic, each_partition
from strandline.errors import ErrorCode
from strandline.records import BatchHeader, Record, decode_batch, iterate
from strandline_lab.simulation.kafka.client import LOOK_AGAIN, NOT_LED, KafkaClient, Led
from strandline_lab.simulation.kafka.connection import Disconnected, KafkaConnection
from strandline_lab.simulation.kafka.markers import Aborting
from strandline_lab.simulation.kafka.messages import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH

WAIT_MS: Final = 500
BYTES_MAX: Final = 64 * 1024
UNKNOWN: Final = -1
EARLIEST: Final = -2
"""In the place of a time: the log's start."""

OnRecords = Callable[[int, BatchHeader, Sequence[Record]], None]
"""Gets a partition, the header of a batch, and its records in their order: also those of markers."""
OnWatermark = Callable[[int, int], None]
"""Gets a partition and its high watermark."""


@dataclass(slots=True)
class _Position:
    offset: int = 0
    epoch: int = UNKNOWN
    """Of the last record that was read."""
    valid_in: Led = NOT_LED
    """The leader that has confirmed the position."""
    knowing: Led = NOT_LED
    """The leader that certainly knows that all below the position is committed: it said so, or was read."""
    stable: tuple[Led, int] = (NOT_LED, 0)
    """The last stable offset that was seen last, and the leader that said so."""
    open: defaultdict[int, list[range]] = field(default_factory=lambda: defaultdict(list))
    """The transactions whose marker is not among what was read: the offsets of their batches, by producer
    id."""
    claims: dict[int, int] = field(default_factory=dict)
    """By producer id: the epoch of the first leader that said that its transaction is decided."""
    gone: bool = False
    """The record at this position is deleted, and those before it."""


class KafkaReader:
    """Reads all partitions of one topic from their beginning. `run` reads until it is cancelled.

    `unsteady`: the topic may be made anew under its name, and unclean elections may cut its log."""

    def __init__(
        self,
        client: KafkaClient,
        partitions: int,
        on_records: OnRecords,
        on_watermark: OnWatermark,
        *,
        unsteady: bool = False,
        committed: bool = False,
        deleted: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """`committed`: reads what is committed, and stays below the last stable offset. `deleted`: by
        partition, below which offset records may be deleted; the reader goes on where its log starts."""
        self._client = client
        self._unsteady = unsteady
        self._committed = committed
        self._deleted = deleted
        self._positions = {number: _Position() for number in range(partitions)}
        self._on_records = on_records
        self._on_watermark = on_watermark

    async def run(self) -> None:
        while True:
            by_leader: defaultdict[int, list[int]] = defaultdict(list)
            for number in self._positions:
                by_leader[self._client.led(number).broker].append(number)
            by_leader.pop(NOT_LED.broker, None)
            async with asyncio.TaskGroup() as tasks:
                reads = [
                    tasks.create_task(self._read(broker, numbers)) for broker, numbers in by_leader.items()
                ]
            led = sum(map(len, by_leader.values()))
            if led < len(self._positions) or not all(read.result() for read in reads):
                await self._client.refresh()

    async def _read(self, broker: int, numbers: Sequence[int]) -> bool:
        """One fetch of a broker. False: another broker may lead by now."""
        client = self._client
        try:
            connection = await client.connection(broker)
            led = {number: client.led(number) for number in numbers}
            doubtful = [number for number in numbers if self._positions[number].valid_in != led[number]]
            if doubtful:
                asked = EpochEndsRequest((OfTopic(client.topic, tuple(self._epochs(doubtful, led))),))
                ends = await client.ask(connection, OFFSET_FOR_LEADER_EPOCH, asked)
                for _, end in each_partition(ends.topics):
                    self._validate(end, led[end.partition])
            valid = [number for number in numbers if self._positions[number].valid_in == led[number]]
            if not valid:
                return False
            await self._find_starts(connection, valid, led)
            places = OfTopic(client.topic, tuple(self._places(valid, led)))
            level = READ_COMMITTED if self._committed else READ_UNCOMMITTED
            fetch = FetchRequest(WAIT_MS, 1, BYTES_MAX, level, (places,))
            found = await client.ask(connection, FETCH, fetch)
        except Disconnected:
            return False
        taken = [self._take(each, led[each.partition]) for _, each in each_partition(found.topics)]
        return all(taken) and len(valid) == len(numbers)

    async def _find_starts(
        self, connection: KafkaConnection, numbers: Sequence[int], led: dict[int, Led]
    ) -> None:
        """Go to the start of each log whose record at the position is gone. Raises Disconnected."""
        gone = [number for number in numbers if self._positions[number].gone]
        if not gone:
            return
        wanted = tuple(PartitionTime(number, led[number].epoch, EARLIEST) for number in gone)
        request = ListOffsetsRequest((OfTopic(self._client.topic, wanted),))
        answer = await self._client.ask(connection, LIST_OFFSETS, request)
        for _, found in each_partition(answer.topics):
            position = self._positions[found.partition]
            if not found.error:
                position.offset, position.epoch = max(position.offset, found.offset), UNKNOWN
                position.open.clear()  # their markers may be among what is deleted
                position.claims.clear()
                position.gone = False

    def _epochs(self, numbers: Sequence[int], led: dict[int, Led]) -> list[PartitionEpoch]:
        return [
            PartitionEpoch(number, led[number].epoch, max(0, self._positions[number].epoch))
            for number in numbers
        ]

    def _places(self, numbers: Sequence[int], led: dict[int, Led]) -> list[PartitionPosition]:
        return [
            PartitionPosition(number, led[number].epoch, self._positions[number].offset, BYTES_MAX)
            for number in numbers
        ]

    def _validate(self, found: PartitionEpochEnd, led: Led) -> None:
        number, position, end = found.partition, self._positions[found.partition], found.end_offset
        if found.error == 0:
            if position.epoch != UNKNOWN and end < position.offset and not self._may_be_gone(number):
                if self._unsteady:
                    position.offset, position.epoch = max(0, end), found.epoch
                else:
                    self._wrong(
                        number,
                        f"epoch {position.epoch} ends at {end}, and offset {position.offset - 1} of it was "
                        "read",
                    )
            position.valid_in = led
        elif found.error not in LOOK_AGAIN:
            self._wrong(number, f"a question for the end of an epoch failed with error {found.error}")

    def _take(self, found: FetchedPartition, led: Led) -> bool:
        number, position = found.partition, self._positions[found.partition]
        if found.error:
            if found.error == ErrorCode.OFFSET_OUT_OF_RANGE and self._unsteady:
                position.offset, position.epoch = 0, UNKNOWN
            elif found.error == ErrorCode.OFFSET_OUT_OF_RANGE and self._may_be_gone(number):
                position.gone = True
            elif found.error not in LOOK_AGAIN:
                self._wrong(number, f"a fetch at {position.offset} failed with error {found.error}")
            position.valid_in = NOT_LED
            return False
        aborting = Aborting((found.aborted or ()) if self._committed else ())
        for header in iterate(found.records):
            records = decode_batch(found.records, header, from_offset=position.offset)
            left_out = aborting.leaves_out(header, records)
            if header.next_offset <= position.offset:
                continue
            if header.is_control:
                self._ended(number, position, header)
            elif header.is_transactional:
                position.open[header.producer_id].append(range(header.base_offset, header.next_offset))
            if not left_out:
                self._on_records(number, header, records)
            position.offset, position.epoch, position.knowing = header.next_offset, header.leader_epoch, led
        if found.high_watermark >= 0:  # a new leader does not know it at once
            self._look_at(number, position, found.high_watermark, led)
            self._look_at_stable(number, position, found, led)
        return True

    def _look_at(self, number: int, position: _Position, watermark: int, led: Led) -> None:
        """A new leader that lacks in-sync replicas says a high watermark that may be an old one."""
        if watermark >= position.offset:
            position.knowing = led
        elif position.knowing == led and _was_read(position) and not self._unsteady:
            self._wrong(number, f"offset {position.offset - 1} was read above the high watermark {watermark}")
        self._on_watermark(number, watermark)

    def _look_at_stable(self, number: int, position: _Position, found: FetchedPartition, led: Led) -> None:
        """What is decided under a leader stays decided under it."""
        stable, (by, before) = found.last_stable_offset, position.stable
        if stable > found.high_watermark:
            self._wrong(number, f"{stable} is stable, above the high watermark {found.high_watermark}")
        if stable < min(found.log_start_offset, found.high_watermark):
            self._wrong(number, f"{stable} is stable, and the log begins at {found.log_start_offset}")
        if by == led and stable < before:
            self._wrong(
                number, f"the last stable offset was {before}, and then {stable} in epoch {led.epoch}"
            )
        knows = position.knowing == led and _was_read(position)
        if self._committed and knows and stable < position.offset:
            self._wrong(number, f"offset {position.offset - 1} was read, and only {stable} is stable")
        if position.offset == found.high_watermark and not self._unsteady:
            for producer in _decided(position, found.log_start_offset, stable):
                position.claims.setdefault(producer, led.epoch)
        position.stable = (led, stable)

    def _ended(self, number: int, position: _Position, marker: BatchHeader) -> None:
        """A marker was read. A leader may have counted on it before its high watermark was there again, if it
        had it from an earlier leader."""
        batches = position.open.pop(marker.producer_id, None)
        claimed = position.claims.pop(marker.producer_id, None)
        if batches and claimed is not None and marker.leader_epoch >= claimed:
            self._wrong(
                number,
                f"what began at {batches[0].start} was stable in epoch {claimed}, before its marker at "
                f"{marker.base_offset} of epoch {marker.leader_epoch} was committed",
            )

    def _may_be_gone(self, number: int) -> bool:
        return self._positions[number].offset < self._deleted.get(number, 0)

    def _wrong(self, number: int, what: str) -> None:
        self._client.wrong.append(f"{self._client.name}: {self._client.topic}-{number}: {what}")


def _was_read(position: _Position) -> bool:
    """False where the log began for an earlier leader: a later one may not know of that yet."""
    return position.epoch != UNKNOWN


def _decided(position: _Position, log_start: int, stable: int) -> list[int]:
    """The producers whose transactions count as decided, with a marker that was not read. A transaction
    whose records are all deleted is none: a replica that begins behind them knows nothing of it."""
    return [
        producer
        for producer, batches in position.open.items()
        if any(batch.stop > log_start and max(log_start, batch.start) < stable for batch in batches)
    ]
