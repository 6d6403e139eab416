"""The state folders of an application's members on one machine.

Two members with the same `state_dir` must not share a folder, and a restarted member should find its own. So
each takes the first free *slot* for its lifetime. A slot's lock is a kernel lock, which is released when its
process dies, for any reason::

    [state_dir]/[application id]/slot-0/lock
    [state_dir]/[application id]/slot-0/[task]/    a task store
    [state_dir]/[application id]/slot-0/removed/   stores whose files are being removed
    [state_dir]/[application id]/slot-1/...

The next member in a slot continues from the stores of the last one, if their changelogs are still the same.

A folder that is removed under its member belongs to the next member that finds it free, and the lock of the
former one is of a file without a name. So a member looks before it opens a store, and takes the next slot if
it has lost its own.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from strandline.errors import InvalidTopic, SettingsError
from strandline.streams.core.task import TaskId
from strandline.streams.storage.task_store import TaskStore, holds
from strandline.vocabulary.topics import check_topic_name

logger = logging.getLogger(__name__)

SLOTS_MAX: Final = 1_000
"""Members of one application with the same `state_dir` on one machine."""
_LOCK: Final = "lock"
_REMOVED: Final = "removed"
"""No task has this name."""


class StateFolder:
    """A member's folder with its stores, until `close`."""

    def __init__(self, state_dir: Path, application_id: str) -> None:
        """Called by `take`."""
        self._state_dir = state_dir
        self._application_id = application_id
        self.path, self._lock = _free_slot(state_dir, application_id)

    @classmethod
    def take(cls, state_dir: Path, application_id: str) -> Self:
        """The first free slot; folders are created. Raises SettingsError."""
        try:
            check_topic_name(application_id)
        except InvalidTopic as error:
            raise SettingsError(
                f"setting application_id = {application_id!r} is to name topics and a folder: {error}"
            ) from None
        return cls(state_dir, application_id)

    def of(self, task: TaskId) -> Path:
        """The folder of a task's store. It is not created."""
        return self.path / str(task)

    def open(self, task: TaskId, identity: str) -> TaskStore:
        """The store of a task. Raises as `TaskStore.open`, and as `take` if this slot was lost."""
        if not holds(self._lock, self.path / _LOCK):
            lost, lock = self.path, self._lock
            self.path, self._lock = _free_slot(self._state_dir, self._application_id)
            os.close(lock)
            logger.warning("%s was removed while it was used: stores are opened in %s now", lost, self.path)
        return TaskStore.open(self.of(task), identity)

    def kept(self) -> list[TaskId]:
        """The tasks with a store in this slot, open or not."""
        found = []
        with suppress(OSError):
            for folder in sorted(self.path.iterdir()):
                with suppress(ValueError):
                    if folder.is_dir():
                        found.append(TaskId.parse(folder.name))
        return found

    def remove(self, task: TaskId) -> Callable[[], None]:
        """Take away the store of a task: it may be opened again at once, and is empty. The function that is
        returned frees the disk. Raises as `TaskStore.move`."""
        removed, folder = self.path / _REMOVED, self.of(task)
        TaskStore.move(folder, removed / f"{task}-{folder.stat().st_ino}")
        return lambda: shutil.rmtree(removed, ignore_errors=True)

    def close(self) -> None:
        """Free the slot. Close its stores first. Further calls do nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _free_slot(state_dir: Path, application_id: str) -> tuple[Path, int]:
    """The first free slot, and its lock. Raises SettingsError."""
    for number in range(SLOTS_MAX):
        path = state_dir / application_id / f"slot-{number}"
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise SettingsError(f"setting state_dir = {str(state_dir)!r}: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        except OSError as error:
            os.close(lock)
            raise SettingsError(f"setting state_dir = {str(state_dir)!r}: {error}") from error
        else:
            if holds(lock, path / _LOCK):
                return path, lock
            os.close(lock)  # it was removed in between
    raise SettingsError(
        f"setting state_dir = {str(state_dir)!r}: {SLOTS_MAX} members of {application_id!r} use it"
    )
