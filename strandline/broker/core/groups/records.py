"""The records of `__consumer_offsets`, in the layouts of Kafka's own topic, so that its tools read ours.

Keys: an offset (version 1) or a group (version 2); others are of groups whose coordinator assigns
(`core/consumer_groups/records`). Values: version 3 of both. A version comes first;
integers are big-endian; a string's length takes two bytes, that of bytes and arrays four; a length of -1 is
null.

The id of an offset's topic is in a header of its record, and since when a group reads its topics in one of
the group's record: brokers of earlier versions, and tools, read the value as before. Kafka's own version 4 of
an offset's value has the id too, and these would skip it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from strandline.broker.core.consumer_groups.records import TYPES as CONSUMER_KEYS
from strandline.broker.core.consumer_groups.records import ConsumerKey, decode_consumer_key
from strandline.broker.core.coordinators.record_reader import INT16, INT32, INT64, RecordReader
from strandline.errors import InvalidRecord
from strandline.ids import NO_TOPIC_ID, TopicId, TopicPartition
from strandline.records import Headers
from strandline.vocabulary.groups import CommittedOffset, ReadSince

OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2
VALUE_VERSION: Final = 3

STRING_BYTES_MAX: Final = 2**15 - 1
LEADER_EPOCH_MAX: Final = 2**31 - 1
GENERATION_MAX: Final = 2**31 - 1
"""A generation has four bytes, here as on the wire."""

TOPIC_ID_HEADER: Final = "topic.id"
"""The record header with the id of an offset's topic, as 16 bytes. None: the id is not known."""

TOPIC_ID_BYTES: Final = 16

READ_TOPICS_HEADER: Final = "read.topics"
READ_TOPICS_VERSION: Final = 0

_OFFSET_HEAD: Final = struct.Struct(">hqi")


class UnreadableGroupRecord(InvalidRecord):
    """The bytes are not a record of this topic, or have a version that is unknown here."""


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group: str
    name: TopicPartition


@dataclass(frozen=True, slots=True)
class GroupKey:
    group: str


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member as the log holds it: with its metadata under the chosen protocol only."""

    member: str
    instance: str | None
    client_id: str
    host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupValue:
    """A generation. Its members have no assignment until the leader's is written."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    at_ms: int
    members: tuple[StoredMember, ...]


class ReadTopics(NamedTuple):
    """Since when a group reads its topics (`state/read_topics`)."""

    topics: Mapping[str, ReadSince] = {}
    patterns: Mapping[str, int] = {}
    """The latest leader epoch that there was when a member first came with the pattern."""


# --- encode -------------------------------------------------------------------------------------


def encode_offset_key(group: str, name: TopicPartition) -> bytes:
    return INT16.pack(OFFSET_KEY_VERSION) + _string(group) + _string(name.topic) + INT32.pack(name.partition)


def encode_offset_value(committed: CommittedOffset) -> bytes:
    head = _OFFSET_HEAD.pack(VALUE_VERSION, committed.offset, committed.leader_epoch)
    return head + _string(committed.metadata) + INT64.pack(committed.committed_at_ms)


def encode_topic_id(topic_id: TopicId) -> Headers:
    """The headers of an offset's record."""
    return ((TOPIC_ID_HEADER, bytes.fromhex(topic_id)),) if topic_id else ()


def encode_group_key(group: str) -> bytes:
    return INT16.pack(GROUP_KEY_VERSION) + _string(group)


def encode_group_value(value: GroupValue) -> bytes:
    parts = [
        INT16.pack(VALUE_VERSION),
        _string(value.protocol_type),
        INT32.pack(value.generation),
        _string(value.protocol),
        _string(value.leader),
        INT64.pack(value.at_ms),
        INT32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            _string(member.member),
            _string(member.instance),
            _string(member.client_id),
            _string(member.host),
            INT32.pack(member.rebalance_timeout_ms),
            INT32.pack(member.session_timeout_ms),
            _bytes(member.metadata),
            _bytes(member.assignment),
        )
    return b"".join(parts)


def encode_read_topics(read: ReadTopics) -> Headers:
    """The headers of a group's record."""
    if not read.topics and not read.patterns:
        return ()
    parts = [INT16.pack(READ_TOPICS_VERSION), INT32.pack(len(read.topics))]
    for topic, (topic_id, partitions) in read.topics.items():
        parts += (_string(topic), _bytes(bytes.fromhex(topic_id)), INT32.pack(partitions))
    parts.append(INT32.pack(len(read.patterns)))
    for pattern, epoch in read.patterns.items():
        parts += (_string(pattern), INT64.pack(epoch))
    return ((READ_TOPICS_HEADER, b"".join(parts)),)


def _string(text: str | None) -> bytes:
    if text is None:
        return INT16.pack(-1)
    data = text.encode()
    return INT16.pack(len(data)) + data


def _bytes(data: bytes) -> bytes:
    return INT32.pack(len(data)) + data


# --- decode -------------------------------------------------------------------------------------


def decode_key(data: bytes) -> OffsetKey | GroupKey | ConsumerKey:
    """Parses the key of a record. Raises UnreadableGroupRecord."""
    reader = RecordReader(data, "key", UnreadableGroupRecord)
    version = reader.int16()
    key: OffsetKey | GroupKey | ConsumerKey
    match version:
        case 1:  # OFFSET_KEY_VERSION
            key = OffsetKey(reader.string(), TopicPartition(reader.string(), reader.int32()))
        case 2:  # GROUP_KEY_VERSION
            key = GroupKey(reader.string())
        case _ if version in CONSUMER_KEYS:
            return decode_consumer_key(version, reader)
        case _:
            known = sorted((OFFSET_KEY_VERSION, GROUP_KEY_VERSION, *CONSUMER_KEYS))
            raise UnreadableGroupRecord(f"key of version {version}; known are {', '.join(map(str, known))}")
    reader.end()
    return key


def decode_offset_value(data: bytes) -> CommittedOffset:
    """Parses a committed offset. Raises UnreadableGroupRecord."""
    reader = _value(data, "offset")
    offset, epoch = reader.int64(), reader.int32()
    metadata, at_ms = reader.string(), reader.int64()
    reader.end()
    return CommittedOffset(offset, epoch, metadata, at_ms)


def decode_topic_id(headers: Headers) -> TopicId:
    """The id of an offset's topic; NO_TOPIC_ID for a record of an earlier version. Raises
    UnreadableGroupRecord."""
    for name, content in headers:
        if name == TOPIC_ID_HEADER:
            if content is None or len(content) != TOPIC_ID_BYTES:
                raise UnreadableGroupRecord(f"header {name} = {content!r:.100}, not {TOPIC_ID_BYTES} bytes")
            return TopicId(content.hex())
    return NO_TOPIC_ID


def decode_read_topics(headers: Headers) -> ReadTopics:
    """Nothing for a record of an earlier version, or of a later one. Raises UnreadableGroupRecord."""
    for name, content in headers:
        if name == READ_TOPICS_HEADER:
            reader = RecordReader(content or b"", f"header {name}", UnreadableGroupRecord)
            if reader.int16() == READ_TOPICS_VERSION:
                topics = {
                    reader.string(): ReadSince(TopicId(reader.blob().hex()), reader.int32())
                    for _ in range(reader.int32())
                }
                patterns = {reader.string(): reader.int64() for _ in range(reader.int32())}
                reader.end()
                return ReadTopics(topics, patterns)
    return ReadTopics()


def decode_group_value(data: bytes) -> GroupValue:
    """Parses a generation. Raises UnreadableGroupRecord."""
    reader = _value(data, "group")
    protocol_type, generation = reader.string(), reader.int32()
    protocol, leader = reader.nullable_string(), reader.nullable_string()
    at_ms, count = reader.int64(), reader.int32()
    if count < 0:
        raise UnreadableGroupRecord(f"group of {count} members")
    members = tuple(_member(reader) for _ in range(count))
    reader.end()
    if len({member.member for member in members}) < count:
        raise UnreadableGroupRecord(f"group of {count} members, one of which stands there twice")
    return GroupValue(protocol_type, generation, protocol, leader, at_ms, members)


def _value(data: bytes, what: str) -> RecordReader:
    """A reader behind the version of a value."""
    reader = RecordReader(data, what, UnreadableGroupRecord)
    version = reader.int16()
    if version != VALUE_VERSION:
        raise UnreadableGroupRecord(f"{what} of version {version}; known is {VALUE_VERSION}")
    return reader


def _member(reader: RecordReader) -> StoredMember:
    return StoredMember(
        member=reader.string(),
        instance=reader.nullable_string(),
        client_id=reader.string(),
        host=reader.string(),
        rebalance_timeout_ms=reader.int32(),
        session_timeout_ms=reader.int32(),
        metadata=reader.blob(),
        assignment=reader.blob(),
    )
