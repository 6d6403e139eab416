"""A producer snapshot above a log's end is of records that are in no log: it goes, too (CORRECTNESS T12).

Kept, it would speak again as soon as the log has grown past it: a sequence that is in no log would be
answered as a duplicate, and the record with it would be acknowledged and never be read.
"""

from __future__ import annotations

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.core.replication.producer_state import ProducerState
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.segments.segment import file_name
from tests.broker.storage.support.disk import FOLDER, append, fill, names, new_log, open_log

PRODUCER = 7
CUT = 2
"""Offset at which each test cuts the log: below every snapshot."""


def with_snapshot() -> tuple[PartitionLog, MemoryFiles, int]:
    """A log whose records from `CUT` on are all of one producer, and the offset of its last snapshot."""
    log, files = new_log()
    fill(log, 1)
    sequence = 0
    while len(names(files, ".snapshot")) < 2:
        append(log, b"x" * 200, producer=(PRODUCER, 0, sequence))
        sequence += 1
    return log, files, names(files, ".snapshot")[-1]


def lose_from(files: MemoryFiles, first: int) -> None:
    """The worst effect of a loss of power: all segments but the first are gone, and that one is torn; the
    snapshots, which were written to other blocks, are whole."""
    for base in names(files, ".log")[1:]:
        files.remove(FOLDER / file_name(base, ".log"))
    descriptor = files.open(FOLDER / file_name(0, ".log"))
    torn = open_log(files.after_crash(), clean=False)
    files.truncate(descriptor, torn.bytes_from(0) - torn.bytes_from(first) + 10)
    files.close(descriptor)


def assert_forgotten(log: PartitionLog, files: MemoryFiles, snapshot: int) -> None:
    """The log grows past the snapshot with records of a producer without sequences, and the process
    crashes."""
    while log.log_end_offset <= snapshot:
        log.appending.begin_epoch(log.epochs.latest + 1)
        fill(log, 1, size=1)
    found = open_log(files.after_crash(), clean=False)
    assert len(found.producers) == 0
    before = found.log_end_offset
    assert append(found, b"again", producer=(PRODUCER, 0, 0)) == before


def test_recovery_drops_the_snapshots_above_the_end_that_it_finds() -> None:
    """CORRECTNESS T12: after a loss of power, and a log that grows again from where it was torn."""
    log, files, snapshot = with_snapshot()
    log.close(clean=False)
    lose_from(files, CUT)
    log = open_log(files, clean=False)
    assert log.log_end_offset == CUT
    assert_forgotten(log, files, snapshot)


def test_a_cut_drops_the_snapshots_above_it() -> None:
    """CORRECTNESS T12: a follower cuts what its leader lacks, and grows past the place with other records."""
    log, files, snapshot = with_snapshot()
    log.cutting.truncate_to(CUT)
    assert_forgotten(log, files, snapshot)


def test_a_snapshot_at_the_end_covers_the_log_below_it_and_stays() -> None:
    """CORRECTNESS T12: it saves the scan for producers of everything below."""
    log, files, snapshot = with_snapshot()
    log.cutting.truncate_to(snapshot)
    assert snapshot in names(files, ".snapshot")
    log.close(clean=False)
    found = open_log(files.after_crash(), clean=False)
    assert snapshot in names(files, ".snapshot")
    assert found.producers.to_bytes() != ProducerState(producers_max=1, expiry_ms=1).to_bytes()
