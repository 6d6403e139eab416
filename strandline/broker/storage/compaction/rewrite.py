"""Log compaction: keeps the last record of each key, and changes no offset (KIP-534).

A pass reads the keys written since the last pass, as many as the map holds, and then copies the log from its
start, one group of segments after the other, without the records that have a successor. Copies are written
aside; `Compactor.install` puts each group in place before the next is begun, the oldest first. So wherever a
pass ends, no tombstone is removed before the records that it deletes.

**Concurrency.** The steps of a pass run in a thread and touch nothing that the log uses: they read sealed
segments below the HW, which never change, through descriptors of their own, and write files that no other
code knows. Everything visible happens in `install`, on the event loop, between two requests. Appends,
fetches, elections and flushes need no care. Code that removes files (a truncation, a reset, retention, the
end) calls `cancel` first, also on the event loop; an install after that does nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from operator import le
from pathlib import Path
from typing import Final

from strandline.broker.core.replication.producer_state import ProducerState
from strandline.broker.core.replication.transactions import AbortedTransaction
from strandline.broker.storage.compaction.cleanable import Cleanable
from strandline.broker.storage.compaction.decided import DecidedTransactions
from strandline.broker.storage.compaction.key_map import KeyMap
from strandline.broker.storage.compaction.swap import cleaned_path
from strandline.broker.storage.segments.index import NO_TIMESTAMP, IndexFile
from strandline.broker.storage.segments.scanning import Bad, scan
from strandline.broker.storage.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, RELATIVE_OFFSET_MAX, Segment
from strandline.broker.storage.snapshots import load_producers
from strandline.broker.storage.state_files.checkpoint import write_atomically
from strandline.errors import CorruptMessage, UnsupportedCompression
from strandline.ports import Files
from strandline.records import BatchHeader, Columns, decode_columns, emptied, gap_batch, keep_records
from strandline.vocabulary.topic_config import TopicConfig

GROUP_SEGMENTS_MAX: Final = 32
"""Segments that one step merges: their files are deleted between two requests."""

HORIZON_MS_MAX: Final = 2**62
"""The latest delete horizon, in 146 million years: 64 bits have room for it, and for its distance from any
timestamp since 1970."""

KEPT_AGAIN_MS: Final = 60_000
"""When a log is looked at again whose tombstones are due and stay for a replica."""

_WRITE_BYTES: Final = 1 << 20


class Abandoned(Exception):
    """The log was cut, reset or closed during a compaction, which changes nothing further."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A segment that is written aside and synced, and covers all offsets from its base to `next_offset`."""

    base_offset: int
    next_offset: int
    size: int
    removed_markers: Set[int]
    """Offsets of markers that are not in it any longer."""


class Compaction:
    """One pass over one log: `read_keys`, then `write_group` until it returns None, each in a thread."""

    def __init__(
        self,
        directory: Path,
        cleanable: Cleanable,
        config: TopicConfig,
        *,
        files: Files,
        map_bytes: int,
        now_ms: int,
        producers: ProducerState,
        aborted: Iterable[AbortedTransaction],
        kept_from: int,
        kept_ms_max: int,
    ) -> None:
        """`producers` is an empty state, with the limits of the log's own; `aborted` are the log's.
        Tombstones and markers from `kept_from` on stay for `kept_ms_max` after they are due: some replica may
        lack them."""
        self.tombstones_due_ms: int | None = None
        """When the first remaining tombstone may be removed."""
        self.end = cleanable.clean_offset
        """The end of the part that this pass makes clean; known once the keys are read."""
        self._bound = cleanable.end
        self._clean_offset = cleanable.clean_offset
        self._directory = directory
        self._config = config
        self._files = files
        self._keys = KeyMap(map_bytes)
        self._now_ms = now_ms
        self._kept_from = kept_from
        self._kept_ms_max = kept_ms_max
        self._producers = producers
        self._transactions = DecidedTransactions(aborted)
        self._needed: frozenset[int] = frozenset()
        """Base offsets of the batches from which producers are remembered."""
        self._removed_markers: set[int] = set()
        """Of the present group."""
        # Not the log's own objects: the event loop opens and closes their descriptors.
        self._sources = [
            Segment.found(directory, each.base_offset, each.next_offset, each.size, files)
            for each in cleanable.segments
        ]
        self._next = 0
        self._cancelled = threading.Event()

    # --- the event loop's side ---------------------------------------------------------------

    def cancel(self) -> None:
        """Files of the log are about to be removed. The thread ends soon, by Abandoned."""
        self._cancelled.set()

    def check(self) -> None:
        """Raises Abandoned after `cancel`."""
        if self._cancelled.is_set():
            raise Abandoned

    def discard(self, replacement: Replacement) -> None:
        """Remove a segment that was written aside and will not be installed. Raises OSError."""
        _discard(self._directory, replacement.base_offset, self._files)

    @property
    def complete(self) -> bool:
        """False if there were more keys than the map holds: another pass continues from `end`."""
        return self.end >= self._bound

    # --- the thread's side -------------------------------------------------------------------

    @contextmanager
    def _unless_cancelled(self) -> Iterator[None]:
        """Ignores an error about a file that was removed after `cancel`."""
        try:
            yield
        except (OSError, CorruptMessage):
            self.check()
            raise

    def read_keys(self) -> None:
        """Learn each key's last record, and which batches are needed for their producers alone.

        Raises Abandoned, OSError, CorruptMessage; the log is unchanged then.
        """
        with self._unless_cancelled():
            self._learn_producers()
            self._learn_keys()

    def _learn_producers(self) -> None:
        try:
            load_producers(
                self._directory, self._sources, self._producers,
                end=self._bound, clean_offset=self._clean_offset, files=self._files, now_ms=self._now_ms,
            )  # fmt: skip
        finally:
            for source in self._sources:
                source.close()
        self._producers.expire(self._now_ms)
        self._needed = frozenset(
            offset
            for _, producer in self._producers
            for offset in (*(batch.base_offset for batch in producer.batches), producer.marker_offset)
        )

    def _learn_keys(self) -> None:
        self.end = self._bound
        for source in self._sources:
            if source.next_offset > self._clean_offset:
                for header, batch in self._batches(source):
                    if header.next_offset <= self._clean_offset or self._transactions.is_aborted(header):
                        continue
                    columns = _columns(header, batch)
                    if columns is not None and not self._keys.add(columns.keys, columns.offsets):
                        self.end = header.base_offset
                        return

    def write_group(self) -> Replacement | None:
        """Write the next segment that compaction changes aside, synced; None if there is none.

        Raises Abandoned, OSError, CorruptMessage, with no file of this group left behind.
        """
        while self._next < len(self._sources) and self._sources[self._next].base_offset < self.end:
            group = self._group()
            self._next += len(group)
            self._removed_markers = set()
            output = _Output(self._directory, group[0].base_offset, self._files, self._config)
            try:
                with self._unless_cancelled():
                    changed = len(group) > 1
                    for source in group:
                        changed |= self._copy(source, output)
                    if changed:
                        created_ms = max(_created_ms(source) for source in group)
                        return output.finish(created_ms=created_ms, removed_markers=self._removed_markers)
            except BaseException:
                output.discard()
                raise
            output.discard()
        return None

    def _group(self) -> Sequence[Segment]:
        """As many segments as are certain to fit into one after compaction."""
        first = self._sources[self._next]
        size, count = first.size, 1
        for source in self._sources[self._next + 1 : self._next + GROUP_SEGMENTS_MAX]:
            size += source.size
            reach = source.next_offset - first.base_offset
            too_much = size > self._config.segment_bytes or reach > RELATIVE_OFFSET_MAX
            if too_much or source.base_offset >= self.end:
                break
            count += 1
        return self._sources[self._next : self._next + count]

    def _copy(self, source: Segment, output: _Output) -> bool:
        """Copy the remaining batches of a segment; True if any record was left out."""
        changed = False
        for header, batch in self._batches(source):
            self.check()
            left = batch if header.base_offset >= self.end else self._remainder(header, batch)
            if left is None:
                # An existing gap is no change, unless it merges with another one.
                changed |= output.skip(header) or not header.is_gap
            else:
                changed |= left is not batch
                output.write(left)
        return changed

    def _remainder(self, header: BatchHeader, batch: bytes) -> bytes | None:
        """The remainder of a batch: itself, fewer records, its producer's numbers only, or None."""
        if header.is_control:
            return self._marker(header, batch)
        if self._transactions.is_aborted(header):
            return emptied(header) if header.base_offset in self._needed else None
        return self._transactions.committed(header, self._filtered(header, batch), self._needed)

    def _marker(self, header: BatchHeader, batch: bytes) -> bytes | None:
        """A marker itself, with the time until which it stays, or None."""
        if self._transactions.needs(header) or header.base_offset in self._needed:
            return batch
        horizon = header.delete_horizon_ms
        if horizon is not None and self._may_go(header, horizon):
            self._removed_markers.add(header.base_offset)
            return None
        if horizon is None:
            horizon = min(self._now_ms + self._config.delete_retention_ms, HORIZON_MS_MAX)
            batch = keep_records(
                batch, header, [True] * header.record_count,
                max_timestamp=header.max_timestamp, delete_horizon_ms=horizon,
            )  # fmt: skip
        self._due_at(header, horizon)
        return batch

    def _may_go(self, header: BatchHeader, horizon: int) -> bool:
        """Whether the marker or the tombstones of a batch with this horizon are due, and each replica has
        them, or was away for too long."""
        overdue_ms = self._now_ms - horizon
        return overdue_ms >= (self._kept_ms_max if header.next_offset > self._kept_from else 0)

    def _filtered(self, header: BatchHeader, batch: bytes) -> bytes | None:
        """A batch without the records that have a successor."""
        columns = _columns(header, batch)
        if columns is None:
            if header.record_count or header.base_offset in self._needed:
                return batch
            return None
        last = self._keys.last.get
        keys = columns.keys
        wanted = list(map(le, [last(key, -1) for key in keys], columns.offsets))
        if None in keys:  # from before the topic was compacted: no record can ever replace it
            wanted = [stays and key is not None for stays, key in zip(wanted, keys, strict=True)]
        horizon = self._sort_tombstones(header, columns, wanted) if None in columns.values else None
        if horizon is None and all(wanted):
            return batch
        if not any(wanted):
            return emptied(header) if header.base_offset in self._needed else None
        newest = header.max_timestamp
        if not header.is_log_append_time:
            newest = max(at for at, stays in zip(columns.timestamps, wanted, strict=True) if stays)
        keep = partial(keep_records, batch, header, wanted, max_timestamp=newest)
        if horizon is not None:
            # Else a time is too far from the horizon: no producer means it, and the tombstones stay.
            with suppress(CorruptMessage):
                left = keep(delete_horizon_ms=horizon)
                self._due_at(header, horizon)
                return left
        return batch if all(wanted) else keep()

    def _sort_tombstones(self, header: BatchHeader, columns: Columns, wanted: list[bool]) -> int | None:
        """Drop tombstones that are due; returns the time until which newly found ones stay, if there are
        any."""
        tombstones = [at for at, value in enumerate(columns.values) if value is None and wanted[at]]
        if not tombstones:
            return None
        horizon = header.delete_horizon_ms
        if horizon is not None and self._may_go(header, horizon):
            for at in tombstones:
                wanted[at] = False
            return None
        if horizon is None:
            return min(self._now_ms + self._config.delete_retention_ms, HORIZON_MS_MAX)
        self._due_at(header, horizon)
        return None

    def _due_at(self, header: BatchHeader, horizon: int) -> None:
        """The rest of a batch may be removed then, or once a later look finds that each replica has it."""
        if header.next_offset > self._kept_from:
            horizon = max(horizon, self._now_ms + KEPT_AGAIN_MS)
        self.tombstones_due_ms = min(horizon, self.tombstones_due_ms or horizon)

    def _batches(self, source: Segment) -> Iterator[tuple[BatchHeader, bytes]]:
        """The batches of a segment, each at position 0 of its own bytes, with their CRCs checked: a damaged
        batch must not get a valid CRC here."""
        descriptor = self._files.open(source.path)
        try:
            for item in scan(self._files, descriptor, source.size, source.base_offset):
                self.check()
                if isinstance(item, Bad):
                    raise CorruptMessage(f"{source.path}, offset {item.offset}: {item.reason}")
                yield item._replace(position=0), self._files.read(descriptor, item.size, item.position)
        finally:
            self._files.close(descriptor)


class _Output:
    """The segment that is being written aside."""

    def __init__(self, directory: Path, base_offset: int, files: Files, config: TopicConfig) -> None:
        self._files = files
        self._interval = config.index_interval_bytes
        # For its index and its times; its file is not used.
        self._segment = Segment(directory, base_offset, files)
        self._index_path = cleaned_path(directory, base_offset, INDEX_SUFFIX)
        self._log_path = cleaned_path(directory, base_offset, LOG_SUFFIX)
        self._gap: tuple[int, int, int] | None = None
        """Base offset, next offset and epoch of the present gap."""
        self._parts: list[bytes] = []
        self._unwritten_bytes = 0
        with suppress(FileNotFoundError):
            files.remove(self._log_path)
        self._descriptor: int | None = files.open(self._log_path, create=True)

    def skip(self, header: BatchHeader) -> bool:
        """Leave a batch out; True if its offsets extend the present gap."""
        base, epoch = header.base_offset, header.leader_epoch
        merges = self._gap is not None and self._gap[2] == epoch
        if self._gap is not None and merges:
            base = self._gap[0]
        else:
            self._close_gap()
        self._gap = (base, header.next_offset, epoch)
        return merges

    def write(self, batch: bytes) -> None:
        self._close_gap()
        self._append(batch)

    def _close_gap(self) -> None:
        """Write the present gap. Epochs have separate gaps, so that each begins where it began (T1)."""
        if self._gap is not None:
            self._append(gap_batch(*self._gap))
            self._gap = None

    def _append(self, batch: bytes) -> None:
        segment, header = self._segment, BatchHeader.parse(batch)
        segment.note(header, header.base_offset, segment.size, self._interval, NO_TIMESTAMP)
        self._parts.append(batch)
        self._unwritten_bytes += len(batch)
        if self._unwritten_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        assert self._descriptor is not None
        written = self._files.append(self._descriptor, (b"".join(self._parts),)) if self._parts else 0
        if written != self._unwritten_bytes:
            raise OSError(f"{self._log_path}: {written} of {self._unwritten_bytes} bytes written")
        self._parts.clear()
        self._unwritten_bytes = 0

    def finish(self, *, created_ms: int, removed_markers: Set[int]) -> Replacement:
        """All batches are written: sync the file, and write its index beside it. Raises OSError."""
        self._close_gap()
        self._write()
        assert self._descriptor is not None
        self._files.sync(self._descriptor)
        self._close()
        segment = self._segment
        index = IndexFile(
            segment.size, segment.next_offset, segment.largest_timestamp, created_ms, segment.index
        )
        write_atomically(self._index_path, index.to_bytes(), files=self._files, sync=False)
        return Replacement(segment.base_offset, segment.next_offset, segment.size, removed_markers)

    def discard(self) -> None:
        self._close()
        _discard(self._segment.directory, self._segment.base_offset, self._files)

    def _close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            self._files.close(descriptor)


def _columns(header: BatchHeader, batch: bytes) -> Columns | None:
    """A batch's records; None if there are none, or they cannot be read.

    The log may be older than its topic's policy: its records were not checked then.
    """
    if header.is_control or not header.record_count:
        return None
    try:
        columns = decode_columns(batch, header)
    except (CorruptMessage, UnsupportedCompression):
        return None
    offsets = columns.offsets
    inside = header.base_offset <= offsets[0] and offsets[-1] <= header.last_offset
    return columns if inside and all(a < b for a, b in pairwise(offsets)) else None


def _discard(directory: Path, base_offset: int, files: Files) -> None:
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX):
        with suppress(FileNotFoundError):
            files.remove(cleaned_path(directory, base_offset, suffix))


def _created_ms(source: Segment) -> int:
    created_ms = source.created_ms  # which may open it
    source.close()
    return created_ms
