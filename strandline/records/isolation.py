"""Leaves out what aborted transactions wrote: which batches a reader of committed records gets (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strandline.records.control import decode_marker
from strandline.records.header import BatchHeader, Bytes, iterate


class LeftOut:
    """Decides which batches of one fetch its reader does not get, in their order.

    `aborted`: producer ids and first offsets, in the order of those, as they came with the records. What such
    a producer wrote from there on was aborted, up to its next abort marker. Markers are for no reader.
    """

    __slots__ = ("_aborting", "_following", "_to_come")

    def __init__(self, aborted: Iterable[tuple[int, int]] = ()) -> None:
        self._to_come = iter(aborted)
        self._following = next(self._to_come, None)
        self._aborting = set[int]()

    def leaves_out(self, records: Bytes, header: BatchHeader) -> bool:
        """Whether the reader does not get this batch, the next one of the records. Raises CorruptMessage."""
        while self._following is not None and self._following[1] <= header.last_offset:
            self._aborting.add(self._following[0])
            self._following = next(self._to_come, None)
        if not header.is_control:
            return header.is_transactional and header.producer_id in self._aborting
        if header.producer_id in self._aborting:
            marker = decode_marker(records, header)
            if marker is not None and not marker.commit:
                self._aborting.discard(header.producer_id)
        return True


def of_committed(records: Bytes, aborted: Iterable[tuple[int, int]]) -> Iterator[BatchHeader]:
    """The headers of the batches that a reader of committed records gets. `aborted`: as of `LeftOut`. Raises
    CorruptMessage."""
    left_out = LeftOut(aborted)
    return (header for header in iterate(records) if not left_out.leaves_out(records, header))
