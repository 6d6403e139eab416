"""What members of the classic protocol say, and how they are answered: Kafka's consumer protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.broker.core.consumer_groups.member import ConsumerMember
from strandline.broker.core.consumer_groups.topics import Topic
from strandline.errors import InconsistentGroupProtocol
from strandline.ids import PartitionId, PartitionKey, TopicPartition
from strandline.vocabulary.groups import GroupProtocol
from strandline.vocabulary.parsing.consumer_protocol import (
    DRAFT_VERSION,
    EAGER_VERSION,
    RELEASED_VERSION,
    Assignment,
    Subscription,
)
from strandline.vocabulary.parsing.fields import INT16, INT32

_EMPTY: Final = INT32.pack(0)
_NULL: Final = INT32.pack(-1)

Seen = Mapping[str, Topic | None]
"""Topics by name, None for each that does not exist. What is missing is not known."""


@dataclass(frozen=True, slots=True)
class Speech:
    """`owned`: what the member still has, sorted. An eager one has nothing whenever it joins."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]
    owned_generation: int
    version: int
    """Of the form of its assignment."""
    drafts: bool
    """True for a member of strandline's own draft of KIP-429: its assignment says what it is to give up."""


def speech_of(protocols: Iterable[GroupProtocol]) -> Speech:
    """What a member says: its topics are those of the first protocol, and it has what it says under any of
    them. Raises InconsistentGroupProtocol for what no consumer says."""
    said = [(protocol.metadata, Subscription.decode(protocol.metadata)) for protocol in protocols]
    if not said:
        raise InconsistentGroupProtocol("a member without a protocol")
    metadata, first = said[0]
    (version,) = INT16.unpack_from(metadata)
    owned = dict.fromkeys(name for _, each in said for name in each.owned)
    return Speech(
        tuple(sorted(dict.fromkeys(first.topics))),
        tuple(sorted(owned)),
        max(each.owned_generation for _, each in said),
        min(version, RELEASED_VERSION),
        first.version == DRAFT_VERSION,
    )


def names_said(protocols: Iterable[GroupProtocol]) -> list[str]:
    """The topics that a member subscribes to or has, by name; none if what it says cannot be read."""
    try:
        said = speech_of(protocols)
    except InconsistentGroupProtocol:
        return []
    return sorted(dict.fromkeys((*said.topics, *(name.topic for name in said.owned))))


def keys_of(names: Iterable[TopicPartition], seen: Seen) -> tuple[PartitionKey, ...] | None:
    """The partitions by their topics' ids, without those of topics that do not exist; None if a topic is not
    known."""
    found = list[PartitionKey]()
    for name in names:
        if name.topic not in seen:
            return None
        topic = seen[name.topic]
        if topic is not None and name.partition < topic.partitions:
            found.append(PartitionKey(topic.topic_id, PartitionId(name.partition)))
    return tuple(found)


def assignment_for(group: ConsumerGroup, member: ConsumerMember) -> bytes:
    """What the member may read, in the form that it expects."""
    return assignment_of(group, member, member.assigned)


def assignment_of(group: ConsumerGroup, member: ConsumerMember, keys: Iterable[PartitionKey]) -> bytes:
    """These partitions as an assignment of the member. Partitions of topics that are gone are left out."""
    assert member.classic is not None, f"{member.member} is no member of the classic protocol"
    said, names = speech_of(member.classic.protocols), group.names()
    parts = tuple(
        TopicPartition(names[key.topic_id], int(key.partition))
        for key in sorted(keys)
        if key.topic_id in names
    )
    assignment = Assignment(EAGER_VERSION, parts)
    if said.drafts:
        return assignment.to_owner_of(said.owned).encode()
    encoded = assignment.encode()
    assert encoded.endswith(_EMPTY), "an assignment without user data"
    # As from Kafka's coordinator: of the member's version, and without user data.
    return INT16.pack(said.version) + encoded[INT16.size : -len(_EMPTY)] + _NULL
