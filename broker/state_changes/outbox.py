"""What happened on this broker alone, on its disk until `__state_changes` has it.

A cut of a log or the removal of a stray is told by no znode. It is written here before it is done, so
that a broker which dies in between tells it in its next life; that it was then not done is harmless, for
it is about to be. A file of JSON lines: appended and synced, emptied when nothing waits any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import structlog

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.events.replica_events import Recorder, Teller
from strandline.broker.storage.state_files.checkpoint import read_whole, write_atomically
from strandline.config import OUTBOX_EVENTS_MAX
from strandline.ports import Files
from strandline.vocabulary.state_changes import StateChangeEvent, event_value, parse_event

logger = structlog.get_logger(__name__)

RECORDED_LINES_MAX: Final = 64
"""So many lines of what is recorded may stay in the file, besides as many as wait: it is not replaced for
each. One that is read again is told again, which changes nothing."""


class Outbox:
    """One broker's. Synchronous, and never fails whoever tells it something: a disk that takes nothing is
    no reason to stop replicating, and the event goes to the topic all the same."""

    def __init__(
        self,
        path: Path,
        recorder: Recorder,
        *,
        events_max: int = OUTBOX_EVENTS_MAX,
        files: Files = SYSTEM_FILES,
    ) -> None:
        self._path = path
        self._recorder = recorder
        self._events_max = events_max
        self._files = files
        self._waiting: dict[tuple[str, str], StateChangeEvent] = {}
        self._lines = 0
        """In the file; those that are recorded are among them."""
        self._torn = False
        """True while the file may end within a line, or lack one."""
        self._teller = Teller(lambda event: event.identity in self._waiting, self._recorded)

    def open(self) -> None:
        """Tell what the last life left."""
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
            except ValueError as error:  # a loss of power as it was written: it was not done either
                logger.error("a line of the outbox is dropped", path=str(self._path), reason=str(error))
                self._torn = True
            else:
                self._waiting[event.identity] = event
        if self._torn:
            self._write([])
        self._teller.tell(self._recorder, list(self._waiting.values()))

    def keep(self, events: Sequence[StateChangeEvent]) -> None:
        """On the disk when this returns, and told until it is recorded."""
        new = [event for event in events if event.identity not in self._waiting]
        if not new:
            return
        self._waiting.update((event.identity, event) for event in new)
        self._bound()
        self._write(new)
        self._teller.tell(self._recorder, new)

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
        """Have the file hold what waits, `new` being the end of that."""
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
        """Unsynced: what a loss of power brings back is told twice."""
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
