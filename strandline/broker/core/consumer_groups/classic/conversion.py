"""Makes a group whose coordinator assigns from a classic one: its members keep what they have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.classic.speech import Seen, Speech, keys_of, speech_of
from strandline.broker.core.consumer_groups.member import ClassicWords, ConsumerMember, MemberState
from strandline.errors import CoordinatorNotAvailable
from strandline.ids import PartitionKey, TopicPartition
from strandline.vocabulary.parsing.consumer_protocol import Assignment


class Converted(NamedTuple):
    """A member of a classic group. `assignment`: the last one that it may have got; empty bytes: none."""

    member: str
    instance: str | None
    client_id: str
    host: str
    rebalance_timeout_ms: int
    words: ClassicWords
    assignment: bytes
    joining: bool
    """Whether its next join waits: an eager member has given all up then."""
    epoch: int
    """The generation that it knows."""


def names_in(members: Iterable[Converted]) -> list[str]:
    """The topics that these members subscribe to or have, by name. Raises InconsistentGroupProtocol."""
    found = dict[str, None]()
    for member in members:
        said = speech_of(member.words.protocols)
        found |= dict.fromkeys((*said.topics, *(name.topic for name in _assigned(member))))
        found |= dict.fromkeys(name.topic for name in said.owned)
    return sorted(found)


def convert(change: Change, members: Sequence[Converted], epoch: int, topics: Seen) -> None:
    """Fills the group of the change, which is empty and begins in this epoch. Each member has its assignment
    as its target.

    A cooperative member may still have what an assignment took from it, and says so when it joins again: it
    has yet to give that up, or another member could read it too early. Raises InconsistentGroupProtocol for
    what no consumer says, CoordinatorNotAvailable if a topic is not in `topics`.
    """
    said = {member.member: speech_of(member.words.protocols) for member in members}
    assigned = {member.member: _keys(_assigned(member), topics) for member in members}
    owners = {key: member_id for member_id, keys in assigned.items() for key in keys}
    revoking: dict[str, dict[PartitionKey, int]] = {member.member: {} for member in members}
    for member in sorted(members, key=lambda each: -said[each.member].owned_generation):
        for key in _keys(said[member.member].owned, topics):
            if owners.setdefault(key, member.member) == member.member and key not in assigned[member.member]:
                revoking[member.member][key] = epoch
    change.begin(epoch)
    for member in members:
        has = {key: epoch for key in assigned[member.member] if owners[key] == member.member}
        change.put(_member(member, said[member.member], has, revoking[member.member]))
        change.set_target(member.member, frozenset(has))
    change.see(topics)
    change.write_epoch()


def _member(
    member: Converted,
    said: Speech,
    assigned: dict[PartitionKey, int],
    revoking: dict[PartitionKey, int],
) -> ConsumerMember:
    return ConsumerMember(
        member.member,
        member.instance,
        None,
        member.client_id,
        member.host,
        said.topics,
        "",
        member.rebalance_timeout_ms,
        None,
        member.epoch,
        member.epoch,
        MemberState.UNREVOKED_PARTITIONS if revoking else MemberState.STABLE,
        assigned,
        revoking,
        member.words,
    )


def _assigned(member: Converted) -> tuple[TopicPartition, ...]:
    if member.joining or not member.assignment:
        return ()
    return Assignment.decode(member.assignment).assigned


def _keys(names: Iterable[TopicPartition], topics: Seen) -> tuple[PartitionKey, ...]:
    found = keys_of(names, topics)
    if found is None:
        raise CoordinatorNotAvailable("topics of the group's members are not known yet: ask again soon")
    return found
