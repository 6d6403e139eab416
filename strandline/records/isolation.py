"""Leaves out what aborted transactions wrote: which batches a reader of committed records gets (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strandline.records.control import decode_marker
from strandline.records.header import BatchHeader, Bytes, iterate


def of_committed(records: Bytes, aborted: Iterable[tuple[int, int]]) -> Iterator[BatchHeader]:
    """The headers of the batches that a reader of committed records gets, without markers.

    `aborted`: producer ids and first offsets, in the order of those, as they came with these records. What
    such a producer wrote from there on was aborted, up to its next abort marker. Raises CorruptMessage.
    """
    to_come = iter(aborted)
    following = next(to_come, None)
    aborting = set[int]()
    for header in iterate(records):
        while following is not None and following[1] <= header.last_offset:
            aborting.add(following[0])
            following = next(to_come, None)
        if header.is_control:
            marker = decode_marker(records, header)
            if marker is not None and not marker.commit:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield header
