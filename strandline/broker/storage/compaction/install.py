"""Installs the result of a compaction in the log, between two requests; `rewrite` has the rule."""

from __future__ import annotations

import threading
from pathlib import Path

from strandline.broker.core.replication.producer_state import ProducerState
from strandline.broker.storage.compaction.cleanable import find_cleanable
from strandline.broker.storage.compaction.rewrite import Compaction, Replacement
from strandline.broker.storage.compaction.swap import swap
from strandline.broker.storage.fence import Fence
from strandline.broker.storage.segments.segment import Segment
from strandline.broker.storage.segments.segments import Segments
from strandline.broker.storage.state_files.log_state import StateFile
from strandline.ports import Files
from strandline.vocabulary.topic_config import TopicConfig


class Compactor:
    """The passes over one log, one at a time. All methods but `finish` run on the event loop."""

    __slots__ = (
        "_directory", "_fence", "_files", "_in_progress", "_lock", "_producers", "_segments", "_state",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        segments: Segments,
        state: StateFile,
        producers: ProducerState,
        fence: Fence,
        lock: threading.Lock,
        files: Files,
    ) -> None:
        """The arguments are the log's own parts; a flush holds `lock` while it syncs segments in a thread."""
        self._directory = directory
        self._segments = segments
        self._state = state
        self._producers = producers
        self._fence = fence
        self._lock = lock
        self._files = files
        self._in_progress: Compaction | None = None

    def begin(
        self,
        config: TopicConfig,
        *,
        now_ms: int,
        high_watermark: int,
        map_bytes: int,
        kept_from: int,
        kept_ms_max: int,
        continued: bool,
    ) -> Compaction | None:
        """A pass over the segments that may be compacted, if it is worth it. Raises StorageFailed."""
        stable = self._producers.transactions.stable_offset(high_watermark, 0)
        with self._fence.repeatable:
            cleanable = find_cleanable(
                self._segments, config, self._state.facts, now_ms=now_ms, stable_offset=stable
            )
        if cleanable is None or not (cleanable.worth_it or continued):
            return None
        self._in_progress = Compaction(
            self._directory, cleanable, config,
            files=self._files, map_bytes=map_bytes, now_ms=now_ms, producers=self._producers.empty(),
            aborted=self._producers.transactions.aborted(0, cleanable.end), kept_from=kept_from,
            kept_ms_max=kept_ms_max,
        )  # fmt: skip
        return self._in_progress

    def cancel(self) -> None:
        """Files of the log are about to be removed: the pass in progress, if any, changes nothing further."""
        if self._in_progress is not None:
            self._in_progress.cancel()
            self._in_progress = None

    def install(self, compaction: Compaction, replacement: Replacement) -> bool:
        """Put a new segment into place, on the disk and for all readers; False while a flush is in progress.

        Raises Abandoned after `cancel`, StorageFailed.
        """
        compaction.check()
        with self._fence.repeatable:
            if not self._lock.acquire(blocking=False):
                return False
            try:
                base, end = replacement.base_offset, replacement.next_offset
                swap(self._directory, base, end, files=self._files)
                self._segments.replace(
                    Segment.found(self._directory, base, end, replacement.size, self._files)
                )
                self._producers.transactions.forget_aborted(replacement.removed_markers)
            finally:
                self._lock.release()
        return True

    def finish(self, compaction: Compaction) -> None:
        """Every group is in place: store how far the log is clean. Syncs, so it runs in a thread.

        Raises Abandoned after `cancel`, StorageFailed.
        """
        with self._fence.repeatable, self._lock:
            compaction.check()
            self._state.change(clean_offset=compaction.end, tombstones_due_ms=compaction.tombstones_due_ms)
