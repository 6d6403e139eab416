"""One session: its partitions, those of them that are due to be looked at, and what its client knows.

A partition is either **due** or **at rest**. One at rest has nothing that its client does not know; the
session's driver watches it, and wakes it when something may have changed. So a request costs as much as there
is to look at, and not as much as the session has partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from strandline.security.principal import Principal
from strandline.vocabulary.log import Fetched, FetchPartition

FIRST_EPOCH: Final = 1
"""Of the first request within a session."""
EPOCH_MAX: Final = 2**31 - 1

Key = tuple[str, int]
"""A topic's id, or its name in a session without ids; and the number of a partition."""


class Known(NamedTuple):
    """What the client knows of a partition at which nothing is wrong."""

    high_watermark: int
    log_start_offset: int


def key_in(topic: str, topic_id: str, partition: int) -> Key:
    return topic_id or topic, partition


def key_of(position: FetchPartition) -> Key:
    return key_in(position.name.topic, position.topic_id, position.name.partition)


def known_by(fetched: Fetched) -> Known | None:
    """What an answer tells of a partition; None for an error, which is in each answer."""
    if fetched.error is not None:
        return None
    return Known(max(fetched.high_watermark, fetched.standing_watermark), fetched.log_start_offset)


def epoch_after(epoch: int) -> int:
    """The epoch of the next request."""
    return FIRST_EPOCH if epoch == EPOCH_MAX else epoch + 1


class FetchSession:
    """A session of one principal. Times are monotonic seconds."""

    def __init__(self, session_id: int, owner: Principal, *, by_ids: bool, now_s: float) -> None:
        self.id = session_id
        self.owner = owner
        self.by_ids = by_ids
        """True if its requests have topics' ids instead of their names."""
        self.epoch = FIRST_EPOCH
        """Of the next request."""
        self.created_s = now_s
        self.used_s = now_s
        self._positions: dict[Key, FetchPartition] = {}
        self._known: dict[Key, Known] = {}
        self._stable = False
        self._due: dict[Key, None] = {}
        """In the order in which they are read: one whose records were answered goes to the end."""

    def __len__(self) -> int:
        return len(self._positions)

    # --- the request -------------------------------------------------------------------------

    def take(
        self, positions: Iterable[FetchPartition], forgotten: Iterable[Key] = (), *, stable: bool = False
    ) -> None:
        """Adds these positions, or moves them, and forgets some. What is new in them is due. `stable`: as the
        request asks, which is for all that the session has."""
        if stable != self._stable:
            self._stable = stable
            self._positions = {k: each._replace(stable=stable) for k, each in self._positions.items()}
            self.wake_all()
        for position in positions:
            key = key_of(position)
            self._positions[key] = position
            self._due.setdefault(key)
        for key in forgotten:
            self._positions.pop(key, None)
            self._known.pop(key, None)
            self._due.pop(key, None)

    def position(self, key: Key) -> FetchPartition | None:
        return self._positions.get(key)

    # --- due, and at rest --------------------------------------------------------------------

    @property
    def due(self) -> list[FetchPartition]:
        """The positions to look at, in order."""
        return [self._positions[key] for key in self._due]

    def named(self, key: Key, name: str) -> None:
        """The name of a topic that was not known before."""
        position = self._positions[key]
        self._positions[key] = position._replace(name=position.name._replace(topic=name))

    def wake(self, key: Key) -> None:
        """Something may have changed at a partition."""
        if key in self._positions:
            self._due.setdefault(key)

    def wake_all(self) -> None:
        for key in self._positions:
            self._due.setdefault(key)

    def rests(self, key: Key, fetched: Fetched, *, arrived: bool) -> bool:
        """Whether a partition has nothing new by this look at it. From then on it is at rest.

        `arrived`: something is committed at its position. A high watermark that is not known will be.
        """
        known = known_by(fetched)
        if arrived or known is None or known.high_watermark < 0 or known != self._known.get(key):
            return False
        self._due.pop(key, None)
        return True

    # --- the answer --------------------------------------------------------------------------

    def tells(self, key: Key, fetched: Fetched) -> bool:
        """Whether the answer has to have this partition: it has records or an error, or the client does not
        know its high watermark or its start. Then the client knows them. One with records is read last next
        time, so that each has its turn if not all fit into an answer."""
        if key not in self._positions:
            return False  # forgotten meanwhile
        known = known_by(fetched)
        if known is None:
            self._known.pop(key, None)
            return True
        if not fetched.records and known == self._known.get(key):
            return False
        self._known[key] = known
        if fetched.records:
            self._due.pop(key, None)
            self._due[key] = None
        return True
