"""The offsets of one group that wait for their transactions to end (KIP-98).

An offset that a transaction commits is pending until the transaction's marker is in the log. A marker that
commits makes it the group's offset, from its own position in the log and not from the marker's: a plain
commit that came between the two is the later one. A marker that aborts drops it. A removal of the partition's
offset drops all that were pending before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from strandline.broker.core.groups.state_bytes import OFFSET_BYTES, StateBytes
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset


class Kept(NamedTuple):
    """An offset, and the position in the log of its record (`Offsets`)."""

    committed: CommittedOffset
    position: int


class PendingOffsets:
    """Written offsets by partition and producer. A producer has one transaction at a time."""

    __slots__ = ("_all_bytes", "_by_name", "_names_of")

    def __init__(self, state_bytes: StateBytes) -> None:
        self._all_bytes = state_bytes
        self._by_name: dict[TopicPartition, dict[int, Kept]] = {}
        self._names_of: dict[int, dict[TopicPartition, None]] = {}

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._by_name)

    def __len__(self) -> int:
        """Partitions with pending offsets."""
        return len(self._by_name)

    def of(self, name: TopicPartition) -> Mapping[int, Kept]:
        """The offsets that wait for this partition, by producer."""
        return self._by_name.get(name, {})

    def add(self, name: TopicPartition, producer_id: int, kept: Kept) -> None:
        """The log has this offset in an open transaction. It replaces an earlier one of the same producer."""
        known = self.of(name).get(producer_id)
        if known is not None:
            if known.position > kept.position:
                return
            self._drop(name, producer_id)
        self._by_name.setdefault(name, {})[producer_id] = kept
        self._names_of.setdefault(producer_id, {})[name] = None
        self._all_bytes.total += offset_bytes(name, kept.committed)

    def remove(self, name: TopicPartition, position: int) -> None:
        """The log has a removal of the partition's offset, which concerns what is before it."""
        for producer_id, kept in tuple(self.of(name).items()):
            if kept.position <= position:
                self._drop(name, producer_id)

    def take(self, producer_id: int) -> dict[TopicPartition, Kept]:
        """The producer's transaction has ended: take its offsets out."""
        names = tuple(self._names_of.get(producer_id, ()))
        return {name: self._drop(name, producer_id) for name in names}

    def replace(self, name: TopicPartition, producer_id: int, committed: CommittedOffset) -> None:
        """More is known of this offset."""
        kept = self._drop(name, producer_id)
        self.add(name, producer_id, Kept(committed, kept.position))

    def _drop(self, name: TopicPartition, producer_id: int) -> Kept:
        kept = self._by_name[name].pop(producer_id)
        if not self._by_name[name]:
            del self._by_name[name]
        del self._names_of[producer_id][name]
        if not self._names_of[producer_id]:
            del self._names_of[producer_id]
        self._all_bytes.total -= offset_bytes(name, kept.committed)
        return kept


def offset_bytes(name: TopicPartition, committed: CommittedOffset) -> int:
    """The bytes that an offset takes, committed or pending."""
    return OFFSET_BYTES + len(name.topic) + len(committed.metadata)
