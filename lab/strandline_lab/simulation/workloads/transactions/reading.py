"""Those who read along: the records, and the group's offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from strandline.records import BatchHeader, Record
from strandline.vocabulary.log import ProducerIdentity
from strandline_lab.auditing.transactions import Batch, Read
from strandline_lab.simulation.kafka.client import KafkaClient
from strandline_lab.simulation.kafka.markers import commits
from strandline_lab.simulation.kafka.reader import KafkaReader
from strandline_lab.simulation.workloads.transactions.history import Reads

LAST: Final = b"last"
"""Begins the value of the last record of a partition."""
END: Final = b"end"
"""Begins the value of one behind it, and behind all markers."""

OnBatch = Callable[[int, Batch], None]


class Reading:
    """One reader, from the beginning of each partition to a last record."""

    def __init__(
        self,
        client: KafkaClient,
        partitions: int,
        on_batch: OnBatch,
        *,
        committed: bool,
        deleted: Mapping[int, int],
        last: bytes = LAST,
    ) -> None:
        """`last` begins the value of the last record to read."""
        self._client = client
        self._last = last
        self._left = set(range(partitions))
        self._read_all = asyncio.Event()
        self._on_batch = on_batch
        self._reader = KafkaReader(
            client, partitions, self._take, _ignore, committed=committed, deleted=deleted
        )

    @property
    def left(self) -> list[int]:
        """The partitions of which it has not got the last record."""
        return sorted(self._left)

    async def run(self) -> None:
        """Reads to the end. Cancelled, it may be asked what is left."""
        running = asyncio.get_running_loop().create_task(self._reader.run())
        ended = asyncio.get_running_loop().create_task(self._read_all.wait())
        try:
            await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
        finally:
            for task in (running, ended):
                task.cancel()
            await asyncio.wait((running, ended))
            self._client.close()

    def _take(self, partition: int, header: BatchHeader, records: Sequence[Record]) -> None:
        marker = commits(header, records)
        if header.is_control and marker is None:
            return
        found = () if header.is_control else tuple(Read(each.offset, each.value or b"") for each in records)
        producer = ProducerIdentity(header.producer_id, header.producer_epoch)
        self._on_batch(partition, Batch(header.base_offset, producer, header.is_transactional, marker, found))
        if any(each.begins(self._last) for each in found):
            self._left.discard(partition)
            if not self._left:
                self._read_all.set()


def _ignore(partition: int, watermark: int) -> None:
    """The judge of acknowledged records needs no high watermark."""


def noting(reads: Reads) -> OnBatch:
    """Keeps the records, without markers and what is behind them all."""

    def note(partition: int, batch: Batch) -> None:
        if batch.commits is None:
            found = [each for each in batch.records if not each.begins(END)]
            reads.setdefault(partition, []).extend(found)

    return note
