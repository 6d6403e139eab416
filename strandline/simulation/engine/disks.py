"""The disk of a simulated machine: it outlives processes, and loses unsynced writes with the power.

`MemoryFiles` keeps names and bytes apart and knows which of them are synced; the faults are drawn here. The
system writes back on its own as well, so that any first part of what was not synced may have survived, and
sectors of that part may be missing: they were not written in their order.
"""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Final

from strandline.adapters.system.memory_files import MemoryFiles

SHORT_WRITE_BYTES_MAX: Final = 4096
_GROWING: Final = ("append", "create")


class Disk:
    """`files` is the disk as the present process has it. After the end of a process it is another object, so
    that nothing a dead process still does has an effect."""

    def __init__(self, random: Random) -> None:
        self.error_rate = 0.0
        """The part of all operations that fails with EIO."""
        self.full = False
        """No file can grow."""
        self.power_losses = 0
        """How often the power was lost."""
        self.spoiled = False
        """Operations may have failed with EIO."""
        self._random = random
        self.files = MemoryFiles(self._fault)

    def process_ended(self) -> None:
        """Everything that was written is there for the next process."""
        self._replace(self.files.after_crash())

    def power_lost(self) -> None:
        """Keep what was synced, and of the rest a first part of each file and each directory, in some files
        with zeros for sectors that were not written."""
        self.power_losses += 1
        self._replace(self.files.after_power_loss(self._survivors, self._lost))

    def lost(self) -> None:
        """An empty disk is in its place."""
        self._replace(MemoryFiles())

    def _replace(self, files: MemoryFiles) -> None:
        self.files = files
        files.fault = self._fault

    def _survivors(self, count: int) -> int:
        """How many of `count` unsynced parts survive: often none or all."""
        return self._random.choice((0, count, self._random.randint(0, count)))

    def _lost(self, count: int) -> list[int]:
        """Which of `count` unsynced sectors of a file are missing: in half of all files none."""
        rate = self._random.choice((0.0, self._random.random()))
        return [sector for sector in range(count) if rate and self._random.random() < rate]

    def _fault(self, operation: str, path: Path) -> int | None:
        if self.full and operation in _GROWING:
            if operation == "append" and self._random.random() < 1 / 2:
                return self._random.randrange(SHORT_WRITE_BYTES_MAX)
            raise OSError(errno.ENOSPC, "no space left on device", str(path))
        if self.error_rate and self._random.random() < self.error_rate:
            raise OSError(errno.EIO, "input/output error", str(path))
        return None
