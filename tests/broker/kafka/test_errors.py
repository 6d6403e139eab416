"""The numbers of errors that Kafka clients of each version get."""

from __future__ import annotations

from strandline.broker.kafka.errors import (
    code_of,
    fetch_code,
    find_coordinator_code,
    heartbeat_code,
    list_offsets_code,
    produce_code,
)
from strandline.errors import (
    CoordinatorLoading,
    InvalidRequest,
    NotCoordinator,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OutcomeUnknown,
    RequestTimedOut,
    StorageFailed,
    UnexpectedOffset,
    UnknownLeaderEpoch,
)


def test_numbers_are_those_of_kafka() -> None:
    assert code_of(None) == 0
    assert code_of(NotLeaderOrFollower("")) == 6


def test_numbers_of_strandline_alone_are_not_sent() -> None:
    assert code_of(UnexpectedOffset("")) == -1


def test_a_producer_looks_for_the_new_leader_when_a_leadership_ended() -> None:
    assert produce_code(OutcomeUnknown(""), 9) == 6
    assert produce_code(RequestTimedOut(""), 9) == 7


def test_old_clients_get_the_nearest_number_that_they_know() -> None:
    assert [produce_code(StorageFailed(""), version) for version in (3, 4)] == [6, 56]
    assert [fetch_code(StorageFailed(""), version) for version in (5, 6)] == [6, 56]
    assert [fetch_code(UnknownLeaderEpoch(""), version) for version in (8, 9)] == [5, 75]
    assert [list_offsets_code(OffsetNotAvailable(""), version) for version in (4, 5)] == [5, 78]
    assert [list_offsets_code(UnknownLeaderEpoch(""), version) for version in (3, 4)] == [5, 75]


def test_a_producer_ends_at_a_transactional_id_that_cannot_be_one() -> None:
    """librdkafka 2.15 asked again after INVALID_REQUEST, and init_transactions timed out without a reason."""
    assert find_coordinator_code(InvalidRequest("")) == 53
    assert find_coordinator_code(NotCoordinator("")) == 16


def test_a_member_does_not_learn_that_its_coordinator_still_reads_its_groups() -> None:
    """CORRECTNESS G3: aiokafka's consumer ended for good in a round of chaos, for one such answer to a
    heartbeat."""
    assert heartbeat_code(CoordinatorLoading("")) == 0
    assert heartbeat_code(NotCoordinator("")) == 16
