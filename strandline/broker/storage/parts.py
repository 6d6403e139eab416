"""What the rooms of one log share: its files, what is known of them, and the locks."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from sys import maxsize

from strandline.broker.core.replication.epochs import EpochCache
from strandline.broker.core.replication.producer_state import ProducerState
from strandline.broker.storage.fence import Fence
from strandline.broker.storage.segments.segments import Segments
from strandline.broker.storage.snapshots import save_snapshot
from strandline.broker.storage.state_files.epoch_file import EpochFile
from strandline.broker.storage.state_files.log_state import StateFile
from strandline.broker.storage.sync_state import SyncState
from strandline.ports import Clock, Files
from strandline.vocabulary.topic_config import TopicConfig


@dataclass(slots=True)
class LogParts:
    """Of one `PartitionLog`, which describes it to others."""

    directory: Path
    config: TopicConfig
    clock: Clock
    files: Files
    segments: Segments
    state: StateFile
    sync_state: SyncState
    epochs: EpochCache
    epoch_file: EpochFile
    producers: ProducerState
    fence: Fence
    leftovers: bool
    """Damaged files lie behind the log's end."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held by a flush, and by code that removes files or writes `log.json`."""
    cutting_to: int = maxsize
    """The end of the cut in progress: records above it are not missed."""

    @property
    def end(self) -> int:
        """LEO: the offset that the next record gets."""
        return self.segments.active.next_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, also if that is deleted; -1 if there was none, or it is not known."""
        return self.epochs.epoch_at(self.end - 1)

    def __str__(self) -> str:
        return f"PartitionLog({self.directory.name}, {self.state.facts.log_start_offset}..{self.end})"

    def roll(self) -> None:
        """Begin another segment."""
        self.save_producers()  # first: a deletion of what they are rebuilt from would forget them
        self.segments.roll()

    def save_epochs(self, *, changed: bool) -> None:
        if self.epoch_file.save(changed=changed):
            self.segments.names_unsynced = True

    def save_producers(self) -> None:
        keep = {segment.base_offset for segment in self.segments}
        save_snapshot(self.directory, self.producers, self.end, keep=keep, files=self.files)
        self.segments.names_unsynced = True
