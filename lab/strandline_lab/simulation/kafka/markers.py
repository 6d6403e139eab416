"""What a Kafka client knows of transactions in the batches that it reads (KIP-98).

It stands beside the broker's own code, which it is a judge of.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence

from strandline.broker.kafka.wire.fetch import AbortedTransaction
from strandline.records import BatchHeader, Record

_KEY = struct.Struct(">hh")
_ABORT = 0


def commits(header: BatchHeader, records: Sequence[Record]) -> bool | None:
    """What a marker says; None for a batch that is none."""
    if not header.is_control or not records:
        return None
    _, kind = _KEY.unpack_from(records[0].key or b"")
    return bool(kind != _ABORT)


class Aborting:
    """The aborted transactions in the records of one answer."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = deque(aborted)
        self._producers = set[int]()

    def leaves_out(self, header: BatchHeader, records: Sequence[Record]) -> bool:
        """Whether this batch is none of a committed record. Called with each one, in their order."""
        while self._to_come and self._to_come[0].first_offset <= header.last_offset:
            self._producers.add(self._to_come.popleft().producer_id)
        if commits(header, records) is False:
            self._producers.discard(header.producer_id)
        return not header.is_control and header.is_transactional and header.producer_id in self._producers
