"""The rules for every assignor, with any members and any claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.consumer.core.assignors.assignor import Assignor, MemberSubscription, in_order, user_data_of
from strandline.consumer.core.assignors.registry import BUILT_IN, named
from strandline.errors import SettingsError
from strandline.ids import TopicPartition
from tests.consumer.core.assignors.groups import Group, groups, owners

EACH = pytest.mark.parametrize("assignor", BUILT_IN.values(), ids=list(BUILT_IN))


@EACH
@settings(deadline=None)  # a machine under load is no failure
@given(group=groups())
def test_each_partition_goes_to_exactly_one_of_its_subscribers(assignor: Assignor, group: Group) -> None:
    """Claims of others, of topics that are gone or of partitions that never were change nothing about it."""
    answer = assignor.assign(group.members, group.partitions)
    assert answer.keys() == group.members.keys()
    found = owners(answer)
    assert found.keys() == group.wanted.keys()
    for name, member in found.items():
        assert member in group.wanted[name]
    assert all(names == sorted(names) for names in answer.values())


@EACH
@settings(deadline=None)
@given(group=groups(), data=st.data())
def test_another_leader_would_decide_the_same(assignor: Assignor, group: Group, data: st.DataObject) -> None:
    """The order of members, topics and claims does not matter."""
    members = {
        member: replace(
            group.members[member],
            topics=tuple(data.draw(st.permutations(group.members[member].topics))),
            owned=tuple(data.draw(st.permutations(group.members[member].owned))),
        )
        for member in data.draw(st.permutations(list(group.members)))
    }
    partitions = {
        topic: group.partitions[topic] for topic in data.draw(st.permutations(list(group.partitions)))
    }
    assert assignor.assign(members, partitions) == assignor.assign(group.members, group.partitions)


@EACH
def test_a_static_member_that_comes_back_under_another_id_gets_what_it_had(assignor: Assignor) -> None:
    """KIP-345: its instance identifies it, wherever its new id would sort."""
    members = {
        f"id-{number}": MemberSubscription(("t",), instance=f"instance-{number}") for number in range(4)
    }
    before = assignor.assign(members, {"t": 10})
    renamed = {"id-1": "zzz"}
    after = assignor.assign({renamed.get(name, name): said for name, said in members.items()}, {"t": 10})
    assert after == {renamed.get(name, name): names for name, names in before.items()}


def test_static_members_stand_before_those_that_come_and_go() -> None:
    """KIP-345: an id that is drawn anew must not push them from their place."""
    members = {
        "a": MemberSubscription(()),
        "b": MemberSubscription((), instance="z"),
        "c": MemberSubscription((), instance="y"),
    }
    assert in_order(members) == ["c", "b", "a"]


@EACH
@pytest.mark.parametrize("partitions", [{}, {"t": 0}, {"other": 3}])
def test_members_without_anything_to_read_get_nothing(assignor: Assignor, partitions: dict[str, int]) -> None:
    """Unknown topics are left out, and so are topics without subscribers."""
    assert assignor.assign({"m": MemberSubscription(("t",))}, partitions) == {"m": []}
    assert assignor.assign({}, partitions) == {}


def test_assignors_are_found_under_kafkas_names() -> None:
    """A group whose members come from elsewhere agrees on one of these."""
    assert {name: named(name).name for name in ("range", "roundrobin", "sticky")} == {
        "range": "range",
        "roundrobin": "roundrobin",
        "sticky": "sticky",
    }


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="'sticki'; there are range, roundrobin, sticky"):
        named("sticki")


class Weighted:
    """A user's own assignor: every partition goes to the member with the most room, which each member
    reports."""

    def __init__(self, room: int) -> None:
        self.name = "weighted"
        self.room = room

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        roomy = max(members, key=lambda member: int.from_bytes(members[member].user_data))
        everything = [TopicPartition(topic, n) for topic, count in partitions.items() for n in range(count)]
        return {member: everything if member == roomy else [] for member in members}

    def subscription_user_data(self) -> bytes:
        return self.room.to_bytes(2)


def test_a_users_own_assignor_is_used_unchanged_and_may_send_data_to_the_leader() -> None:
    """It needs a name and `assign`; with `subscription_user_data` each member is asked for more."""
    own: Assignor = Weighted(room=7)
    assert named(own) is own
    members = {
        f"m{room}": MemberSubscription(("t",), user_data=user_data_of(Weighted(room))) for room in (3, 9)
    }
    assert own.assign(members, {"t": 1}) == {"m3": [], "m9": [TopicPartition("t", 0)]}
    assert user_data_of(named("sticky")) == b""
