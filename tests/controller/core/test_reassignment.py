"""Legal reassignments, and the effect of a request on an active one (CORRECTNESS E16)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.config.limits import PARTITIONS_PER_REQUEST_MAX, REPLICAS_PER_BROKER_MAX
from strandline.controller.core.reassignment import (
    Asked,
    MoveContext,
    MoveFrom,
    Placed,
    TakeBackOverdue,
    TakeBackTo,
    forgotten,
    grown,
    plan_move,
)
from strandline.controller.core.topics import Brokers, check_partitions_asked
from strandline.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    NoReassignmentInProgress,
    StrandlineError,
)
from strandline.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from strandline.vocabulary.admin import PartitionReassignment
from strandline.vocabulary.metadata import (
    REPLACED_MAX,
    Deadline,
    Endpoint,
    PartitionState,
    Reassignment,
    Registration,
    Replaced,
)
from strandline.vocabulary.reassignment_events import reassignment_ended, reassignment_forgotten

NAME = TopicPartition("t", 3)
TOPIC_ID = TopicId("0" * 32)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def ground(
    *live: int,
    dead: tuple[int, ...] = (),
    replicas: Mapping[BrokerId, int] | None = None,
) -> MoveContext:
    registered = {BrokerId(b): Registration(Endpoint(b, "h", 1), BrokerEpoch(b)) for b in live}
    brokers = Brokers(registered, registered.keys() | set(ids(*dead)))
    return MoveContext(brokers, replicas or {}, TOPIC_ID)


def placed(*assigned: int, wanted: Reassignment | None = None) -> Placed:
    return Placed(3, ids(*assigned), 7, PartitionState(BrokerId(assigned[0]), LeaderEpoch(4), ()), wanted, 2)


def plan(
    now: Placed, *replicas: int, on: MoveContext | None = None, throttle: int = 0, request: str = "new"
) -> Reassignment | None:
    asked = Asked(request, 99, throttle)
    return plan_move(PartitionReassignment(NAME, replicas), now, on or ground(1, 2, 3, 4, 5), asked)


def standing(now: Placed, *replicas: int, throttle: int = 0) -> Placed:
    """The partition after this was asked for."""
    wanted = plan(now, *replicas, throttle=throttle, request="first")
    assert wanted is not None
    return replace(now, assigned=grown(now.assigned, wanted), wanted=wanted)


def refusal(now: Placed, *replicas: int, on: MoveContext | None = None) -> StrandlineError:
    with pytest.raises(StrandlineError) as caught:
        plan(now, *replicas, on=on)
    return caught.value


def test_it_begins_with_the_present_state_and_no_member_leaves() -> None:
    """CORRECTNESS E16: grow first; the original order stays, so leaders do."""
    wanted = plan(placed(1, 2), 3, 2, throttle=5)
    assert wanted == Reassignment(TOPIC_ID, ids(3, 2), ids(1, 2), 5, request_id="new", at_ms=99)
    assert grown(ids(1, 2), wanted) == (1, 2, 3)


def test_the_same_replicas_in_the_same_order_need_nothing() -> None:
    assert plan(placed(1, 2), 1, 2) is None


def test_another_order_of_the_same_replicas_is_another_preferred_leader() -> None:
    wanted = plan(placed(1, 2), 2, 1)
    assert wanted is not None
    assert grown(ids(1, 2), wanted) == (1, 2)


def test_another_target_starts_from_the_original_replicas() -> None:
    """A replica that is no longer wanted stays in AR until the end: it may be in sync, or lead."""
    now = standing(placed(1, 2), 3)
    wanted = plan(now, 4)
    replaced = (Replaced("first", ids(3), 99, 99),)
    assert wanted == Reassignment(TOPIC_ID, ids(4), ids(1, 2), request_id="new", at_ms=99, replaced=replaced)
    assert grown(now.assigned, wanted) == (1, 2, 3, 4)


def test_each_target_is_a_request_of_its_own_with_one_end() -> None:
    """The leader that completes the last one records the ends of those before (CORRECTNESS Q2)."""
    wanted = plan(standing(placed(1, 2), 3), 4)
    assert wanted is not None
    state = PartitionState(BrokerId(4), LeaderEpoch(7), ())
    key = PartitionKey(TOPIC_ID, PartitionId(0))
    ended = reassignment_ended("t", key, wanted, state, BrokerId(4), at_ms=100)
    assert [(event.id, event.state.value, event.replicas) for event in ended] == [
        ("first", "requested", (3,)),
        ("first", "superseded", (3,)),
        ("new", "requested", (4,)),
        ("new", "completed", (4,)),
    ]
    assert ended[1].reason == "replaced: to 4"


def test_a_limited_number_of_earlier_targets_is_remembered() -> None:
    """The `isr` znode takes the events of all of them in one write."""
    now = placed(1, 2)
    for target in (3, 4) * REPLACED_MAX:
        wanted = plan(now, target)
        assert wanted is not None
        now = replace(now, wanted=wanted, assigned=grown(now.assigned, wanted))
    assert now.wanted is not None
    assert len(now.wanted.replaced) == REPLACED_MAX


def test_a_target_without_room_has_its_whole_history() -> None:
    """CORRECTNESS Q5: the znode forgets it, so the leader that completes the last one does not know it."""
    now, wanted = placed(1, 2), None
    for number, target in enumerate((3, 4) * REPLACED_MAX):
        standing, wanted = now.wanted, plan(now, target)
        assert wanted is not None
        count = forgotten(standing, wanted)
        assert count == (standing is not None and len(standing.replaced) == REPLACED_MAX)
        now = replace(now, wanted=replace(wanted, request_id=f"{number}"), assigned=ids(1, 2, 3, 4))
    assert wanted is not None
    key = PartitionKey(TOPIC_ID, PartitionId(0))
    history = reassignment_forgotten("t", key, wanted, 1, BrokerId(1), LeaderEpoch(7))
    oldest = wanted.replaced[0]
    assert [(each.id, each.state.value, each.at_ms) for each in history] == [
        (oldest.request_id, "requested", oldest.at_ms),
        (oldest.request_id, "superseded", oldest.until_ms),
    ]


def test_to_ask_for_the_same_again_changes_at_most_the_throttle() -> None:
    now = standing(placed(1, 2), 3)
    assert plan(now, 3) is None
    faster = plan(now, 3, throttle=9)
    assert faster is not None
    assert now.wanted is not None
    assert faster == replace(now.wanted, throttle_bytes_per_s=9)


def test_a_throttle_is_changed_alone_whatever_the_target_has_become() -> None:
    """Another client may have changed the target, or taken it back, since the caller looked."""
    now = standing(standing(placed(1, 2), 3), 4)
    back = replace(now, wanted=plan(now))

    def throttled(now: Placed, throttle: int, *replicas: int) -> Reassignment | None:
        only = PartitionReassignment(NAME, replicas, only_throttle=True)
        return plan_move(only, now, ground(1), Asked("other", 99, throttle))

    for moving in (now, back):
        assert moving.wanted is not None
        assert throttled(moving, 9) == replace(moving.wanted, throttle_bytes_per_s=9)
        assert throttled(moving, 0) is None, "it had none before"
    with pytest.raises(NoReassignmentInProgress, match="t-3"):
        throttled(placed(1, 2), 9)
    with pytest.raises(InvalidReplicaAssignment, match="with only_throttle: give none"):
        throttled(now, 9, 4)


def test_at_a_deadline_only_the_move_that_passed_it_is_taken_back() -> None:
    """The caller may have asked for other replicas, or for more time, since the controller looked."""
    moving = standing(placed(1, 2), 3)
    assert moving.wanted is not None
    passed = Deadline(50, cancels=True, passed=True)

    def at_deadline(deadline: Deadline | None) -> Reassignment | None:
        assert moving.wanted is not None
        now = replace(moving, wanted=replace(moving.wanted, deadline=deadline))
        return plan_move(TakeBackOverdue(NAME, ()), now, ground(1), Asked("other", 99))

    assert at_deadline(passed) == replace(moving.wanted, reverting=True)
    for other in (None, Deadline(150, cancels=True), replace(passed, cancels=False)):
        assert at_deadline(other) is None
    assert plan_move(TakeBackOverdue(NAME, ()), placed(1, 3), ground(1), Asked("other", 99)) is None


def test_a_planned_move_adds_no_replica_to_a_broker_that_is_drained_meanwhile() -> None:
    where = ground(1, 2, 3)
    drained = replace(where, brokers=replace(where.brokers, emptied=frozenset(ids(3))))

    def begin(*replicas: int) -> Reassignment | None:
        move = MoveFrom(NAME, replicas, topic_id=TOPIC_ID, before=ids(1, 3))
        return plan_move(move, placed(1, 3), drained, Asked("new", 99))

    assert begin(2, 3) is not None, "it has that replica already"
    with pytest.raises(InvalidReplicaAssignment, match="t-3: the replicas of broker 3 are drained"):
        plan_move(
            MoveFrom(NAME, (1, 3), topic_id=TOPIC_ID, before=ids(1, 2)),
            placed(1, 2),
            drained,
            Asked("new", 99),
        )


def test_a_balance_takes_back_its_own_move_only() -> None:
    """Since it looked the move may have ended, and the caller may have asked for another."""
    moving = standing(placed(1, 2), 3)
    assert moving.wanted is not None
    back = TakeBackTo(NAME, (), target=ids(3), cause="balance")

    def taken_back(wanted: Reassignment | None) -> Reassignment | None:
        return plan_move(back, replace(moving, wanted=wanted), ground(1), Asked("other", 99))

    ours = replace(moving.wanted, cause="balance")
    assert taken_back(ours) == replace(ours, reverting=True)
    for other in (None, moving.wanted, replace(ours, replicas=ids(4)), replace(ours, cause="drain")):
        assert taken_back(other) is None


def test_taken_back_it_goes_back_to_what_there_was() -> None:
    now = standing(standing(placed(1, 2), 3), 4)
    back = plan(now)
    assert back is not None
    assert (back.reverting, back.target, back.request_id) == (True, (1, 2), "first")
    assert plan(replace(now, wanted=back)) is None, "twice is once"
    again = plan(replace(now, wanted=back), 4)
    assert again is not None
    assert (again.target, again.reverting, again.request_id) == ((4,), False, "new"), "a new request"
    assert again.replaced[-1].request_id == "first"


def test_nothing_is_taken_back_where_nothing_is_under_way() -> None:
    assert isinstance(refusal(placed(1, 2)), NoReassignmentInProgress)


@pytest.mark.parametrize(
    ("replicas", "on", "error", "says"),
    [
        ((3, 3), ground(1, 2, 3), InvalidReplicaAssignment, "twice"),
        ((9,), ground(1, 2, 3), InvalidReplicaAssignment, "broker 9 is not known; known are 1, 2, 3"),
        ((-1,), ground(1, 2, 3), InvalidReplicaAssignment, "broker -1 is not known"),
        ((8, 9), ground(1, dead=(8, 9)), InvalidReplicaAssignment, "none of them is alive"),
        (
            (2, 3),
            ground(1, 2, 3, replicas={BrokerId(3): REPLICAS_PER_BROKER_MAX}),
            InvalidReplicaAssignment,
            f"broker 3 would have {REPLICAS_PER_BROKER_MAX + 1} replicas",
        ),
    ],
)
def test_an_impossible_request_is_refused_with_the_value(
    replicas: tuple[int, ...], on: MoveContext, error: type[StrandlineError], says: str
) -> None:
    found = refusal(placed(1, 2), *replicas, on=on)
    assert type(found) is error
    assert says in found.message
    assert "t-3" in found.message


def test_a_request_that_keeps_the_number_of_replicas_counts_those_that_the_partition_will_have() -> None:
    """KIP-860: during a reassignment, those of its target."""
    on, moving = ground(1, 2, 3), plan(placed(1, 2), 3)
    for now, size in ((placed(1, 2), 2), (placed(1, 2, 3, wanted=moving), 1)):
        for replicas in ((1, 2, 3)[:count] for count in (1, 2, 3)):
            move, asked = PartitionReassignment(NAME, replicas, keep_size=True), Asked("new", 99)
            if len(replicas) == size:
                plan_move(move, now, on, asked)
                continue
            with pytest.raises(InvalidReplicationFactor, match=f"are not {size}"):
                plan_move(move, now, on, asked)


def test_a_full_broker_keeps_what_it_has() -> None:
    """The bound is for replicas that come."""
    full = ground(1, 2, 3, replicas={BrokerId(2): REPLICAS_PER_BROKER_MAX})
    assert plan(placed(1, 2), 3, 2, on=full) is not None


def test_one_dead_replica_among_living_ones_may_be_waited_for() -> None:
    assert plan(placed(1, 2), 3, 9, on=ground(1, 2, 3, dead=(9,))) is not None


@given(
    st.lists(
        st.permutations([1, 2, 3, 4, 5]).flatmap(lambda p: st.integers(0, 5).map(lambda n: p[:n])), max_size=8
    )
)
def test_after_any_number_of_targets_no_replica_leaves_and_the_way_back_stays(
    targets: list[list[int]],
) -> None:
    """CORRECTNESS E16: every replica that may be in sync is in AR; a cancellation restores the original
    replicas."""
    now = placed(1, 2)
    for target in targets:
        if not target and now.wanted is None:
            continue
        wanted = plan(now, *target)
        if wanted is None:
            continue
        assigned = grown(now.assigned, wanted)
        assert assigned[: len(now.assigned)] == now.assigned
        assert set(wanted.target) <= set(assigned)
        assert wanted.original == (1, 2)
        assert wanted.target == (tuple(target) or (1, 2))
        now = replace(now, assigned=assigned, wanted=wanted)


def test_too_many_partitions_at_once_are_refused_with_the_bound() -> None:
    names = [TopicPartition("t", number) for number in range(PARTITIONS_PER_REQUEST_MAX + 1)]
    with pytest.raises(InvalidRequest) as caught:
        check_partitions_asked(names)
    assert caught.value.limit == PARTITIONS_PER_REQUEST_MAX
    assert check_partitions_asked([NAME, NAME, TopicPartition("u", 3)]) == {NAME}
