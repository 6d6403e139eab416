"""Measures retention's time on this machine, across restarts: `retention_time` in the data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import structlog

from strandline.broker.core.retention_time import RetentionTime
from strandline.broker.storage.state_files.checkpoint import Checkpoint
from strandline.errors import StorageFailed
from strandline.ports import Clock, Files

logger = structlog.get_logger(__name__)

LEAD_ALARM_MS: Final = 3_600_000
"""Lead of the wall clock above which a warning is logged."""

_ENTRY: Final = "now_ms"


class RetentionClock:
    """The retention clock of one broker. `strandline.broker.core.retention_time` has the rule."""

    def __init__(self, path: Path, clock: Clock, files: Files) -> None:
        self._clock = clock
        self._path = path
        self._files = files
        self._checkpoint: Checkpoint | None = None
        self._time: RetentionTime | None = None
        self._lead_logged = False

    def now_ms(self) -> int:
        """The time that retention uses, milliseconds since the Unix epoch."""
        wall_ms = self._clock.wall_ms()
        time = self._read(wall_ms)
        now_ms = time.now_ms(wall_ms=wall_ms, monotonic_s=self._clock.monotonic())
        self._log_lead(time.lead_ms(wall_ms))
        return now_ms

    def save(self, now_ms: int) -> None:
        """Saves the time for the next process; may run in a thread. Raises OSError: then the file keeps an
        older time, and the next process deletes later."""
        assert self._checkpoint is not None, "the time comes from `now_ms`"
        self._checkpoint.write({_ENTRY: now_ms})

    def _read(self, wall_ms: int) -> RetentionTime:
        if self._time is None:
            try:
                self._checkpoint = Checkpoint(self._path, files=self._files)
            except StorageFailed as error:
                logger.warning("retention begins with the wall clock", reason=error.message)
                self._files.remove(self._path)
                self._checkpoint = Checkpoint(self._path, files=self._files)
            known_ms = self._checkpoint.get(_ENTRY)
            self._time = RetentionTime(known_ms, wall_ms=wall_ms, monotonic_s=self._clock.monotonic())
        return self._time

    def _log_lead(self, lead_ms: int) -> None:
        """Logs a lead once for each jump."""
        if lead_ms < LEAD_ALARM_MS:
            self._lead_logged = False
        elif not self._lead_logged:
            self._lead_logged = True
            logger.error(
                "the wall clock is ahead of retention's time: it jumped, or this broker was down; "
                "retention catches up at twice the pace of real time",
                lead_s=lead_ms // 1000,
            )
