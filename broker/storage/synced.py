"""How far a log is on the medium, and whether anything may count before it is there (CORRECTNESS E2, E3).

A record **counts** when others rely on it: the leader takes it into its own LEO, a follower tells its
position. With `flush.messages=1` nothing counts that is not synced, so the log is whole after a loss of
power too. `log.json` says so (`synced_only`), before anything relies on it and until just before it ends:

    synced_only    the next record is synced before it counts, whatever the policy
    not any more   written, synced, by that flush: from now on the policy decides

So a log that nothing was appended to since it was whole on the medium costs no write to be known as whole.
One that was at rest for a while is synced, and is `synced_only` again: a loss of power takes nothing from it.
"""

from __future__ import annotations

from typing import Final

from strandline.broker.storage.state_files.log_state import StateFile
from strandline.ports import Clock
from strandline.vocabulary.topic_config import TopicConfig

AT_REST_S: Final = 30.0
"""Without an append, after which a log is synced: about as long as a kernel keeps dirty pages anyway."""
EACH_RECORD: Final = 1
"""`flush.messages` that lets nothing count before it is synced."""


class Synced:
    """One log's. `flushed` runs in the thread of a flush, with the log's lock held; `begin_append` and
    `needed` run beside it on the event loop."""

    __slots__ = ("_appended_at", "_clock", "_counted_unsynced", "_since", "_state", "_strict", "offset")

    def __init__(self, state: StateFile, offset: int, log_end_offset: int, clock: Clock) -> None:
        self.offset = offset
        """Everything below it is on the medium."""
        self._state = state
        self._strict = state.now.synced_only
        self._counted_unsynced = log_end_offset
        """Records below it may have counted before they were synced; all that was found, for a start."""
        self._appended_at = clock.monotonic()
        self._since = clock.monotonic()
        """Monotonic seconds; means nothing while nothing is unsynced."""
        self._clock = clock

    def begin_append(self, log_end_offset: int) -> None:
        """Records are about to be appended at the LEO."""
        self._appended_at = self._clock.monotonic()
        if log_end_offset == self.offset:
            self._since = self._appended_at

    def needed(self, log_end_offset: int, config: TopicConfig, now: float) -> bool:
        """True if what was appended may not count before a flush, or the policy asks for one at this time."""
        unsynced = log_end_offset - self.offset
        if unsynced <= 0:
            return False
        if unsynced >= config.flush_messages or (now - self._since) * 1000 >= config.flush_ms:
            return True
        # In this order: a flush that is about to declare the log strict sees one of the two (`_declare`).
        self._counted_unsynced = log_end_offset
        return self._strict

    def is_at_rest(self, now: float) -> bool:
        """True if it is time for a flush after which the log is `synced_only` again."""
        return not self._state.now.synced_only and now - self._appended_at >= AT_REST_S

    def flushed(self, target: int, began: float, config: TopicConfig) -> None:
        """Everything below `target` was synced by a flush that began at this time. Raises OSError."""
        if config.flush_messages == EACH_RECORD or self.is_at_rest(began):
            self._declare(target)
        elif self._state.now.synced_only:
            self._state.change(synced_only=False)
            self._strict = False
        self.offset, self._since = target, began

    def _declare(self, target: int) -> None:
        """From now on nothing counts unsynced, if nothing above `target` did."""
        if self._state.now.synced_only:
            return
        self._strict = True
        if self._counted_unsynced <= target:
            self._state.change(synced_only=True)
        else:
            self._strict = False

    def all_of_it(self, log_end_offset: int) -> None:
        """All is synced, and `log.json` says that nothing else counted."""
        self.offset, self._strict = log_end_offset, True

    def cut(self, offset: int) -> None:
        """Nothing is left at or above an offset."""
        self.offset = min(self.offset, offset)
