"""Appends to a log: as a leader under new offsets, or as a follower under those of the leader."""

from __future__ import annotations

from strandline.broker.core.replication.producer_state import By, Duplicate
from strandline.broker.storage import admission
from strandline.broker.storage.admission import NO_TIMESTAMP, Appended
from strandline.broker.storage.cutting import Cutting
from strandline.broker.storage.parts import LogParts
from strandline.broker.storage.segments.segment import Segment
from strandline.errors import StorageFailed, UnexpectedOffset
from strandline.records import STAMP_BYTES, BatchHeader, stamp
from strandline.records.control import WrittenMarker, decode_marker, encode_marker
from strandline.vocabulary.log import Transactional
from strandline.vocabulary.transactions import Marker


class Appending:
    """The appends of one `PartitionLog`."""

    def __init__(self, parts: LogParts, cutting: Cutting) -> None:
        self._parts = parts
        self._cutting = cutting

    def begin_epoch(self, epoch: int) -> None:
        """Begin to lead: (epoch, LEO) is in the epoch file before this returns (T4).

        Raises StorageFailed, also for a corrupt log; ValueError if the log knows a newer epoch.
        """
        parts = self._parts
        self._check_may_lead()
        with parts.fence.repeatable:
            parts.save_epochs(changed=parts.epochs.assign(epoch, parts.end))

    def as_leader(
        self, records: bytes, epoch: int, *, now_ms: int,
        expected_offset: int | None = None, by: By = None, any_first_sequence: bool = False,
        from_client: bool = False, transaction: Transactional | None = None,
    ) -> Appended:  # fmt: skip
        """Append one batch under the next offsets and this epoch. For `by` and more see `ProducerState`;
        `from_client`: `admission.check_client` has to pass, too.

        A batch that an idempotent producer sent before is not written again: its old offsets are returned,
        wherever the log ends by now. Raises before anything is written: CorruptMessage, MessageTooLarge,
        InvalidRecord, UnsupportedCompression, the errors of `ProducerState.check`, UnexpectedOffset unless
        the log ends at `expected_offset`. Raises StorageFailed if the log is, or becomes, fenced; ValueError.
        """
        parts = self._parts
        self._check_may_lead(epoch)
        config = parts.config
        header = admission.from_producer(records, bytes_max=config.batch_bytes_max, keyed=config.compacts)
        known = admission.known_again(header, config)
        verdict = parts.producers.check(
            known, now_ms, by, any_first_sequence=any_first_sequence, transaction=transaction
        )
        if isinstance(verdict, Duplicate):
            return admission.known(verdict.base_offset, verdict.last_offset, header, config)
        base_offset = parts.end
        if expected_offset is not None and expected_offset != base_offset:
            raise UnexpectedOffset(
                f"{parts.directory.name} ends at offset {base_offset}, not {expected_offset}",
                limit=base_offset,
            )
        if from_client:
            admission.check_client(records, header, config, now_ms)
        records, header = admission.stored(records, header, config, now_ms)
        with parts.fence.repeatable:
            segment, position = self._write(records, header, epoch, now_ms)
            parts.producers.record(admission.known_again(header, config), base_offset, now_ms, by)
            segment.note(header, base_offset, position, config.index_interval_bytes, now_ms)
        append_time_ms = header.max_timestamp if header.is_log_append_time else NO_TIMESTAMP
        return Appended(base_offset, segment.next_offset, append_time_ms=append_time_ms)

    def marker_as_leader(self, marker: Marker, epoch: int, *, now_ms: int) -> Appended:
        """Append the marker that ends a producer's transaction here. One that is written again ends nothing.

        Raises before anything is written: TransactionCoordinatorFenced, InvalidProducerEpoch. Raises
        StorageFailed if the log is, or becomes, fenced; ValueError.
        """
        parts = self._parts
        self._check_may_lead(epoch)
        parts.producers.check_marker(marker)
        written = WrittenMarker(marker.commit, marker.coordinator_epoch)
        records = encode_marker(
            written, producer_id=marker.producer.producer_id,
            producer_epoch=marker.producer.producer_epoch, timestamp_ms=now_ms,
        )  # fmt: skip
        header, base_offset = BatchHeader.parse(records), parts.end
        with parts.fence.repeatable:
            segment, position = self._write(records, header, epoch, now_ms)
            parts.producers.record_marker(header, written, base_offset, now_ms)
            segment.note(header, base_offset, position, parts.config.index_interval_bytes, now_ms)
        return Appended(base_offset, segment.next_offset)

    def _write(self, records: bytes, header: BatchHeader, epoch: int, now_ms: int) -> tuple[Segment, int]:
        """Write one batch at the log's end; returns its segment, and its position there."""
        segment = self._segment_for(len(records), header.record_count, now_ms)
        head = stamp(header, base_offset=segment.next_offset, leader_epoch=epoch)
        return segment, segment.write((head, memoryview(records)[STAMP_BYTES:]), len(records))

    def as_follower(self, records: bytes) -> None:
        """Append the leader's batches, under the leader's offsets and epochs.

        Raises CorruptMessage, with nothing written, if a batch is damaged (E15), does not follow the LEO, or
        goes back to an older epoch; StorageFailed. Damaged files at the log's end are removed first."""
        parts = self._parts
        start = parts.end
        records, headers = admission.from_leader(records, log_end_offset=start, last_epoch=parts.last_epoch)
        markers = {each.base_offset: decode_marker(records, each) for each in headers if each.is_control}
        now_ms = parts.clock.wall_ms()
        with parts.fence.repeatable:
            if parts.leftovers:
                with parts.lock:
                    self._cutting.discard_from(start)
            self._take_epochs(headers)
            segment = self._segment_for(len(records), headers[-1].next_offset - start, now_ms)
            position = segment.write((records,), len(records))
            for header in headers:
                if not header.is_control:
                    known = admission.known_again(header, parts.config)
                    parts.producers.record(known, header.base_offset, now_ms)
                elif (marker := markers[header.base_offset]) is not None:
                    parts.producers.record_marker(header, marker, header.base_offset, now_ms)
                at = position + header.position
                segment.note(header, header.base_offset, at, parts.config.index_interval_bytes, now_ms)

    def _take_epochs(self, headers: list[BatchHeader]) -> None:
        """Store the epochs that begin in these batches before the batches are written (T1)."""
        parts = self._parts
        # An epoch in which this broker led and wrote nothing is not an epoch of these records (T8).
        changed = parts.epochs.truncate_from_end(parts.end)
        for header in headers:
            if header.leader_epoch != parts.epochs.latest:
                changed |= parts.epochs.assign(header.leader_epoch, header.base_offset)
        parts.save_epochs(changed=changed)

    def _segment_for(self, size: int, records: int, now_ms: int) -> Segment:
        parts = self._parts
        segments = parts.segments
        if segments.is_full(size, records, parts.config, now_ms):
            parts.roll()
        if not segments.active.size:
            segments.names_unsynced = True
        parts.sync_state.begin_append(parts.end)
        return segments.active

    def _check_may_lead(self, epoch: int | None = None) -> None:
        """Raises StorageFailed; ValueError if the log is in another epoch than the append."""
        parts = self._parts
        parts.fence.check()
        if parts.state.facts.corrupt is not None:
            raise StorageFailed(f"{parts.directory.name} must not lead: {parts.state.facts.corrupt}")
        if epoch is not None and epoch != parts.epochs.latest:
            raise ValueError(f"{parts} is in epoch {parts.epochs.latest}, the append in {epoch}")
