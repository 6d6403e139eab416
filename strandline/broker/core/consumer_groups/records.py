"""The records of these groups in `__consumer_offsets`, in the layouts of Kafka's own topic.

Keys begin with their type, and have strings with lengths of two bytes. Values are of version 0, in flexible
encoding (KIP-482): a length is an unsigned varint and one more than it is, and a structure ends with tagged
fields.

    type   key             value
    3      group           its epoch; tag 0: a hash of its topics, which is this project's own
    5      group, member   what the member says; tag 0, of a member of the classic protocol: its session
                           timeout and its protocols
    6      group           the epoch of the target; tag 0: when it was computed
    7      group, member   the member's target
    8      group, member   the member's epochs, state, partitions, and those that it has to give up; tag 0 of
                           a topic: the epochs in which its partitions were assigned
    16     group, pattern  the topics that a regular expression chose when it was last evaluated

Each record says all of its subject, so it replaces the one before, and a tombstone ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from strandline.broker.core.consumer_groups.member import ClassicWords, ConsumerMember, MemberState
from strandline.broker.core.coordinators.record_reader import INT16, INT32, INT64, RecordReader
from strandline.broker.core.coordinators.record_writer import (
    compact_array,
    compact_bytes,
    compact_string,
    string,
    tags,
)
from strandline.errors import InvalidRecord
from strandline.ids import PartitionId, PartitionKey, TopicId
from strandline.vocabulary.groups import LEAVES_FOR_A_WHILE, GroupProtocol

EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT, PATTERN = 3, 5, 6, 7, 8, 16
"""Types of keys."""
TYPES: Final = (EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT, PATTERN)
OF_SUBJECTS: Final = (MEMBER, TARGET, CURRENT, PATTERN)

VALUE_VERSION: Final = 0
UUID_BYTES: Final = 16
ONLY_TAG: Final = 0
"""The number of the one tagged field that a structure here may have."""
PRESENT: Final = 1
"""Begins a structure in a tagged field that may be null."""


class UnreadableConsumerRecord(InvalidRecord):
    """The bytes are not a record of these groups, or have a version that is unknown here."""


@dataclass(frozen=True, slots=True)
class ConsumerKey:
    """`subject`: a member or a pattern; empty in the types that are of the group as a whole."""

    type: int
    group: str
    subject: str = ""

    def encoded(self) -> bytes:
        head = INT16.pack(self.type) + string(self.group)
        return head + string(self.subject) if self.type in OF_SUBJECTS else head


@dataclass(frozen=True, slots=True)
class EpochValue:
    epoch: int
    topics_hash: int

    def encoded(self) -> bytes:
        hashed = {ONLY_TAG: INT64.pack(self.topics_hash)} if self.topics_hash else {}
        return INT16.pack(VALUE_VERSION) + INT32.pack(self.epoch) + tags(hashed)


@dataclass(frozen=True, slots=True)
class TargetEpochValue:
    epoch: int
    at_ms: int

    def encoded(self) -> bytes:
        return INT16.pack(VALUE_VERSION) + INT32.pack(self.epoch) + tags({ONLY_TAG: INT64.pack(self.at_ms)})


@dataclass(frozen=True, slots=True)
class MemberValue:
    """What a member says."""

    instance: str | None
    rack: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    pattern: str
    rebalance_timeout_ms: int
    assignor: str | None
    classic: ClassicWords | None = None

    @classmethod
    def of(cls, member: ConsumerMember) -> MemberValue:
        return cls(
            member.instance,
            member.rack,
            member.client_id,
            member.host,
            member.topics,
            member.pattern,
            member.rebalance_timeout_ms,
            member.assignor,
            member.classic,
        )

    def encoded(self) -> bytes:
        return b"".join(
            (
                INT16.pack(VALUE_VERSION),
                compact_string(self.instance),
                compact_string(self.rack),
                compact_string(self.client_id),
                compact_string(self.host),
                compact_array(map(compact_string, self.topics)),
                compact_string(self.pattern),
                INT32.pack(self.rebalance_timeout_ms),
                compact_string(self.assignor),
                tags({} if self.classic is None else {ONLY_TAG: _classic_words(self.classic)}),
            )
        )


@dataclass(frozen=True, slots=True)
class TargetValue:
    partitions: Set[PartitionKey]

    def encoded(self) -> bytes:
        return INT16.pack(VALUE_VERSION) + _partitions(self.partitions) + tags({})


@dataclass(frozen=True, slots=True)
class CurrentValue:
    """Where a member is on its way to its target."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Mapping[PartitionKey, int]
    revoking: Mapping[PartitionKey, int]

    @classmethod
    def of(cls, member: ConsumerMember) -> CurrentValue:
        return cls(member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking)

    def encoded(self) -> bytes:
        return b"".join(
            (
                INT16.pack(VALUE_VERSION),
                INT32.pack(self.epoch),
                INT32.pack(self.previous_epoch),
                bytes((self.state.value,)),
                _partitions(self.assigned, self.assigned),
                _partitions(self.revoking, self.revoking),
                tags({}),
            )
        )


@dataclass(frozen=True, slots=True)
class PatternValue:
    """`version`: 0, since topics have none here."""

    topics: tuple[str, ...]
    at_ms: int
    version: int = 0

    def encoded(self) -> bytes:
        topics = compact_array(map(compact_string, self.topics))
        numbers = INT64.pack(self.version) + INT64.pack(self.at_ms)
        return INT16.pack(VALUE_VERSION) + topics + numbers + tags({})


ConsumerValue = EpochValue | MemberValue | TargetEpochValue | TargetValue | CurrentValue | PatternValue


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """None: its subject is gone."""

    key: ConsumerKey
    value: ConsumerValue | None

    @property
    def group(self) -> str:
        return self.key.group

    def encoded(self) -> tuple[bytes, bytes | None, tuple[()]]:
        return self.key.encoded(), None if self.value is None else self.value.encoded(), ()


def _classic_words(words: ClassicWords) -> bytes:
    protocols = (
        compact_string(each.name) + compact_bytes(each.metadata) + tags({}) for each in words.protocols
    )
    return bytes((PRESENT,)) + INT32.pack(words.session_timeout_ms) + compact_array(protocols) + tags({})


def _partitions(keys: Iterable[PartitionKey], epochs: Mapping[PartitionKey, int] | None = None) -> bytes:
    """Partitions by topic, in order; with the epochs in which they were assigned, if these are known."""
    topics = []
    for topic_id, found in groupby(sorted(keys), key=lambda key: key.topic_id):
        of_topic = list(found)
        numbers = compact_array(INT32.pack(key.partition) for key in of_topic)
        more = {}
        if epochs is not None:
            more[ONLY_TAG] = compact_array(INT32.pack(epochs[key]) for key in of_topic)
        topics.append(bytes.fromhex(topic_id) + numbers + tags(more))
    return compact_array(topics)


# --- decode -------------------------------------------------------------------------------------


def decode_consumer_key(type_: int, reader: RecordReader) -> ConsumerKey:
    """The rest of a key whose type was read. Raises UnreadableConsumerRecord."""
    group = reader.string()
    subject = reader.string() if type_ in OF_SUBJECTS else ""
    reader.end()
    return ConsumerKey(type_, group, subject)


def decode_consumer_value(key: ConsumerKey, data: bytes) -> ConsumerValue:
    """Raises UnreadableConsumerRecord."""
    reader = RecordReader(data, f"value of type {key.type}", UnreadableConsumerRecord)
    version = reader.int16()
    if version != VALUE_VERSION:
        raise reader.refuse(f"version {version}; known is {VALUE_VERSION}")
    value = _VALUES[key.type](reader)
    reader.end()
    return value


def check_consumer_value(key: ConsumerKey, value: ConsumerValue) -> None:
    """Refuses what no coordinator writes. Raises UnreadableConsumerRecord."""
    match value:
        case EpochValue(epoch, _) | TargetEpochValue(epoch, _) if epoch < 0:
            raise UnreadableConsumerRecord(f"group {key.group}: epoch {epoch} is negative")
        case CurrentValue(epoch=epoch) if epoch < LEAVES_FOR_A_WHILE:
            raise UnreadableConsumerRecord(f"group {key.group}: epoch {epoch} of member {key.subject!r}")
        case MemberValue(instance="") | MemberValue(rebalance_timeout_ms=-1):
            raise UnreadableConsumerRecord(
                f"group {key.group}: member {key.subject!r} of instance {value.instance!r} "
                f"with a rebalance timeout of {value.rebalance_timeout_ms} ms"
            )
        case MemberValue(classic=ClassicWords(session_timeout_ms=timeout_ms, protocols=protocols)) if (
            timeout_ms < 1 or not protocols
        ):
            raise UnreadableConsumerRecord(
                f"group {key.group}: member {key.subject!r} with {len(protocols)} classic protocols and a "
                f"session timeout of {timeout_ms} ms"
            )


def _epoch(reader: RecordReader) -> EpochValue:
    epoch = reader.int32()
    return EpochValue(epoch, _int64(reader, reader.tags().get(ONLY_TAG)))


def _target_epoch(reader: RecordReader) -> TargetEpochValue:
    epoch = reader.int32()
    return TargetEpochValue(epoch, _int64(reader, reader.tags().get(ONLY_TAG)))


def _int64(reader: RecordReader, data: bytes | None) -> int:
    if data is None:
        return 0
    if len(data) != INT64.size:
        raise reader.refuse(f"a number of {len(data)} bytes")
    (number,) = INT64.unpack(data)
    assert isinstance(number, int)
    return number


def _member(reader: RecordReader) -> MemberValue:
    instance, rack = reader.compact_nullable_string(), reader.compact_nullable_string()
    client_id, host = reader.compact_string(), reader.compact_string()
    topics = tuple(reader.compact_string() for _ in range(reader.compact_length()))
    pattern, timeout_ms = reader.compact_nullable_string() or "", reader.int32()
    assignor = reader.compact_nullable_string()
    words = reader.tags().get(ONLY_TAG)
    classic = None if words is None else _read_classic_words(reader.what, words)
    return MemberValue(instance, rack, client_id, host, topics, pattern, timeout_ms, assignor, classic)


def _read_classic_words(what: str, data: bytes) -> ClassicWords | None:
    reader = RecordReader(data, what, UnreadableConsumerRecord)
    if reader.int8() != PRESENT:
        return None
    timeout_ms, protocols = reader.int32(), list[GroupProtocol]()
    for _ in range(reader.compact_length()):
        protocols.append(GroupProtocol(reader.compact_string(), reader.compact_bytes()))
        reader.tags()
    reader.tags()
    reader.end()
    return ClassicWords(timeout_ms, tuple(protocols))


def _target(reader: RecordReader) -> TargetValue:
    partitions = frozenset(_read_partitions(reader))
    reader.tags()
    return TargetValue(partitions)


def _current(reader: RecordReader) -> CurrentValue:
    epoch, previous, state = reader.int32(), reader.int32(), reader.int8()
    if state not in (known.value for known in MemberState):
        raise reader.refuse(f"state {state} of a member")
    assigned, revoking = _read_partitions(reader), _read_partitions(reader)
    reader.tags()
    return CurrentValue(epoch, previous, MemberState(state), assigned, revoking)


def _pattern(reader: RecordReader) -> PatternValue:
    topics = tuple(reader.compact_string() for _ in range(reader.compact_length()))
    version, at_ms = reader.int64(), reader.int64()
    reader.tags()
    return PatternValue(topics, at_ms, version)


def _read_partitions(reader: RecordReader) -> dict[PartitionKey, int]:
    """With the epochs in which they were assigned; 0 where none is known."""
    found: dict[PartitionKey, int] = {}
    for _ in range(reader.compact_length()):
        topic_id = TopicId(reader.take(UUID_BYTES).hex())
        numbers = [PartitionId(reader.int32()) for _ in range(reader.compact_length())]
        more, epochs = reader.tags().get(ONLY_TAG), [0] * len(numbers)
        if more is not None:
            inner = RecordReader(more, reader.what, UnreadableConsumerRecord)
            epochs = [inner.int32() for _ in range(inner.compact_length())]
            inner.end()
        if len(epochs) != len(numbers):
            raise reader.refuse(f"{len(numbers)} partitions with {len(epochs)} epochs")
        found.update((PartitionKey(topic_id, n), epoch) for n, epoch in zip(numbers, epochs, strict=True))
    return found


_VALUES: Final[Mapping[int, Callable[[RecordReader], ConsumerValue]]] = {
    EPOCH: _epoch,
    MEMBER: _member,
    TARGET_EPOCH: _target_epoch,
    TARGET: _target,
    CURRENT: _current,
    PATTERN: _pattern,
}
