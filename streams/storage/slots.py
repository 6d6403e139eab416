"""Where the members of an application keep their state on one machine.

Two members that are given the same `state_dir` must not have the same folder, and one that starts again is to
find its own: so each takes the first *slot* that nobody has, for life. A slot's lock is the kernel's, which
lets go of it when a process dies, however it does::

    [state_dir]/[application id]/slot-0/lock
    [state_dir]/[application id]/slot-0/[task]/    a task store
    [state_dir]/[application id]/slot-1/...

What the slot's last member left of a task is taken up where it ended, if its changelog is still the same one.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final, Self

from strandline.errors import InvalidTopic, SettingsError
from strandline.streams.core.task import TaskId
from strandline.vocabulary.topics import check_topic_name

SLOTS_MAX: Final = 1_000
"""Members of one application with the same `state_dir` on one machine."""
_LOCK: Final = "lock"


class StateFolder:
    """A member's folder, until `close`."""

    def __init__(self, path: Path, lock: int) -> None:
        """As `take` does it."""
        self.path = path
        self._lock = lock

    @classmethod
    def take(cls, state_dir: Path, application_id: str) -> Self:
        """The first slot that is free; folders are made. Raises SettingsError."""
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
        """Where the store of a task lies. Nothing is made."""
        return self.path / str(task)

    def close(self) -> None:
        """The slot is free again. Close its stores first. The second time it does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
