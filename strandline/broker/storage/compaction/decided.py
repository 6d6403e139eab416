"""What compaction does with transactions, all of which are decided in the part that it rewrites.

Records of aborted ones go. Those of committed ones lose the mark of their transaction, so that its marker is
not needed; a batch by which its producer is known again keeps it, and then the marker stays, too. Other
markers go as tombstones do, after `delete.retention.ms`: until then a reader that began before finds them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set

from strandline.broker.core.replication.transactions import AbortedTransaction
from strandline.records import BatchHeader, without_transaction
from strandline.records.header import in_transaction


class DecidedTransactions:
    """The transactions of one pass, whose batches come in the order of their offsets."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for producer_id, first, marker in aborted:
            self._aborted[producer_id].append((first, marker))
        self._marked: set[int] = set()
        """Producers with a batch that keeps its mark."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the records of the batch were aborted."""
        if not header.is_transactional or header.is_control:
            return False
        spans = self._aborted.get(header.producer_id, ())
        return any(first <= header.base_offset < marker for first, marker in spans)

    def committed(self, header: BatchHeader, left: bytes | None, needed: Set[int]) -> bytes | None:
        """What is left of a committed batch, if need be without the mark of its transaction."""
        if left is None or not in_transaction(left):
            return left
        if header.base_offset in needed:
            self._marked.add(header.producer_id)
            return left
        return without_transaction(left)

    def needs(self, marker: BatchHeader) -> bool:
        """Whether a batch of the transaction that this marker ends keeps its mark."""
        needed = marker.producer_id in self._marked
        self._marked.discard(marker.producer_id)
        return needed
