"""The committed offsets of one group. An offset that is not in the log is never visible here (G12).

Results of writes may arrive in any order, so each offset remembers the write that it is from: the result of
an earlier write never undoes a later one, and a removed offset does not come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Final, NamedTuple

from strandline.broker.core.groups.state_bytes import OFFSET_BYTES, StateBytes
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.vocabulary.groups import CommittedOffset
from strandline.vocabulary.log_position import is_foreign

FROM_THE_LOG: Final = -1
"""The write of an offset that was loaded: it precedes any other."""


class SeenTopics(NamedTuple):
    """What a look at topics found that began after the write `mark` was requested. An offset that was written
    later may be of a topic that was made since, and is left alone."""

    mark: int
    gone: Set[str] = frozenset()
    """Topics that were there once, and whose names no topic had meanwhile."""
    ids: Mapping[str, TopicId | None] = {}
    """Of each topic that was looked at; None: there is none."""

    def exclude(self, topic: str, kept: TopicId) -> bool:
        """True if an offset that was read in `kept` is not of the topic which has the name."""
        return topic in self.gone or is_foreign(kept, self.ids.get(topic, NO_TOPIC_ID))


class _Committed(NamedTuple):
    committed: CommittedOffset
    write_id: int


class Offsets:
    """Offsets by partition, and the commits of them in flight."""

    __slots__ = ("_all_bytes", "_offsets", "_removed", "_writing")

    def __init__(self, state_bytes: StateBytes | None = None) -> None:
        self._all_bytes = state_bytes or StateBytes(0)  # of the whole coordinator
        self._offsets: dict[TopicPartition, _Committed] = {}
        self._writing: dict[TopicPartition, int] = {}  # commits in flight; never 0
        self._removed: dict[TopicPartition, int] = {}  # the removing write; only while commits are in flight

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._offsets)

    @property
    def busy(self) -> bool:
        """True while commits are in flight."""
        return bool(self._writing)

    def get(self, name: TopicPartition) -> CommittedOffset | None:
        known = self._offsets.get(name)
        return None if known is None else known.committed

    def knows(self, name: TopicPartition) -> bool:
        """True if the log may hold an offset of this partition."""
        return name in self._offsets or name in self._writing

    def everything(self) -> dict[TopicPartition, CommittedOffset]:
        return {name: known.committed for name, known in self._offsets.items()}

    def written_or_being_written(self) -> list[TopicPartition]:
        """Every partition of which the log may hold an offset."""
        return list(dict.fromkeys((*self._offsets, *self._writing)))

    def _set(self, name: TopicPartition, known: _Committed) -> None:
        self._drop(name)
        self._offsets[name] = known
        self._all_bytes.total += _size(name, known.committed)

    def _drop(self, name: TopicPartition) -> None:
        known = self._offsets.pop(name, None)
        if known is not None:
            self._all_bytes.total -= _size(name, known.committed)

    def added_by(self, name: TopicPartition, committed: CommittedOffset) -> int:
        """The bytes that this offset would add; negative if it is smaller than the present one."""
        known = self._offsets.get(name)
        return _size(name, committed) - (0 if known is None else _size(name, known.committed))

    # --- commits -----------------------------------------------------------------------------

    def replay(
        self, name: TopicPartition, committed: CommittedOffset | None, write_id: int = FROM_THE_LOG
    ) -> None:
        """The log has a commit of this partition; None: its removal."""
        known = self._offsets.get(name)
        since = FROM_THE_LOG if known is None else known.write_id
        if committed is not None:
            if write_id >= max(self._removed.get(name, FROM_THE_LOG), since):
                self._set(name, _Committed(committed, write_id))
            return
        if write_id >= since:
            self._drop(name)
        if name in self._writing:
            self._removed[name] = max(write_id, self._removed.get(name, FROM_THE_LOG))

    def writing(self, names: Iterable[TopicPartition]) -> None:
        """A commit of these is in flight."""
        for name in names:
            self._writing[name] = self._writing.get(name, 0) + 1

    def not_writing(self, names: Iterable[TopicPartition]) -> None:
        """A commit of these has ended, successfully or not."""
        for name in names:
            left = self._writing[name] - 1
            if left:
                self._writing[name] = left
            else:
                del self._writing[name]
                self._removed.pop(name, None)

    # --- removal -----------------------------------------------------------------------------

    def of_others(self, topics: SeenTopics) -> list[TopicPartition]:
        """Those of another topic than has its name."""
        return [
            name
            for name, known in self._offsets.items()
            if known.write_id <= topics.mark and topics.exclude(name.topic, known.committed.topic_id)
        ]

    def identify(self, topics: SeenTopics) -> None:
        """Give those without an id that of the topic which has the name: if that is made anew later, they are
        of another one."""
        for name, known in self._offsets.items():
            if not known.committed.topic_id and known.write_id <= topics.mark:
                topic_id = topics.ids.get(name.topic) or NO_TOPIC_ID
                committed = replace(known.committed, topic_id=topic_id)
                self._offsets[name] = _Committed(committed, known.write_id)

    def older_than(self, at_ms: int) -> list[TopicPartition]:
        """Offsets that were committed at or before `at_ms` and are not being committed again."""
        return [
            name
            for name, known in self._offsets.items()
            if known.committed.committed_at_ms <= at_ms and name not in self._writing
        ]


def _size(name: TopicPartition, committed: CommittedOffset) -> int:
    return OFFSET_BYTES + len(name.topic) + len(committed.metadata)
