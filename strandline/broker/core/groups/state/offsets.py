"""The committed offsets of one group. An offset that is not in the log is never visible here (G12).

Results of writes may arrive in any order, so each offset remembers the position of its record in the log: the
result of an earlier write never undoes a later one, and a removed offset does not come back. The position of
a written record is the id of its write. Records that were loaded precede the first write, and are numbered
from FIRST_LOADED.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Final, NamedTuple

from strandline.broker.core.groups.state.pending_offsets import Kept, PendingOffsets, offset_bytes
from strandline.broker.core.groups.state_bytes import StateBytes
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.vocabulary.groups import CommittedOffset
from strandline.vocabulary.log_position import is_foreign

FIRST_LOADED: Final = -(2**63)
"""The position of the first record of the log that was loaded. A log has fewer records."""


class SeenTopics(NamedTuple):
    """What a look at topics found that began after the write `mark` was requested. An offset that was written
    later may be of a topic that was made since, and is left alone."""

    mark: int
    gone: Set[str] = frozenset()
    """Topics that were there once, and whose names no topic had meanwhile."""
    ids: Mapping[str, TopicId | None] = {}
    """Of each topic that was looked at; None: there is none."""

    def exclude(self, topic: str, kept: Kept) -> bool:
        """True if the offset is not of the topic which has the name."""
        if kept.position > self.mark:
            return False
        return topic in self.gone or is_foreign(kept.committed.topic_id, self.ids.get(topic, NO_TOPIC_ID))

    def identified(self, topic: str, kept: Kept) -> CommittedOffset | None:
        """The offset with the id of the topic which has the name; None if it has an id, or none is known."""
        topic_id = self.ids.get(topic) or NO_TOPIC_ID
        if kept.committed.topic_id or not topic_id or kept.position > self.mark:
            return None
        return replace(kept.committed, topic_id=topic_id)


class Offsets:
    """Offsets by partition, the commits of them in flight, and what is pending in transactions."""

    __slots__ = ("_all_bytes", "_offsets", "_removed", "_unstable", "_writing", "pending")

    def __init__(self, state_bytes: StateBytes | None = None) -> None:
        self._all_bytes = state_bytes or StateBytes(0)  # of the whole coordinator
        self._offsets: dict[TopicPartition, Kept] = {}
        self.pending = PendingOffsets(self._all_bytes)
        self._writing: dict[TopicPartition, int] = {}  # commits in flight; never 0
        self._unstable: dict[TopicPartition, int] = {}  # those of them in transactions; never 0
        self._removed: dict[TopicPartition, int] = {}  # the removing write; only while commits are in flight

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._offsets)

    @property
    def busy(self) -> bool:
        """True while commits are in flight, or transactions with offsets are open."""
        return bool(self._writing or self.pending)

    def get(self, name: TopicPartition) -> CommittedOffset | None:
        known = self._offsets.get(name)
        return None if known is None else known.committed

    def knows(self, name: TopicPartition) -> bool:
        """True if the log may hold an offset of this partition."""
        return name in self._offsets or name in self._writing or name in self.pending

    def unstable(self, name: TopicPartition) -> bool:
        """True while an open transaction may commit another offset of this partition (KIP-447)."""
        return name in self.pending or name in self._unstable

    def everything(self) -> dict[TopicPartition, CommittedOffset]:
        return {name: known.committed for name, known in self._offsets.items()}

    def incarnations(self) -> Iterator[tuple[str, TopicId]]:
        """The topics of offsets, committed and pending, with the ids in which they were read."""
        for name, known in self._each():
            yield name.topic, known.committed.topic_id

    def written(self) -> list[TopicPartition]:
        """Every partition of which the log has an offset, committed or pending."""
        return list(dict.fromkeys((*self._offsets, *self.pending)))

    def written_or_being_written(self) -> list[TopicPartition]:
        """Every partition of which the log may hold an offset."""
        return list(dict.fromkeys((*self.written(), *self._writing)))

    def _each(self) -> Iterator[tuple[TopicPartition, Kept]]:
        yield from self._offsets.items()
        for name in self.pending:
            yield from ((name, kept) for kept in self.pending.of(name).values())

    def _set(self, name: TopicPartition, known: Kept) -> None:
        self._drop(name)
        self._offsets[name] = known
        self._all_bytes.total += offset_bytes(name, known.committed)

    def _drop(self, name: TopicPartition) -> None:
        known = self._offsets.pop(name, None)
        if known is not None:
            self._all_bytes.total -= offset_bytes(name, known.committed)

    def added_by(self, name: TopicPartition, committed: CommittedOffset, producer_id: int | None) -> int:
        """The bytes that this offset would add; negative if it is smaller than the one that it replaces: the
        committed one, or what is pending of this producer."""
        before = self._offsets.get(name) if producer_id is None else self.pending.of(name).get(producer_id)
        return offset_bytes(name, committed) - (0 if before is None else offset_bytes(name, before.committed))

    # --- commits -----------------------------------------------------------------------------

    def replay(
        self,
        name: TopicPartition,
        committed: CommittedOffset | None,
        position: int,
        producer_id: int | None = None,
    ) -> None:
        """The log has a commit of this partition there; None: its removal. `producer_id`: of the transaction
        that the commit is part of."""
        known = self._offsets.get(name)
        since = FIRST_LOADED if known is None else known.position
        if committed is None:
            if position >= since:
                self._drop(name)
            self.pending.remove(name, position)
            if name in self._writing:
                self._removed[name] = max(position, self._removed.get(name, FIRST_LOADED))
        elif position < self._removed.get(name, FIRST_LOADED):
            return
        elif producer_id is not None:
            self.pending.add(name, producer_id, Kept(committed, position))
        elif position >= since:
            self._set(name, Kept(committed, position))

    def transaction_ended(self, producer_id: int, *, commit: bool) -> None:
        """The log has the marker of this producer's transaction."""
        for name, (committed, position) in self.pending.take(producer_id).items():
            if commit:
                self.replay(name, committed, position)

    def writing(self, names: Iterable[TopicPartition], *, in_transaction: bool = False) -> None:
        """A commit of these is in flight."""
        for name in names:
            _count(self._writing, name, 1)
            if in_transaction:
                _count(self._unstable, name, 1)

    def not_writing(self, names: Iterable[TopicPartition], *, in_transaction: bool = False) -> None:
        """A commit of these has ended, successfully or not."""
        for name in names:
            _count(self._writing, name, -1)
            if in_transaction:
                _count(self._unstable, name, -1)
            if name not in self._writing:
                self._removed.pop(name, None)

    # --- removal -----------------------------------------------------------------------------

    def of_others(self, topics: SeenTopics) -> list[TopicPartition]:
        """Those of another topic than has its name. A removal concerns everything of a partition: it waits
        while a transaction has an offset of the present topic."""
        found = dict[TopicPartition, bool]()
        for name, known in self._each():
            found[name] = found.get(name, name not in self._unstable) and topics.exclude(name.topic, known)
        return [name for name, excluded in found.items() if excluded]

    def identify(self, topics: SeenTopics) -> None:
        """Give those without an id that of the topic which has the name: if that is made anew later, they are
        of another one."""
        for name, known in self._offsets.items():
            if (committed := topics.identified(name.topic, known)) is not None:
                self._offsets[name] = Kept(committed, known.position)
        for name in tuple(self.pending):
            for producer_id, kept in tuple(self.pending.of(name).items()):
                if (committed := topics.identified(name.topic, kept)) is not None:
                    self.pending.replace(name, producer_id, committed)

    def older_than(self, at_ms: int) -> list[TopicPartition]:
        """Offsets that were committed at or before `at_ms` and are not being committed again."""
        return [
            name
            for name, known in self._offsets.items()
            if known.committed.committed_at_ms <= at_ms
            and name not in self._writing
            and name not in self.pending
        ]


def _count(counts: dict[TopicPartition, int], name: TopicPartition, by: int) -> None:
    """Changes one count; a count of 0 is left out."""
    left = counts.get(name, 0) + by
    if left:
        counts[name] = left
    else:
        del counts[name]
