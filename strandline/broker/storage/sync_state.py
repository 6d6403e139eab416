"""How far a log is synced, and whether a record may count before it is synced (CORRECTNESS E2, E3).

A record **counts** when others rely on it: the leader includes it in its own LEO, a follower reports its
position. With `flush.messages=1` only synced records count, so the log is whole even after a loss of power.
`log.json` says so (`synced_only`), before any other replica relies on it and until just before it ends:

    synced_only    the next record is synced before it counts, with any policy
    otherwise      written, synced, by that flush: from then on the policy decides

So a log without an append since it was synced as a whole needs no write to be known as whole. A log that
is at rest for a while is synced, and is `synced_only` again: a loss of power takes nothing from it.
"""

from __future__ import annotations

from typing import Final

from strandline.broker.storage.state_files.log_state import StateFile
from strandline.ports import Clock
from strandline.vocabulary.topic_config import TopicConfig

AT_REST_S: Final = 30.0
"""The time without an append after which a log is synced: about as long as a kernel keeps dirty pages."""
EACH_RECORD: Final = 1
"""The `flush.messages` with which records count only once they are synced."""


class SyncState:
    """The sync state of one log. `flushed` runs in the thread of a flush, with the log's lock held;
    `begin_append` and `needs_flush` run concurrently on the event loop."""

    __slots__ = ("_appended_at", "_clock", "_counted_unsynced", "_since", "_state", "_strict", "offset")

    def __init__(self, state: StateFile, offset: int, log_end_offset: int, clock: Clock) -> None:
        self.offset = offset
        """Everything below it is synced."""
        self._state = state
        self._strict = state.facts.synced_only
        self._counted_unsynced = log_end_offset
        """Records below it may have counted before they were synced; initially the whole log."""
        self._appended_at = clock.monotonic()
        self._since = clock.monotonic()
        """Monotonic seconds; meaningless while everything is synced."""
        self._clock = clock

    def begin_append(self, log_end_offset: int) -> None:
        """Records are about to be appended at the LEO."""
        self._appended_at = self._clock.monotonic()
        if log_end_offset == self.offset:
            self._since = self._appended_at

    def needs_flush(self, log_end_offset: int, config: TopicConfig, now: float) -> bool:
        """True if new records may count only after a flush, or the policy asks for a flush at this time."""
        unsynced = log_end_offset - self.offset
        if unsynced <= 0:
            return False
        if unsynced >= config.flush_messages or (now - self._since) * 1000 >= config.flush_ms:
            return True
        # In this order: a flush that is about to declare the log strict sees one of the two (see below).
        self._counted_unsynced = log_end_offset
        return self._strict

    def is_at_rest(self, now: float) -> bool:
        """True if it is time for a flush after which the log is `synced_only` again."""
        return not self._state.facts.synced_only and now - self._appended_at >= AT_REST_S

    def flushed(self, target: int, began: float, config: TopicConfig) -> None:
        """Everything below `target` was synced by a flush that began at this time. Raises OSError."""
        if config.flush_messages == EACH_RECORD or self.is_at_rest(began):
            self._declare_synced_only(target)
        elif self._state.facts.synced_only:
            self._state.change(synced_only=False)
            self._strict = False
        self.offset, self._since = target, began

    def _declare_synced_only(self, target: int) -> None:
        """Let only synced records count from now on, if no record above `target` did."""
        if self._state.facts.synced_only:
            return
        self._strict = True
        if self._counted_unsynced <= target:
            self._state.change(synced_only=True)
        else:
            self._strict = False

    def mark_all_synced(self, log_end_offset: int) -> None:
        """All is synced, and `log.json` says that only synced records counted."""
        self.offset, self._strict = log_end_offset, True

    def cut(self, offset: int) -> None:
        """The log was cut to this offset."""
        self.offset = min(self.offset, offset)
