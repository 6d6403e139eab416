"""Decides a join of a member of the classic protocol, and when it is to join again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.classic.speech import Seen, Speech, keys_of, speech_of
from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.broker.core.consumer_groups.member import ClassicWords, ConsumerMember, MemberState
from strandline.broker.core.consumer_groups.presence import check_instance, check_room
from strandline.errors import InconsistentGroupProtocol, UnknownMemberId
from strandline.vocabulary.groups import JOINS, NO_MEMBER


@dataclass(frozen=True, slots=True)
class ClassicJoin:
    """`member`: its id, or a new one for a static member that names none (`names_id`). `topics`: those that
    it subscribes to or has, as they are now."""

    member: str
    names_id: bool
    instance: str | None
    client_id: str
    host: str
    rebalance_timeout_ms: int
    words: ClassicWords
    topics: Seen
    members_max: int


def check(group: ConsumerGroup, joins: ClassicJoin) -> ConsumerMember | None:
    """The member as it is, or the one whose place it takes; None for a new one. A dynamic member may come
    with any id, as in Kafka: ids that were given are not kept here.

    Raises GroupMaxSizeReached, UnknownMemberId, FencedInstanceId, and InconsistentGroupProtocol for a member
    that supports nothing that all members of the classic protocol do.
    """
    old = _present(group, joins)
    _check_agrees(group, joins, old)
    if old is None:
        check_room(group, joins.members_max)
    return old


def join(change: Change, joins: ClassicJoin, old: ConsumerMember | None) -> ConsumerMember:
    """The member after its step; `old` is the answer of `check`. Raises InconsistentGroupProtocol, before any
    change, for a member whose subscription cannot be read."""
    group, said = change.group, speech_of(joins.words.protocols)
    before = old or ConsumerMember(joins.member)
    if old is not None and old.member != joins.member:
        before = replace(old, member=joins.member, epoch=JOINS, previous_epoch=JOINS)
        change.replace(old, before)
    member = _updated(before, joins, said)
    if member != old:
        change.put(member)
    change.see(joins.topics, member.member)
    changed = (member.topics, member.pattern) != (before.topics, before.pattern)
    name = member.instance or member.member
    if old is None:
        change.bump(f"member {name} joined", member.member)
    elif changed:
        change.bump(f"member {name} subscribes to other topics", member.member)
    change.settle()
    owned = keys_of(said.owned, {**group.topics, **joins.topics})
    change.reconcile(member.member, owned, changed=changed)
    return group.members[member.member]


def step(change: Change, member_id: str) -> ConsumerMember:
    """A join that waited while its group became one of this kind."""
    group = change.group
    words = group.members[member_id].classic
    assert words is not None, f"{member_id} is no member of the classic protocol"
    owned = keys_of(speech_of(words.protocols).owned, group.topics)
    change.reconcile(member_id, owned, changed=False)
    return group.members[member_id]


def must_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True once the member has to join again: there is an epoch that it has not reached, it has to give
    partitions up, or all that it waits for is free."""
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is MemberState.STABLE:
        return False
    subscribed = group.subscribed_ids(member)
    missing = (
        key
        for key in group.target_of(member.member)
        if key.topic_id in subscribed and key not in member.assigned
    )
    return all(map(group.is_free, missing))


def _present(group: ConsumerGroup, joins: ClassicJoin) -> ConsumerMember | None:
    """The member as it is, or the one whose place it takes; None for a new one."""
    if joins.instance is None:
        member = group.members.get(joins.member)
        if member is not None and member.classic is None:
            raise UnknownMemberId(f"member {joins.member!r} is of the consumer protocol")
        return member
    if not joins.names_id:
        return group.members.get(group.statics.get(joins.instance, NO_MEMBER))
    check_instance(group, joins.instance, joins.member)
    return group.members[joins.member]


def _check_agrees(group: ConsumerGroup, joins: ClassicJoin, old: ConsumerMember | None) -> None:
    others = [member.classic for member in group.members.values() if member is not old and member.classic]
    supported = Counter(protocol.name for words in others for protocol in words.protocols)
    wanted = [protocol.name for protocol in joins.words.protocols]
    if not any(supported[name] == len(others) for name in wanted):
        raise InconsistentGroupProtocol(
            f"member {joins.member!r} supports {', '.join(wanted)}, and the group's {len(others)} members of "
            f"the classic protocol {', '.join(sorted(supported))}"
        )


def _updated(member: ConsumerMember, joins: ClassicJoin, said: Speech) -> ConsumerMember:
    return replace(
        member,
        instance=joins.instance or member.instance,
        client_id=joins.client_id,
        host=joins.host,
        topics=said.topics,
        pattern="",
        rebalance_timeout_ms=joins.rebalance_timeout_ms,
        assignor=None,
        classic=joins.words,
    )
