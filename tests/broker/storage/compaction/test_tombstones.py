"""How long a compaction keeps the records that delete keys."""

from __future__ import annotations

import pytest

from strandline.broker.storage.compaction.rewrite import HORIZON_MS_MAX, KEPT_AGAIN_MS
from strandline.broker.storage.log import PartitionLog
from strandline.records import (
    decode,
)
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import Marker
from tests.broker.storage.compaction.compacting import (
    COMPACTED,
    NOW_MS,
    batches,
    check_sound,
    compact,
    compacted_log,
    pairs,
    put,
    seal,
)
from tests.broker.storage.support.disk import open_log
from tests.strandline.records.hostile_batches import timed

HOUR_MS = 3_600_000
LOG_APPEND_TIME = 8


def test_a_tombstone_stays_for_the_retention_of_deletes_and_then_goes_by_itself() -> None:
    """KIP-534: from the compaction that met it first; no new record is needed for its end."""
    log, files = compacted_log()
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", None), ("c", "1"))
    seal(log)
    compact(log)
    kept = [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    assert pairs(log) == kept
    assert compact(log, now_ms=NOW_MS + 999) == 0
    assert compact(log, now_ms=NOW_MS + 1_000) == 1
    assert pairs(log) == [(1, "b", "1"), (3, "c", "1")]
    assert compact(log, now_ms=NOW_MS + 99_999) == 0
    check_sound(log, files)


def test_a_tombstone_and_a_marker_stay_while_a_replica_lacks_them() -> None:
    """CORRECTNESS C8: though they are due. Each look at the log is a while after the one before. The producer
    is remembered by its last marker, which stays."""
    log, files = compacted_log()
    put(log, ("a", "1"))
    put(log, ("a", None), ("c", "1"))
    for epoch in range(2):
        marker = Marker(ProducerIdentity(7, epoch), False, 1)
        log.appending.marker_as_leader(marker, 1, now_ms=NOW_MS)
    put(log, ("d", "1"))
    seal(log)
    compact(log)
    due_ms, kept = NOW_MS + 1_000, [(1, "a", None), (2, "c", "1"), (5, "d", "1")]
    assert compact(log, now_ms=due_ms, kept_from=1) == 1
    assert (pairs(log), markers(log)) == (kept, [3, 4])
    assert compact(log, now_ms=due_ms + KEPT_AGAIN_MS - 1, kept_from=1) == 0
    assert compact(log, now_ms=due_ms + KEPT_AGAIN_MS, kept_from=3) == 1
    assert (pairs(log), markers(log)) == (kept[1:], [3, 4])
    assert compact(log, now_ms=due_ms + 2 * KEPT_AGAIN_MS, kept_from=4) == 1
    assert (pairs(log), markers(log)) == (kept[1:], [4])
    assert compact(log, now_ms=due_ms + 9 * KEPT_AGAIN_MS) == 0
    check_sound(log, files)


def test_a_replica_that_does_not_come_back_holds_up_no_tombstone_for_good() -> None:
    """CORRECTNESS C8: the moment from which it counts is in the batch, and survives elections."""
    log, files = compacted_log()
    put(log, ("a", None), ("b", "1"))
    seal(log)
    compact(log)
    week_ms = 7 * 24 * HOUR_MS
    assert compact(log, now_ms=NOW_MS + week_ms, kept_from=0, kept_ms_max=week_ms) == 1
    assert pairs(log) == [(0, "a", None), (1, "b", "1")]
    over_ms = NOW_MS + week_ms + KEPT_AGAIN_MS
    assert compact(log, now_ms=over_ms, kept_from=0, kept_ms_max=week_ms) == 1
    assert pairs(log) == [(1, "b", "1")]
    check_sound(log, files)


def markers(log: PartitionLog) -> list[int]:
    """Their offsets."""
    return [header.base_offset for header in batches(log) if header.is_control]


def test_a_later_pass_leaves_a_tombstone_before_its_moment() -> None:
    """KIP-534: new records begin a pass, and neither bring the moment forward nor put it off."""
    log, files = compacted_log()
    put(log, ("a", "1"))
    put(log, ("a", None))
    seal(log)
    compact(log)
    for later_ms in (1, 500, 999):
        put(log, ("b", str(later_ms)))
        seal(log)
        assert compact(log, now_ms=NOW_MS + later_ms) == 1
        assert (1, "a", None) in pairs(log)
    assert compact(log, now_ms=NOW_MS + 1_000) == 1
    assert pairs(log) == [(4, "b", "999")]
    check_sound(log, files)


def test_the_moment_is_in_the_batch_and_moves_no_timestamp() -> None:
    """KIP-534: it stands in the place of the base timestamp, and survives restarts and replication."""
    log, files = compacted_log()
    put(log, ("a", None), ("b", "1"), timestamp=123_456)
    seal(log)
    before = [r.timestamp for r in decode(log.read(0, 1 << 20, below=2))]
    compact(log)
    (header,) = batches(log)
    assert header.delete_horizon_ms == header.base_timestamp == NOW_MS + 1_000
    assert [r.timestamp for r in decode(log.read(0, 1 << 20, below=2))] == before
    log.close(clean=True)
    log = open_log(files.after_crash(), config=COMPACTED)
    log.appending.begin_epoch(2)
    seal(log)
    assert compact(log, now_ms=NOW_MS + 5_000) == 1
    assert pairs(log) == [(1, "b", "1")]


def test_a_tombstone_that_has_a_successor_goes_like_any_record() -> None:
    log, _ = compacted_log()
    put(log, ("a", None))
    put(log, ("a", "again"))
    seal(log)
    compact(log)
    assert pairs(log) == [(1, "a", "again")]
    assert compact(log, now_ms=NOW_MS + 99_999) == 0


@pytest.mark.parametrize("retention_ms", [2**63 - 1, 10**30])
def test_a_tombstone_may_stay_for_all_time(retention_ms: int) -> None:
    """CORRECTNESS X14: "forever" is a number too. Counted from now it did not fit the batch's header, and the
    error ended each replica's broker."""
    log, files = compacted_log(COMPACTED.model_copy(update={"delete_retention_ms": retention_ms}))
    put(log, ("a", "1"))
    put(log, ("a", None))
    seal(log)
    assert compact(log) == 1
    assert pairs(log) == [(1, "a", None)]
    assert batches(log)[-1].delete_horizon_ms == HORIZON_MS_MAX
    assert compact(log, now_ms=NOW_MS + 99_999) == 0
    check_sound(log, files)


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
def test_a_tombstone_from_before_all_time_stays(attributes: int) -> None:
    """CORRECTNESS X14: 64 bits do not reach from its time to the horizon. The error ended each replica's
    broker, at each of its starts. The rest of its batch is compacted, and no pass begins for it again."""
    log, files = compacted_log()
    log.appending.as_leader(timed(-(2**63), (0, b"old"), (0, None), attributes=attributes), 1, now_ms=0)
    put(log, ("a", "1"))
    put(log, ("a", None))
    seal(log)
    assert compact(log) == 1
    assert pairs(log) == [(1, "k", None), (3, "a", None)]
    assert [header.delete_horizon_ms for header in batches(log)] == [None, None, NOW_MS + 1_000]
    assert compact(log, now_ms=NOW_MS + 1_000) == 1
    assert pairs(log) == [(1, "k", None)]
    assert compact(log, now_ms=NOW_MS + 99_999) == 0
    check_sound(log, files)
