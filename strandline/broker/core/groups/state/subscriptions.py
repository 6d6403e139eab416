"""Which topics the members of a group read.

A coordinator passes on what members say, and does not decode it, with this one exception: the offsets of a
topic that no member reads may be deleted while the group is at work, and what appears in a topic that members
read begins at its first record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.member import Member
from strandline.errors import InconsistentGroupProtocol
from strandline.vocabulary.parsing.fields import INT16, FieldReader

CONSUMERS: Final = "consumer"
"""The protocol type of consumers, strandline's and Kafka's. Members of other types say something else."""
NAMES_MAX: Final = 20_000
"""Names of topics, and subscriptions, to decode in one turn."""


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics that a member of the group asks for under any of its protocols. None if that is not known:
    its members are no consumers, or one of them says what no consumer says, or they name too many."""
    found = topics_by_pattern(group)
    return None if found is None else frozenset().union(*found.values())


def topics_by_pattern(group: Group) -> dict[str, set[str]] | None:
    """As `subscribed_topics`, by the patterns that chose them; an empty one for those that are named."""
    if group.protocol_type != CONSUMERS:
        return None
    said = {(member.pattern, metadata) for member in group.members.values() for metadata in _said(member)}
    found, left = dict[str, set[str]](), NAMES_MAX
    try:
        for pattern, metadata in said:
            topics = _topics(metadata, left)
            found.setdefault(pattern, set()).update(topics)
            left -= len(topics) + 1
    except InconsistentGroupProtocol:
        return None
    return found


def _said(member: Member) -> Iterator[bytes]:
    for protocol in member.protocols:
        yield protocol.metadata
    if member.assigned_for is not None:
        yield member.assigned_for


def _topics(metadata: bytes, count_max: int) -> list[str]:
    """The topics of a ConsumerProtocolSubscription: in each of its versions they come first."""
    reader = FieldReader(metadata, "subscription", InconsistentGroupProtocol)
    reader.version()
    start, count = reader.at, reader.array(INT16.size)
    if count > count_max:
        raise reader.wrong(start, f"{count} topics, more than {count_max}")
    return [reader.string() for _ in range(count)]
