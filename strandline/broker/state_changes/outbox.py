"""Events of this broker alone, kept on its disk until `__state_changes` has them.

No znode holds the cut of a log or the removal of a stray. Its event is written here before it is done, so
that a broker which dies in between records it in its next life; if it was not done by then that is
harmless, because it is about to be. A file of JSON lines: appended and synced, emptied when no event waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import structlog

from strandline.broker.events.replica_events import EventRecorder, RetryingRecorder
from strandline.broker.storage.state_files.checkpoint import read_whole, write_atomically
from strandline.config.limits import OUTBOX_EVENTS_MAX
from strandline.ports import Files
from strandline.vocabulary.state_changes import StateChangeEvent, event_value, parse_event

logger = structlog.get_logger(__name__)

RECORDED_LINES_MAX: Final = 64
"""Lines of recorded events that may stay in the file besides an equal number of waiting ones: the file is
not replaced for each event. A line that is read again is recorded again, which changes nothing."""


class Outbox:
    """One broker's outbox. Synchronous, and never fails its caller: a disk that takes nothing is no reason
    to stop replicating, and the event still goes to the topic."""

    def __init__(
        self,
        path: Path,
        recorder: EventRecorder,
        *,
        files: Files,
        events_max: int = OUTBOX_EVENTS_MAX,
    ) -> None:
        self._path = path
        self._recorder = recorder
        self._events_max = events_max
        self._files = files
        self._waiting: dict[tuple[str, str], StateChangeEvent] = {}
        self._lines = 0
        """The number of lines in the file, including those of recorded events."""
        self._torn = False
        """True while the file may end within a line, or lack one."""
        self._retrying = RetryingRecorder(lambda event: event.identity in self._waiting, self._recorded)

    def open(self) -> None:
        """Record what the last life left."""
        try:
            lines = read_whole(self._path, files=self._files).split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            logger.error("outbox of state changes not read", path=str(self._path), reason=str(error))
            self._torn = True
            return
        self._lines, self._torn = len(lines) - 1, lines[-1] != b""
        for line in filter(None, lines):
            try:
                event = parse_event(line)
            except ValueError as error:  # a loss of power during its write: the event did not happen either
                logger.error("a line of the outbox is dropped", path=str(self._path), reason=str(error))
                self._torn = True
            else:
                self._waiting[event.identity] = event
        if self._torn:
            self._write([])
        self._retrying.record(self._recorder, list(self._waiting.values()))

    def record_durably(self, events: Sequence[StateChangeEvent]) -> None:
        """The events are on the disk when this returns, and retried until they are recorded."""
        new = [event for event in events if event.identity not in self._waiting]
        if not new:
            return
        self._waiting.update((event.identity, event) for event in new)
        self._bound()
        self._write(new)
        self._retrying.record(self._recorder, new)

    def _bound(self) -> None:
        excess = len(self._waiting) - self._events_max
        if excess > 0:
            logger.error("the outbox of state changes is full: the oldest go", events=excess)
            for identity in list(self._waiting)[:excess]:
                del self._waiting[identity]

    def _recorded(self, events: Sequence[StateChangeEvent]) -> None:
        for event in events:
            self._waiting.pop(event.identity, None)
        self._write([])

    # --- the file ----------------------------------------------------------------------------

    def _write(self, new: Sequence[StateChangeEvent]) -> None:
        """Make the file hold the waiting events, `new` being the last of them."""
        try:
            if not self._waiting:
                self._empty()
            elif self._torn or self._lines + len(new) > 2 * len(self._waiting) + RECORDED_LINES_MAX:
                write_atomically(self._path, _dump(self._waiting.values()), files=self._files)
                self._lines, self._torn = len(self._waiting), False
            elif new:
                self._append(_dump(new))
                self._lines += len(new)
        except OSError as error:
            logger.error("state changes not kept on disk", path=str(self._path), reason=str(error))
            self._torn = True

    def _empty(self) -> None:
        """Empty the file, unsynced: events that a loss of power brings back are recorded twice."""
        if self._lines or self._torn:
            descriptor = self._files.open(self._path, create=True)
            try:
                self._files.truncate(descriptor, 0)
            finally:
                self._files.close(descriptor)
            self._lines, self._torn = 0, False

    def _append(self, data: bytes) -> None:
        new_file = self._lines == 0
        descriptor = self._files.open(self._path, create=True)
        try:
            written = self._files.append(descriptor, (data,))
            if written != len(data):
                raise OSError(f"{written} of {len(data)} bytes written")
            self._files.sync(descriptor)
        finally:
            self._files.close(descriptor)
        if new_file:  # its name has to survive too
            self._files.sync_directory(self._path.parent)


def _dump(events: Iterable[StateChangeEvent]) -> bytes:
    return b"".join(event_value(event) + b"\n" for event in events)
