"""Which lives of its broker a log covers: what a replica may claim from its place in an ISR (CORRECTNESS E2).

A member of the ISR is a broker in one of its lives. Its log counts for that life unless `log.json` has one of
two facts:

    absent_through   up to this life the broker never had this log: its folder was made later, or was lost
    unsure_through   records of lives up to this one may be missing: they were not synced, and power was lost
"""

from __future__ import annotations

import threading
from pathlib import Path

from strandline.broker.storage.fence import Fence
from strandline.broker.storage.segments import Segments
from strandline.broker.storage.state_files.checkpoint import PARTIAL_SUFFIX
from strandline.broker.storage.state_files.log_state import StateFile
from strandline.broker.storage.sync_state import SyncState
from strandline.ports import Files


class Provenance:
    """The provenance of one log. Methods that write may run in a thread, and raise StorageFailed."""

    __slots__ = (
        "_directory", "_fence", "_files", "_lock", "_segments", "_state", "_sync_state",
        "absent_through", "anchored",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        segments: Segments,
        state: StateFile,
        sync_state: SyncState,
        fence: Fence,
        lock: threading.Lock,
        files: Files,
        *,
        anchored: bool,
    ) -> None:
        self.anchored = anchored
        """The folder, and the fact that the log begins in it, survive a loss of power. No record counts
        before."""
        self.absent_through = state.facts.absent_through
        self._directory = directory
        self._segments = segments
        self._state = state
        self._sync_state = sync_state
        self._fence = fence
        self._lock = lock
        self._files = files

    @property
    def unsure_through(self) -> int | None:
        return self._state.facts.unsure_through

    @property
    def survives_power_loss(self) -> bool:
        """Everything that counted here was synced, and recovery found all of it."""
        now = self._state.facts
        return self._fence.failed is None and now.corrupt is None and now.synced_only

    def begin_after(self, life: int | None) -> None:
        """This log begins after this life of the broker; None: it had none. Written by `anchor`."""
        self.absent_through, self.anchored = life, False

    def anchor(self) -> None:
        """Sync the files that are here and the folder's name, and then store that the log has begun."""
        with self._fence, self._lock:
            for name in sorted(self._files.sizes(self._directory)):
                if not name.endswith(PARTIAL_SUFFIX):
                    self._sync(name)
            end = self._segments.active.next_offset
            self._segments.names_unsynced = True
            self._segments.sync()
            empty = end == self._segments.first.base_offset
            self._state.change(absent_through=self.absent_through, synced_only=empty)
            if empty:
                self._sync_state.mark_all_synced(end)
            self.anchored = True

    def _sync(self, name: str) -> None:
        descriptor = self._files.open(self._directory / name)
        try:
            self._files.sync(descriptor)
        finally:
            self._files.close(descriptor)

    def mark_unsure(self, through: int) -> None:
        """Records that counted in this life of the broker, or before, may be missing here."""
        if through != self.unsure_through:
            with self._fence, self._lock:
                self._state.change(unsure_through=through)
