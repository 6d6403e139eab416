"""A member whose coordinator assigns: what it takes, releases, says and loses (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from strandline.consumer.core.assigned.membership import AssignedMembership
from strandline.consumer.core.assigned.settings import AssignedSettings
from strandline.consumer.core.member_effects import (
    Assign,
    Effect,
    Fatal,
    FindCoordinator,
    LogLine,
    Lose,
    Revoke,
    Say,
    SendFarewell,
    StopHeartbeat,
)
from strandline.consumer.core.member_states import State
from strandline.errors import (
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    GroupIdNotFound,
    InvalidRequest,
    NotCoordinator,
    StaleMemberEpoch,
    StrandlineError,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from strandline.ids import PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.vocabulary.groups import ConsumerBeat, ConsumerHeartbeat

T, NEW_T = TopicId("a" * 32), TopicId("b" * 32)


class One:
    """A member that has found its coordinator, and the effects of the last event, without its log lines."""

    def __init__(self, instance: str | None = None) -> None:
        self.core = AssignedMembership(AssignedSettings("g", 60_000, instance, "uniform", "c"))
        assert self.did(self.core.subscribed(["t"], "m")) == [FindCoordinator("subscribed to t")]
        assert self.did(self.core.coordinator_found()) == [self.says(0)]

    def did(self, effects: Sequence[Effect]) -> list[Effect]:
        """Without what only the schedule of heartbeats counts."""
        return [
            replace(effect, heard=0) if isinstance(effect, Say) else effect
            for effect in effects
            if not isinstance(effect, LogLine)
        ]

    def says(self, epoch: int, *owned: int, topics: tuple[str, ...] = ("t",), member: str = "m") -> Say:
        instance = self.core._settings.instance
        keys = tuple(PartitionKey(T, PartitionId(number)) for number in owned)
        return Say(
            ConsumerHeartbeat("g", member, epoch, instance, None, 60_000, topics, None, "uniform", keys, "c")
        )

    def gets(self, epoch: int, *numbers: int, topic_id: TopicId = T, member: str = "m") -> list[Effect]:
        keys = tuple(PartitionKey(topic_id, PartitionId(number)) for number in numbers)
        answer = ConsumerBeat(member, epoch, 5_000, keys, {topic_id: "t"})
        return self.did(self.core.answered(self.core.generation, answer))

    def fails(self, error: StrandlineError) -> list[Effect]:
        return self.did(self.core.heartbeat_failed("m", self.core.generation, error))


def parts(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("t", number) for number in numbers)


def revoke(effects: Sequence[Effect]) -> Revoke:
    (found,) = (effect for effect in effects if isinstance(effect, Revoke))
    return found


def test_a_join_is_said_once_however_often_the_coordinator_is_looked_for() -> None:
    """The schedule repeats it, after pauses: a coordinator that cannot serve yet is asked rarely."""
    one = One()
    for _ in range(2):
        assert one.did(one.core.coordinator_lost()) == [FindCoordinator("the coordinator was lost")]
        assert one.did(one.core.coordinator_found()) == []
    one.gets(1, 0)
    (_, *_, search) = one.did([*one.core.coordinator_lost(), *one.fails(UnknownMemberId("gone"))])
    assert isinstance(search, StopHeartbeat), "the join waits for the coordinator"
    assert one.did(one.core.coordinator_found()) == [one.says(0)]


def test_the_first_answer_assigns_even_nothing() -> None:
    one = One()
    assert one.gets(1) == [Assign((), (), 1)]
    assert one.core.state is State.STABLE
    assert one.gets(2) == []
    assert one.core.generation == 2


def test_what_is_new_is_taken_while_the_rest_stays() -> None:
    one = One()
    assert one.gets(1, 0, 1) == [Assign(parts(0, 1), parts(0, 1), 1)]
    assert one.gets(2, 0, 1, 2) == [Assign(parts(2), parts(0, 1, 2), 2)]


def test_what_is_missing_is_released_and_then_what_is_owned_is_said() -> None:
    one = One()
    one.gets(1, 0, 1)
    released = revoke(one.gets(1, 0))
    assert released.partitions == parts(1)
    assert one.core.owned == {*parts(0, 1)}, "it is owned until its release has ended"
    assert one.did(one.core.released(released.number)) == [one.says(1, 0)]
    assert one.core.owned == {*parts(0)} and one.core.state is State.STABLE


def test_an_answer_during_a_release_counts_after_it() -> None:
    one = One()
    one.gets(1, 0, 1)
    released = revoke(one.gets(1, 0))
    assert one.gets(2, 2) == []
    effects = one.did(one.core.released(released.number))
    assert effects[:2] == [one.says(2, 0, 2), Assign(parts(2), parts(0, 2), 2)]
    assert revoke(effects).partitions == parts(0)


def test_a_topic_that_was_made_anew_is_released_before_it_is_taken() -> None:
    one = One()
    one.gets(1, 0)
    released = revoke(one.gets(2, 0, topic_id=NEW_T))
    says = one.says(2, 0)
    says = replace(says, request=replace(says.request, owned=(PartitionKey(NEW_T, PartitionId(0)),)))
    assert one.did(one.core.released(released.number)) == [says, Assign(parts(0), parts(0), 2)]


def test_an_answer_from_before_the_member_joined_again_counts_for_nothing() -> None:
    """G4: it was on its way from the thread of the heartbeats when a commit was refused."""
    one = One()
    one.gets(1, 0)
    one.did(one.core.commit_failed("m", 1, UnknownMemberId("gone")))
    late = ConsumerBeat("m", 2, 5_000, (PartitionKey(T, PartitionId(0)),), {T: "t"})
    assert one.did(one.core.answered(1, late)) == []
    assert not one.core.owned and one.core.generation == 0


def test_a_refusal_from_before_the_member_joined_again_does_not_end_it() -> None:
    """G4: it keeps its id when it joins again, and a commit and a heartbeat may be refused for one reason."""
    one = One()
    one.gets(4, 0)
    one.fails(UnknownMemberId("gone"))
    for epoch in (0, 6):
        assert one.core.commit_failed("m", 4, UnknownMemberId("gone")) == [], f"after the answer {epoch}"
        assert one.core.heartbeat_failed("m", 4, UnknownMemberId("gone")) == []
        one.gets(6, 0)
    assert one.core.owned == {*parts(0)}
    assert one.did(one.core.commit_failed("m", 6, UnknownMemberId("gone"))) != []


def test_a_topic_without_a_name_is_not_taken() -> None:
    one = One()
    unnamed = ConsumerBeat("m", 1, 5_000, (PartitionKey(T, PartitionId(0)),))
    assert one.did(one.core.answered(0, unnamed)) == [Assign((), (), 1)]


def test_a_new_subscription_is_said_and_nothing_stops() -> None:
    one = One()
    one.gets(1, 0)
    assert one.did(one.core.subscribed(["t", "u"], "unused")) == [one.says(1, 0, topics=("t", "u"))]
    assert one.core.owned == {*parts(0)}


@pytest.mark.parametrize("error", [FencedMemberEpoch("old"), UnknownMemberId("gone")])
def test_a_member_that_was_given_up_loses_everything_and_joins_again(error: StrandlineError) -> None:
    one = One()
    one.gets(3, 0, 1)
    lost, stopped, said = one.fails(error)
    assert isinstance(lost, Lose) and lost.partitions == parts(0, 1)
    assert (stopped, said) == (StopHeartbeat(), one.says(0))
    assert one.core.state is State.JOINING
    assert one.gets(5, 1) == [Assign(parts(1), parts(1), 5)]


def test_a_refused_commit_of_a_member_that_was_given_up_counts_like_a_heartbeat() -> None:
    one = One()
    one.gets(3, 0)
    assert one.core.commit_failed("m", 3, StaleMemberEpoch("newer")) == []
    assert one.did(one.core.commit_failed("m", 3, UnknownMemberId("gone")))[-1] == one.says(0)
    assert one.core.commit_failed("another", 3, UnknownMemberId("gone")) == []


@pytest.mark.parametrize("error", [NotCoordinator("moved"), CoordinatorNotAvailable("gone")])
def test_a_lost_coordinator_is_looked_for_and_the_membership_stays(error: StrandlineError) -> None:
    one = One()
    one.gets(1, 0)
    assert [type(effect) for effect in one.fails(error)] == [FindCoordinator]
    assert one.fails(error) == [], "it is looked for already"
    assert one.core.coordinator_found() == []
    assert one.core.owned == {*parts(0)}


def test_an_instance_waits_for_its_process_of_before_and_says_so_once() -> None:
    """That one may have been killed: it is out after its session timeout."""
    one = One("i")
    error = UnreleasedInstanceId("it has not left")
    (line,) = one.core.heartbeat_failed("m", 0, error)
    assert isinstance(line, LogLine) and "waits: it has not left" in line.text
    assert one.core.heartbeat_failed("m", 0, error) == []
    assert one.core.state is State.JOINING
    assert one.gets(1, 0) == [Assign(parts(0), parts(0), 1)]


def test_a_group_that_does_not_take_the_member_ends_it() -> None:
    """Its members may have a leader that assigns: to ask again would not change that."""
    one, error = One(), GroupIdNotFound("it is not of the consumer protocol")
    assert one.fails(error)[-1] == Fatal(error)


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_leaves_after_its_release(instance: str | None, epoch: int) -> None:
    one = One(instance)
    one.gets(1, 0)
    released = revoke(one.core.leave("closing"))
    farewell = SendFarewell(ConsumerHeartbeat("g", "m", epoch, instance))
    assert one.did(one.core.released(released.number)) == [StopHeartbeat(), farewell]
    assert one.core.state is State.LEFT
    assert one.gets(2, 0) == [], "an answer that was on its way"


def test_a_release_in_progress_ends_before_all_of_it_is_released() -> None:
    one = One()
    one.gets(1, 0, 1)
    first = revoke(one.gets(1, 0))
    assert one.core.leave("closing") == []
    second = revoke(one.core.released(first.number))
    assert second.partitions == parts(0)
    assert isinstance(one.core.released(second.number)[-1], SendFarewell)


def test_an_overdue_member_leaves_and_joins_with_the_next_get_call_under_another_id() -> None:
    one = One()
    one.gets(1, 0)
    lost, *left = one.did(one.core.poll_overdue())
    assert isinstance(lost, Lose)
    assert left == [StopHeartbeat(), SendFarewell(ConsumerHeartbeat("g", "m", -1))]
    assert one.did(one.core.polled("n")) == [one.says(0, member="n")]
    assert one.gets(1, 0) == [], "an answer to the one before"
    assert one.gets(2, 0, member="n") == [Assign(parts(0), parts(0), 2)]


def test_a_member_that_is_given_up_while_it_leaves_does_not_join_again() -> None:
    one = One()
    one.gets(1, 0)
    one.core.leave("closing")
    assert [type(effect) for effect in one.fails(UnknownMemberId("gone"))] == [Lose, StopHeartbeat]
    assert one.core.state is State.LEFT


def test_a_rebalance_cannot_be_asked_for() -> None:
    with pytest.raises(InvalidRequest, match="group_protocol"):
        One().core.enforced()
