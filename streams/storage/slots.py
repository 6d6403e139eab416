"""The state folders of an application's members on one machine.

Two members with the same `state_dir` must not share a folder, and a restarted member should find its own. So
each takes the first free *slot* for its lifetime. A slot's lock is a kernel lock, which is released when its
process dies, for any reason::

    [state_dir]/[application id]/slot-0/lock
    [state_dir]/[application id]/slot-0/[task]/    a task store
    [state_dir]/[application id]/slot-1/...

The next member in a slot continues from the stores of the last one, if their changelogs are still the same.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final, Self

from strandline.errors import InvalidTopic, SettingsError
from strandline.streams.core.task import TaskId
from strandline.streams.storage.task_store import TaskStore
from strandline.vocabulary.topics import check_topic_name

SLOTS_MAX: Final = 1_000
"""Members of one application with the same `state_dir` on one machine."""
_LOCK: Final = "lock"


class StateFolder:
    """A member's folder with its stores, until `close`."""

    def __init__(self, path: Path, lock: int) -> None:
        """Called by `take`."""
        self.path = path
        self._lock = lock

    @classmethod
    def take(cls, state_dir: Path, application_id: str) -> Self:
        """The first free slot; folders are created. Raises SettingsError."""
        try:
            check_topic_name(application_id)
        except InvalidTopic as error:
            raise SettingsError(
                f"setting application_id = {application_id!r} is to name topics and a folder: {error}"
            ) from None
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
                return cls(path, lock)
        raise SettingsError(
            f"setting state_dir = {str(state_dir)!r}: {SLOTS_MAX} members of {application_id!r} use it"
        )

    def of(self, task: TaskId) -> Path:
        """The folder of a task's store. It is not created."""
        return self.path / str(task)

    def open(self, task: TaskId, identity: str) -> TaskStore:
        """The store of a task. Raises as `TaskStore.open`."""
        return TaskStore.open(self.of(task), identity)

    def close(self) -> None:
        """Free the slot. Close its stores first. Further calls do nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
