"""The records of groups as values: written by one coordinator, and read and checked by the next.

A record that is read is checked like the request for which it was written: any client that may write to the
log can write anything. Checks against settings are left out, because a setting may have been another then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from strandline.broker.core.consumer_groups.records import (
    PATTERN,
    ConsumerKey,
    ConsumerRecord,
    check_consumer_value,
    decode_consumer_value,
)
from strandline.broker.core.coordinators.names import check_name
from strandline.broker.core.groups.limits import (
    GROUP_BYTES_MAX,
    GroupLimits,
    check_group,
    check_id,
    check_position,
)
from strandline.broker.core.groups.records import (
    GroupKey,
    GroupValue,
    OffsetKey,
    ReadTopics,
    StoredMember,
    UnreadableGroupRecord,
    decode_group_value,
    decode_key,
    decode_offset_value,
    decode_read_topics,
    decode_topic_id,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
    encode_read_topics,
    encode_topic_id,
)
from strandline.config.limits import KIB
from strandline.ids import TopicPartition
from strandline.records import Headers
from strandline.vocabulary.groups import CommittedOffset

HEAD_BYTES_MAX: Final = 8 * KIB
"""An upper bound of a group record's bytes besides its members: type, protocol, leader and numbers."""


NO_TOPICS: Final = ReadTopics()

Encoded = tuple[bytes, bytes | None, Headers]
"""Key, value and headers."""


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """A committed offset; None: its removal."""

    group: str
    name: TopicPartition
    committed: CommittedOffset | None

    def encoded(self) -> Encoded:
        key = encode_offset_key(self.group, self.name)
        if self.committed is None:
            return key, None, ()
        return key, encode_offset_value(self.committed), encode_topic_id(self.committed.topic_id)


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A generation; None: the group is gone."""

    group: str
    value: GroupValue | None
    read_topics: ReadTopics = NO_TOPICS
    assigns: bool = False
    """True if it has the leader's assignment. One that gives no member anything reads as none: a coordinator
    that loads it waits for one again."""

    def encoded(self) -> Encoded:
        key = encode_group_key(self.group)
        if self.value is None:
            return key, None, ()
        return key, encode_group_value(self.value), encode_read_topics(self.read_topics)


StoredRecord = OffsetRecord | GroupRecord | ConsumerRecord


Key = OffsetKey | GroupKey | ConsumerKey
KindKey = GroupKey | ConsumerKey
"""Of a record that only one kind of group has."""


def kind_key(record: StoredRecord) -> KindKey | None:
    """None for an offset, which groups of all kinds have."""
    match record:
        case OffsetRecord():
            return None
        case GroupRecord():
            return GroupKey(record.group)
        case ConsumerRecord():
            return record.key


def tombstone(key: KindKey) -> StoredRecord:
    """Ends the subject of this key."""
    return GroupRecord(key.group, None) if isinstance(key, GroupKey) else ConsumerRecord(key, None)


def read_key(key: bytes) -> Key:
    """Raises UnreadableGroupRecord, InvalidGroupId, InvalidTopic, InvalidRequest."""
    read = decode_key(key)
    check_stored_key(read)
    return read


def read_record(key: Key, value: bytes | None, headers: Headers) -> StoredRecord:
    """Raises UnreadableGroupRecord, InvalidRequest for a record that no coordinator writes."""
    if isinstance(key, OffsetKey):
        committed = None
        if value is not None:
            committed = replace(decode_offset_value(value), topic_id=decode_topic_id(headers))
            check_stored_offset(key, committed)
        return OffsetRecord(key.group, key.name, committed)
    if isinstance(key, ConsumerKey):
        found = None if value is None else decode_consumer_value(key, value)
        if found is not None:
            check_consumer_value(key, found)
        return ConsumerRecord(key, found)
    if value is None:
        return GroupRecord(key.group, None)
    generation, read_topics = decode_group_value(value), decode_read_topics(headers)
    check_stored_group(key.group, generation, len(value))
    assigns = any(member.assignment for member in generation.members)
    return GroupRecord(key.group, generation, read_topics, assigns)


# --- checks -------------------------------------------------------------------------------------


def check_stored_key(key: Key) -> None:
    """Raises InvalidGroupId, InvalidTopic, InvalidRequest."""
    check_group(key.group)
    if isinstance(key, ConsumerKey):
        if key.type != PATTERN:
            check_id("member id", key.subject)
        return
    if isinstance(key, OffsetKey) and (wrong := check_name(key.name)) is not None:
        raise wrong


def check_stored_offset(key: OffsetKey, committed: CommittedOffset) -> None:
    """Raises InvalidRequest."""
    if (wrong := check_position(key.name, committed, any_offset=True)) is not None:
        raise wrong


def check_stored_group(name: str, value: GroupValue, size: int) -> None:
    """`size`: of the record's value in bytes. Raises UnreadableGroupRecord, InvalidRequest."""
    if size > GROUP_BYTES_MAX + HEAD_BYTES_MAX:
        raise UnreadableGroupRecord(f"group {name}: {size} bytes, more than a group may have")
    if value.generation < 0:
        raise UnreadableGroupRecord(f"group {name}: generation {value.generation} is negative")
    check_id("protocol type", value.protocol_type)
    check_id("protocol", value.protocol or "")
    check_id("leader", value.leader or "")
    if not value.members:
        return
    if not value.generation or not value.protocol or not value.protocol_type:
        raise UnreadableGroupRecord(
            f"group {name}: {len(value.members)} members in generation {value.generation} under protocol "
            f"{value.protocol!r} of type {value.protocol_type!r}; members have all of these"
        )
    instances: set[str] = set()
    for member in value.members:
        _check_member(name, member)
        if member.instance is not None:
            if member.instance in instances:
                raise UnreadableGroupRecord(
                    f"group {name}: instance {member.instance!r} is more than one member"
                )
            instances.add(member.instance)


def _check_member(name: str, member: StoredMember) -> None:
    if not member.member or member.instance == "":
        raise UnreadableGroupRecord(
            f"group {name}: member {member.member!r} of instance {member.instance!r}; neither may be empty"
        )
    for what, value in (
        ("member id", member.member), ("instance id", member.instance or ""),
        ("client id", member.client_id), ("host", member.host),
    ):  # fmt: skip
        check_id(what, value)
    if member.session_timeout_ms < 1 or member.rebalance_timeout_ms < 1:
        raise UnreadableGroupRecord(
            f"group {name}: member {member.member!r} has a session timeout of {member.session_timeout_ms} ms "
            f"and a rebalance timeout of {member.rebalance_timeout_ms} ms; neither may be below 1"
        )


def within_limits(member: StoredMember, limits: GroupLimits) -> tuple[int, int]:
    """The member's session and rebalance timeouts, brought within the settings of this broker."""
    session_ms = min(
        max(member.session_timeout_ms, limits.group_session_timeout_ms_min),
        limits.group_session_timeout_ms_max,
    )
    return session_ms, min(member.rebalance_timeout_ms, limits.group_rebalance_timeout_ms_max)
