"""How far a reassignment is, from the controller's list and the leader's answer."""

from __future__ import annotations

from strandline.client.admin.moves import CopyProgress, reassignment_progress
from strandline.errors import BrokerNotAvailable
from strandline.ids import TopicPartition
from strandline.vocabulary.admin import OngoingReassignment
from strandline.vocabulary.log import DescribedReplicas, ReplicaProgress

NAME = TopicPartition("orders", 0)


def move(*, reverting: bool = False) -> OngoingReassignment:
    return OngoingReassignment(NAME, (1, 2), (1, 3, 4), (1, 2), 0, reverting)


def replica(broker: int, left: int, rate: int, ms_left: int, *, in_sync: bool = False) -> ReplicaProgress:
    return ReplicaProgress(
        broker, in_sync, True, adding=True, log_end_offset=1, lag=left, lag_bytes=left, lag_ms=0,
        bytes_per_s=rate, ms_left=ms_left,
    )  # fmt: skip


def answer(*added: ReplicaProgress) -> DescribedReplicas:
    leader = ReplicaProgress(1, True, True, log_end_offset=9, lag=0, lag_bytes=0, lag_ms=0)
    return DescribedReplicas(NAME, None, 5, 9, 0, 9, 1_000, 2, (leader, *added))


def test_the_sums_are_over_the_replicas_that_are_added_and_the_last_one_decides() -> None:
    found = reassignment_progress(move(), answer(replica(3, 400, 10, 40_000), replica(4, 900, 20, 45_000)))
    assert found.copies == (
        CopyProgress(3, False, 600, 400, 10, 40_000),
        CopyProgress(4, False, 100, 900, 20, 45_000),
    )
    assert (found.adding, found.removing) == ((3, 4), (2,))
    assert (found.bytes_done, found.bytes_left, found.bytes_per_s, found.ms_left) == (700, 1_300, 30, 45_000)


def test_a_replica_that_is_in_sync_takes_no_time() -> None:
    done = replica(3, 5, -1, -1, in_sync=True)
    found = reassignment_progress(move(), answer(done, replica(4, 900, 20, 45_000)))
    assert (found.bytes_per_s, found.ms_left) == (20, 45_000)
    assert reassignment_progress(move(), answer(done)).ms_left == 0


def test_what_one_leader_or_replica_has_not_said_is_unknown() -> None:
    """No sum without a part of it: it would look better than it is."""
    silent = ReplicaProgress(4, adding=True)
    found = reassignment_progress(move(), answer(replica(3, 400, 10, 40_000), silent))
    assert (found.bytes_done, found.bytes_left, found.bytes_per_s, found.ms_left) == (None,) * 4
    for error in (None, BrokerNotAvailable("gone")):
        unknown = reassignment_progress(move(), error)
        assert (unknown.copies, unknown.bytes_left, unknown.ms_left) == (None, None, None)
        assert unknown.adding == (3, 4)


def test_a_cancelled_reassignment_adds_none_and_removes_what_it_had_added() -> None:
    found = reassignment_progress(move(reverting=True), answer())
    assert (found.adding, found.removing) == ((), (3, 4))
    assert (found.bytes_left, found.ms_left) == (0, 0)
