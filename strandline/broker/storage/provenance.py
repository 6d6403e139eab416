"""Which lives of its broker a log covers: what a replica may claim from its place in an ISR (CORRECTNESS E2).

A member of the ISR is a broker in one of its lives. Its log counts for that life unless `log.json` has one of
two facts:

    absent_through   up to this life the broker never had this log: its folder was made later, or was lost
    unsure_through   records of lives up to this one may be missing: they were not synced, and power was lost
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from strandline.broker.storage.fence import Fence
from strandline.broker.storage.segments.segments import Segments
from strandline.broker.storage.state_files.checkpoint import PARTIAL_SUFFIX
from strandline.broker.storage.state_files.log_state import STAGED_FILE, StateFile
from strandline.broker.storage.sync_state import SyncState
from strandline.errors import StorageFailed
from strandline.ports import Files

SYNC_EACH_MAX: Final = 8
"""Logs of a group up to which each file is synced. To sync the whole disk is one call for any number of logs,
and also waits for everything else that was written to this disk: too much for a few logs."""


def anchor_together(group: Sequence[Provenance], sync_disk: Callable[[], bool]) -> None:
    """Anchor logs that wait for it at the same time. `sync_disk` syncs the disk, or returns False.

        1. The facts of each log are written beside its `log.json`.
        2. These and all other files of the logs are synced, with their names and those of the folders.
        3. The facts get the name `log.json`.
        4. These names are synced, and the logs are anchored.

    So a `log.json` that is on the medium has all of its bytes, and everything it relies on is there too. A
    loss of power before 3 leaves no `log.json`, and one between 3 and 4 those of some logs. Both are right,
    since no record counts in a log before 4: a log with `log.json` has begun and is as it says, any other log
    has not begun. A single sync after 3 is not enough. It writes names and bytes in any order, and may leave
    an empty `log.json`, which counts as damage: the log would not lead before another replica made it whole.

    A log whose file operation fails is fenced, and the others continue. A failed sync of the disk fences all
    logs of the group, since it does not say which file it is about. A log whose facts changed meanwhile is
    not anchored; anchor it again.
    """
    staged = _each([log for log in group if not log.anchored], Provenance.stage)
    synced = _synced(staged, sync_disk, Provenance.sync_files)
    published = [log for log in _each(synced, Provenance.publish) if log.published]
    for log in _synced(published, sync_disk, Provenance.sync_names):
        log.mark_anchored()


def _each(group: Sequence[Provenance], step: Callable[[Provenance], None]) -> list[Provenance]:
    """The logs whose step succeeded; the others are fenced."""
    done: list[Provenance] = []
    for log in group:
        try:
            step(log)
        except StorageFailed:
            continue
        done.append(log)
    return done


def _synced(
    group: list[Provenance], sync_disk: Callable[[], bool], sync: Callable[[Provenance], None]
) -> list[Provenance]:
    """The logs that are synced: by one call if they are many and the disk has one, else by `sync` of each."""
    try:
        if len(group) > SYNC_EACH_MAX and sync_disk():
            return group
    except OSError as error:
        return _each(group, partial(Provenance.sync_failed, error=error))
    return _each(group, sync)


class Provenance:
    """The provenance of one log. Methods that write may run in a thread, and raise StorageFailed."""

    __slots__ = (
        "_directory", "_empty_at", "_fence", "_files", "_lock", "_segments", "_state", "_sync_state",
        "anchored", "published",
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
        self.published = False
        """The facts that were staged last are in `log.json`."""
        self._empty_at: int | None = None
        """Where the log begins and ends, if it was empty when its facts were staged."""
        self._directory = directory
        self._segments = segments
        self._state = state
        self._sync_state = sync_state
        self._fence = fence
        self._lock = lock
        self._files = files

    @property
    def absent_through(self) -> int | None:
        return self._state.facts.absent_through

    @property
    def unsure_through(self) -> int | None:
        return self._state.facts.unsure_through

    @property
    def survives_power_loss(self) -> bool:
        """Everything that counted here was synced, and recovery found all of it."""
        now = self._state.facts
        return self._fence.failed is None and now.corrupt is None and now.synced_only

    def begin_after(self, life: int | None) -> None:
        """This log begins after this life of the broker; None: it had none. Written by `anchor_together`, or
        by an earlier change: a log that is closed before it is anchored still tells it."""
        self._state.note(absent_through=life)
        self.anchored = False

    # --- the steps of `anchor_together` ------------------------------------------------------

    def stage(self) -> None:
        """Write the facts beside `log.json`, unsynced."""
        with self._fence, self._lock:
            end = self._segments.active.next_offset
            empty = end == self._segments.first.base_offset
            self._state.stage(synced_only=empty)
            self._empty_at = end if empty else None

    def sync_files(self) -> None:
        """Sync the files that are here, with the staged one, and their names and that of the folder."""
        with self._fence, self._lock:
            for name in sorted(self._files.sizes(self._directory)):
                if name == STAGED_FILE or not name.endswith(PARTIAL_SUFFIX):
                    self._sync(name)
            self._segments.names_unsynced = True
            self._segments.sync()

    def publish(self) -> None:
        """Give the staged facts the name `log.json`."""
        with self._fence, self._lock:
            self.published = self._state.publish()

    def sync_names(self) -> None:
        with self._fence, self._lock:
            self._files.sync_directory(self._directory)

    def sync_failed(self, error: OSError) -> None:
        """Fence the log: its files may be lost."""
        with self._fence:
            raise error

    def mark_anchored(self) -> None:
        self._segments.directory_synced = True
        if self._empty_at is not None:
            self._sync_state.mark_all_synced(self._empty_at)
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
