"""The sessions of one broker, within bounds. A client that gets none does without: its requests are whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.broker.core.fetch_sessions.session import FetchSession

AGE_S_MIN: Final = 120.0
"""A session that was not used for this time may go for any other. One that is older goes for one that is as
large; as Kafka's `min.incremental.fetch.session.eviction.ms`."""


class SessionCache:
    """At most `slots_max` sessions, with at most `partitions_max` partitions together.

    The rules are Kafka's, for sessions of consumers: followers have none here, so no session is privileged.
    """

    def __init__(self, slots_max: int, partitions_max: int) -> None:
        self._slots_max = slots_max
        self._partitions_max = partitions_max
        self._sessions: dict[int, FetchSession] = {}
        """By id; the one that was not used for the longest time is first."""
        self._sizes: dict[int, int] = {}
        self.partitions = 0
        """Of all sessions."""
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(tuple(self._sessions.values()))

    def add(self, session: FetchSession, now_s: float) -> list[FetchSession] | None:
        """Adds a session. Returns those that had to go for it; None if there is no room, and it is not
        added."""
        victims = self._victims(len(session), now_s)
        if victims is None:
            return None
        for victim in victims:
            self.remove(victim)
        self.evictions += len(victims)
        self._sessions[session.id] = session
        self._note_size(session)
        return victims

    def used(self, session: FetchSession, now_s: float) -> bool:
        """Notes a use, and the session's size. False, and it is removed, if it has grown too large."""
        session.used_s = now_s
        self._sessions[session.id] = self._sessions.pop(session.id)
        self._note_size(session)
        if self.partitions <= self._partitions_max:
            return True
        self.remove(session)
        self.evictions += 1
        return False

    def remove(self, session: FetchSession) -> None:
        """Removes a session, if it is there."""
        if self._sessions.pop(session.id, None) is not None:
            self.partitions -= self._sizes.pop(session.id)

    def _note_size(self, session: FetchSession) -> None:
        self.partitions += len(session) - self._sizes.get(session.id, 0)
        self._sizes[session.id] = len(session)

    def _victims(self, size: int, now_s: float) -> list[FetchSession] | None:
        """Those that make room for a session of this size: first those that are not used, then the smallest
        of those that are old, if they are no larger."""
        slots, partitions = len(self) + 1 - self._slots_max, self.partitions + size - self._partitions_max
        if slots <= 0 and partitions <= 0:
            return []
        stale = [each for each in self if now_s - each.used_s > AGE_S_MIN]
        old = [each for each in self if now_s - each.created_s > AGE_S_MIN and len(each) <= size]
        victims: dict[int, FetchSession] = {}
        for each in (*stale, *sorted(old, key=len)):
            if each.id in victims:
                continue
            victims[each.id] = each
            slots, partitions = slots - 1, partitions - len(each)
            if slots <= 0 and partitions <= 0:
                return list(victims.values())
        return None
