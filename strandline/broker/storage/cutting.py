"""Removes records from a log: at its end in a truncation, at its start by deletion, or all of them."""

from __future__ import annotations

from sys import maxsize

from strandline.broker.storage.compaction.install import Compactor
from strandline.broker.storage.parts import LogParts
from strandline.broker.storage.snapshots import load_producers


class Cutting:
    """The cuts of one `PartitionLog`. Each ends a compaction that is on its way."""

    def __init__(self, parts: LogParts, compactor: Compactor) -> None:
        self._parts = parts
        self._compactor = compactor

    def truncate_to(self, offset: int) -> None:
        """Cut everything at or above an offset, and the epochs and producers with it (T8, T12).

        An offset within a batch cuts the whole batch. At or above the LEO no record goes, yet epochs
        that wrote nothing do. Raises StorageFailed; ValueError below the log's start.
        """
        parts = self._parts
        if offset < parts.state.facts.log_start_offset:
            raise ValueError(f"cannot truncate {parts} to offset {offset}, below its start")
        self._compactor.cancel()
        parts.cutting_to = offset
        with parts.fence, parts.lock:
            if offset < parts.end:
                offset = parts.cutting_to = parts.segments.holding(offset).boundary_of(offset).offset
                # Write the length of the log first: a crash in between leaves a log that is longer than it
                # claims, never one that is shorter. The start may lie within the batch that goes.
                facts = parts.state.facts
                if offset < max(facts.recovery_point, facts.log_start_offset):
                    parts.state.change(
                        log_start_offset=min(offset, facts.log_start_offset),
                        recovery_point=min(offset, facts.recovery_point),
                        clean_offset=min(offset, facts.clean_offset),
                    )
                load_producers(
                    parts.directory, parts.segments, parts.producers,
                    end=offset, clean_offset=facts.clean_offset,
                    files=parts.files, now_ms=parts.clock.wall_ms(),
                )  # fmt: skip
            offset = min(offset, parts.end)
            parts.save_epochs(changed=parts.epochs.truncate_from_end(offset))
            if offset < parts.end or parts.leftovers:
                self.discard_from(offset)
        parts.cutting_to = maxsize

    def reset_to(self, offset: int) -> None:
        """Drop everything and begin, empty, at an offset. Raises StorageFailed; ValueError below 0."""
        parts = self._parts
        if offset < 0:
            raise ValueError(f"cannot reset {parts} to offset {offset}")
        self._compactor.cancel()
        parts.cutting_to = 0
        with parts.fence, parts.lock:
            parts.state.change(recovery_point=0, clean_offset=0, tombstones_due_ms=None)
            parts.producers.clear()
            parts.save_epochs(changed=parts.epochs.clear())
            parts.segments.discard_all(offset)
            parts.state.change(log_start_offset=offset, recovery_point=offset)
            parts.leftovers, parts.sync_state.offset = False, offset
        parts.cutting_to = maxsize

    def mark_whole(self) -> None:
        """A leader has taken this replica back into the ISR: the damaged part is replaced (E15).

        Raises StorageFailed.
        """
        parts = self._parts
        if parts.state.facts.corrupt is not None:
            with parts.fence.repeatable, parts.lock:
                parts.state.change(corrupt=None)

    def discard_from(self, offset: int) -> None:
        """Drop all files from a batch boundary on, with the lock held."""
        parts = self._parts
        parts.segments.discard_from(offset)
        parts.leftovers = False
        parts.sync_state.cut(offset)

    def advance_start(self, offset: int, *, as_leader: bool = False) -> None:
        """Delete the records below an offset. A lower offset changes nothing.

        The log starts at exactly that offset; a file goes once all of its records are deleted. Raises
        StorageFailed; as a leader, StorageBusy if the disk is full; ValueError above the LEO.
        """
        parts = self._parts
        if offset > parts.end:
            raise ValueError(f"cannot advance the start of {parts} to offset {offset}, above its end")
        if offset <= parts.state.facts.log_start_offset:
            return
        self._compactor.cancel()
        with parts.fence.freeing if as_leader else parts.fence.repeatable, parts.lock:
            # Stored before anything is removed: files that a crash leaves are deleted by the next open.
            parts.state.change(log_start_offset=offset)
            while len(parts.segments) > 1 and parts.segments.first.next_offset <= offset:
                parts.segments.remove_first()
            parts.producers.transactions.forget_below(offset)
            # The last record's epoch stays known: a replica that deleted all follows by it.
            last = parts.end - 1
            parts.save_epochs(changed=parts.epochs.truncate_from_start(min(offset, last)))
