"""The committed offsets of one group. What was not written down successfully is never seen here (G12).

Results of writes may come in any order, so each offset remembers the write that it is from: a later one
is never undone by the result of an earlier one, and what was removed does not come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from strandline.broker.core.groups.kept import OFFSET_BYTES, KeptBytes
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset

FROM_THE_LOG: Final = -1
"""The write of an offset that was loaded: before any other."""


class _Kept(NamedTuple):
    committed: CommittedOffset
    write_id: int


class Offsets:
    """Offsets by partition, and what is being written of them."""

    __slots__ = ("_bytes", "_kept", "_removed", "_writing")

    def __init__(self, kept: KeptBytes | None = None) -> None:
        self._bytes = kept or KeptBytes(0)  # of the whole coordinator
        self._kept: dict[TopicPartition, _Kept] = {}
        self._writing: dict[TopicPartition, int] = {}  # commits under way; never 0
        self._removed: dict[TopicPartition, int] = {}  # by which write; only while commits are under way

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._kept)

    @property
    def busy(self) -> bool:
        """True while commits are under way."""
        return bool(self._writing)

    def get(self, name: TopicPartition) -> CommittedOffset | None:
        kept = self._kept.get(name)
        return None if kept is None else kept.committed

    def everything(self) -> dict[TopicPartition, CommittedOffset]:
        return {name: kept.committed for name, kept in self._kept.items()}

    def written_or_being_written(self) -> list[TopicPartition]:
        """Every partition that the log may have an offset of."""
        return list(dict.fromkeys((*self._kept, *self._writing)))

    def _keep(self, name: TopicPartition, kept: _Kept) -> None:
        self._drop(name)
        self._kept[name] = kept
        self._bytes.total += _size(name, kept.committed)

    def _drop(self, name: TopicPartition) -> None:
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._bytes.total -= _size(name, kept.committed)

    def added_by(self, name: TopicPartition, committed: CommittedOffset) -> int:
        """How many bytes more are kept once this is; below 0 if fewer."""
        known = self._kept.get(name)
        return _size(name, committed) - (0 if known is None else _size(name, known.committed))

    # --- commits -----------------------------------------------------------------------------

    def load(self, name: TopicPartition, committed: CommittedOffset | None) -> None:
        """An offset as the log has it; None: removed."""
        if committed is None:
            self._drop(name)
        else:
            self._keep(name, _Kept(committed, FROM_THE_LOG))

    def writing(self, names: Iterable[TopicPartition]) -> None:
        """A commit of these is under way."""
        for name in names:
            self._writing[name] = self._writing.get(name, 0) + 1

    def written(self, write_id: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """A commit that was under way is in the log."""
        for name, committed in offsets.items():
            kept = self._kept.get(name)
            latest = max(self._removed.get(name, FROM_THE_LOG), kept.write_id if kept else FROM_THE_LOG)
            if write_id > latest:
                self._keep(name, _Kept(committed, write_id))
        self.not_writing(offsets)

    def not_writing(self, names: Iterable[TopicPartition]) -> None:
        """A commit of these is over, one way or the other."""
        for name in names:
            left = self._writing[name] - 1
            if left:
                self._writing[name] = left
            else:
                del self._writing[name]
                self._removed.pop(name, None)

    # --- removal -----------------------------------------------------------------------------

    def remove(self, write_id: int, names: Iterable[TopicPartition]) -> None:
        """The tombstones of these are in the log."""
        for name in names:
            kept = self._kept.get(name)
            if kept is not None and kept.write_id < write_id:
                self._drop(name)
            if name in self._writing:
                self._removed[name] = max(write_id, self._removed.get(name, FROM_THE_LOG))

    def older_than(self, at_ms: int) -> list[TopicPartition]:
        """What was committed at or before `at_ms` and is not being committed again."""
        return [
            name
            for name, kept in self._kept.items()
            if kept.committed.committed_at_ms <= at_ms and name not in self._writing
        ]


def _size(name: TopicPartition, committed: CommittedOffset) -> int:
    return OFFSET_BYTES + len(name.topic) + len(committed.metadata)
