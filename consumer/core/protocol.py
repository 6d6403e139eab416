"""The binary format of what the members of a consumer group and their leader send each other. The
coordinator does not decode it.

Version 0 is Kafka's ConsumerProtocolSubscription and -Assignment V0, byte for byte: an eager member
has revoked all partitions before it joins, so it names topics only. Version 1 is KIP-429's first
draft, in which the assignment names what is revoked and whether to join again, with the generation
in which ownership was valid (KIP-792). All numbers are big-endian; strings, bytes and arrays begin
with their length.

Later versions must begin like these and append fields: a higher version is decoded as version 1,
and the rest is ignored. Any other deviation is an `InconsistentGroupProtocol` that names the
position: it comes from a member with another protocol of the same name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby
from typing import Final

from strandline.errors import InconsistentGroupProtocol
from strandline.ids import TopicPartition
from strandline.vocabulary.fields import INT16, INT32, FieldReader, int32s, string
from strandline.vocabulary.groups import NO_GENERATION

EAGER_VERSION: Final = 0
COOPERATIVE_VERSION: Final = 1

_STRING_BYTES_MIN: Final = INT16.size
_TOPIC_BYTES_MIN: Final = INT16.size + INT32.size
"""An empty name and no partitions."""


class AssignmentError(IntEnum):
    """What a member must do after it has carried out its assignment."""

    NONE = 0
    NEEDS_REJOIN = 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's topics and, in version 1, its owned partitions and their generation.

    Version 0 has no `owned` and `owned_generation`.
    """

    version: int
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    owned_generation: int = NO_GENERATION
    user_data: bytes = b""

    def encode(self) -> bytes:
        """The bytes; `owned` is sorted in them."""
        parts = [INT16.pack(self.version), INT32.pack(len(self.topics))]
        parts += map(string, self.topics)
        parts.append(_bytes(self.user_data))
        if self.version >= COOPERATIVE_VERSION:
            parts += [_partitions(self.owned), INT32.pack(self.owned_generation)]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Subscription:
        """Decode a subscription. Raises InconsistentGroupProtocol for invalid bytes."""
        reader = _Reader(data, "subscription")
        version = reader.version()
        topics = tuple(reader.string() for _ in range(reader.array(_STRING_BYTES_MIN)))
        user_data = reader.blob()
        if version == EAGER_VERSION:
            reader.end()
            return cls(EAGER_VERSION, topics, user_data=user_data)
        owned, generation = reader.partitions(), reader.int32()
        if version == COOPERATIVE_VERSION:
            reader.end()
        return cls(COOPERATIVE_VERSION, topics, owned, generation, user_data)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A member's partitions and, in version 1, those to revoke and whether to join again.

    Version 0 has no `revoked` and `error`.
    """

    version: int
    assigned: tuple[TopicPartition, ...]
    revoked: tuple[TopicPartition, ...] = ()
    error: AssignmentError = AssignmentError.NONE
    user_data: bytes = b""

    def encode(self) -> bytes:
        """The bytes; `assigned` and `revoked` are sorted in them."""
        parts = [INT16.pack(self.version), _partitions(self.assigned), _bytes(self.user_data)]
        if self.version >= COOPERATIVE_VERSION:
            parts += [_partitions(self.revoked), INT16.pack(self.error)]
        return b"".join(parts)

    def only(self, topics: Collection[str]) -> Assignment:
        """The same assignment without partitions of other topics."""
        return replace(self, assigned=tuple(name for name in self.assigned if name.topic in topics))

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        """Decode an assignment. Raises InconsistentGroupProtocol for invalid bytes."""
        reader = _Reader(data, "assignment")
        version = reader.version()
        assigned, user_data = reader.partitions(), reader.blob()
        if version == EAGER_VERSION:
            reader.end()
            return cls(EAGER_VERSION, assigned, user_data=user_data)
        revoked, error = reader.partitions(), reader.assignment_error()
        if version == COOPERATIVE_VERSION:
            reader.end()
        return cls(COOPERATIVE_VERSION, assigned, revoked, error, user_data)


def _bytes(data: bytes) -> bytes:
    return INT32.pack(len(data)) + data


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """An array of topics, each with an array of partitions."""
    topics = [
        (topic, [partition for _, partition in group])
        for topic, group in groupby(sorted(partitions), key=lambda name: name.topic)
    ]
    parts = [INT32.pack(len(topics))]
    for topic, numbers in topics:
        parts += [string(topic), int32s(numbers)]
    return b"".join(parts)


class _Reader(FieldReader):
    def __init__(self, data: bytes, what: str) -> None:
        super().__init__(data, what, InconsistentGroupProtocol)

    def blob(self) -> bytes:
        """Null and empty are equivalent."""
        start, length = self.at, self.int32()
        return b"" if length == -1 else self.take(self.not_negative(start, length, "length of bytes"))

    def partitions(self) -> tuple[TopicPartition, ...]:
        found: list[TopicPartition] = []
        for _ in range(self.array(_TOPIC_BYTES_MIN)):
            topic = self.string()
            count = self.array(INT32.size)
            start = self.at
            numbers = self.int32s(count)
            if count and min(numbers) < 0:
                raise self.wrong(start, f"partition {min(numbers)} of {topic}")
            found += (TopicPartition(topic, number) for number in numbers)
        return tuple(found)

    def assignment_error(self) -> AssignmentError:
        start, code = self.at, self.int16()
        try:
            return AssignmentError(code)
        except ValueError:
            raise self.wrong(start, f"error code {code}") from None
