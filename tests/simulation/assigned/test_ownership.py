"""The judge of groups whose coordinator assigns: two owners, and epochs that fall."""

from __future__ import annotations

import pytest

from strandline.ids import PartitionId, PartitionKey, TopicId
from strandline.vocabulary.groups import ConsumerBeat
from strandline_lab.simulation.member_records import LOST, REVOKED, MemberRecord
from strandline_lab.simulation.workloads.assigned import ownership

TOPIC = TopicId("a" * 32)
KEY = PartitionKey(TOPIC, PartitionId(0))


class At:
    """The time of a test."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


class Members:
    def __init__(self) -> None:
        self.at = At()
        self.all = [MemberRecord(name, self.at) for name in ("one", "two")]
        self.one, self.two = self.all

    def beats(
        self,
        member: MemberRecord,
        at_s: float,
        epoch: int,
        *given: PartitionKey,
        owned: tuple[PartitionKey, ...] | None = None,
    ) -> None:
        """A heartbeat that is answered at once, with an assignment if there is one."""
        self.at.s = at_s
        beat = member.asks(member.name, epoch, owned)
        member.is_answered(beat, ConsumerBeat(member.name, max(epoch, 1), 0, given or None))

    def has(self, member: MemberRecord, from_s: float, to_s: float, how: str = REVOKED) -> None:
        self.at.s = from_s
        member.begins("t", KEY, member.name)
        self.at.s = to_s
        member.held[-1].to_s, member.held[-1].ended = to_s, how

    def two_owners(self) -> list[str]:
        return list(ownership.two_owners(self.all))


def test_a_partition_that_is_given_once_it_was_given_up_has_one_owner() -> None:
    """G24"""
    members = Members()
    members.beats(members.one, 0, 0, KEY)
    members.has(members.one, 0, 3)
    members.has(members.two, 3, 9)
    assert members.two_owners() == []


def test_a_partition_that_is_given_before_it_was_given_up_has_two() -> None:
    """G24"""
    members = Members()
    members.beats(members.one, 0, 0, KEY)
    members.has(members.one, 0, 3)
    members.has(members.two, 2, 9)
    (said,) = members.two_owners()
    assert said == "one has t-0 from 0.000 s to 3.000 s, and two from 2.000 s on"


@pytest.mark.parametrize(("heard_s", "may"), [(1.0, True), (3.5, False)])
def test_a_member_that_was_silent_for_its_session_may_be_out(heard_s: float, may: bool) -> None:
    """G24"""
    members = Members()
    members.beats(members.one, 0, 0, KEY)
    members.beats(members.one, heard_s, 1)
    members.at.s = 3.6
    members.one.asks("one", 1, None)  # no answer: it may not have arrived
    members.has(members.one, 0, 9, LOST)
    members.beats(members.two, 5.4, 0, KEY)
    members.has(members.two, 5.5, 9)
    assert (members.two_owners() == []) is may


@pytest.mark.parametrize(("asked_s", "may"), [(1.0, True), (3.0, False)])
def test_a_member_may_be_out_that_did_not_give_up_in_time(asked_s: float, may: bool) -> None:
    """G24"""
    members = Members()
    members.beats(members.one, 0, 0, KEY)
    members.beats(members.one, asked_s, 1, PartitionKey(TOPIC, PartitionId(1)))
    for at_s in range(4, 8):
        members.beats(members.one, at_s, 1)
    members.has(members.one, 0, 9)
    members.beats(members.two, 6.9, 0, KEY)
    members.has(members.two, 7, 9)
    assert (members.two_owners() == []) is may


def test_a_member_that_said_that_it_leaves_is_out() -> None:
    """G24"""
    members = Members()
    members.beats(members.one, 0, 0, KEY)
    members.beats(members.one, 2, -1)
    members.has(members.one, 0, 3, LOST)
    members.has(members.two, 2.5, 9)
    assert members.two_owners() == []


@pytest.mark.parametrize(("how", "wrong"), [(REVOKED, 1), (LOST, 0)])
def test_a_heartbeat_that_leaves_out_what_the_application_has_is_found(how: str, wrong: int) -> None:
    """G24"""
    members = Members()
    members.has(members.one, 1, 3, how)
    members.beats(members.one, 0.5, 1, owned=())
    members.beats(members.one, 1.5, 1, owned=(KEY,))
    members.beats(members.one, 2.0, 1, owned=())
    members.beats(members.one, 3.0, 1, owned=())
    assert len(list(ownership.unsaid(members.all))) == wrong


def test_epochs_that_fall_are_found() -> None:
    """G25"""
    members = Members()
    members.beats(members.one, 0, 0, KEY)
    members.beats(members.one, 1, 4)
    assert list(ownership.fallen_epochs(members.all)) == []
    members.beats(members.two, 2, 0)
    (said,) = ownership.fallen_epochs(members.all)
    assert said == "two joined after 2.000 s in epoch 1, and a member had epoch 4 before"
    beat = members.one.asks("one", 5, None)
    members.one.is_answered(beat, ConsumerBeat("one", 4))
    assert len(list(ownership.fallen_epochs(members.all))) == 2
