"""The binary format of what the members of a consumer group and their leader send each other.

Members write one of three forms:

    eager     version 0 of Kafka's ConsumerProtocolSubscription and -Assignment, byte for byte. An
              eager member has revoked all partitions before it joins, so it names topics only
    draft     version 1, KIP-429's first draft, which only strandline speaks: the assignment names
              what is revoked and whether to join again, and the subscription the generation in
              which ownership was valid
    released  version 3 of Kafka's subscription: KIP-429 as it was released, with the generation
              (KIP-792) and the rack (KIP-881). Its assignment is that of version 0: an owner
              finds what it is no longer assigned

The name of the assignor decides which of the last two a cooperative member speaks: the released
form under `cooperative-sticky`, the draft under every other name. Kafka's clients send versions 0
to 3 under any name, and are eager members under every name but `cooperative-sticky`. So strandline
writes no version above 1 under another name. A subscription of version 1 is the draft if it ends
with a generation, which Kafka's version 1 lacks; an assignment of version 1 is the draft if
anything follows its user data.

All numbers are big-endian; strings, bytes and arrays begin with their length. Versions after 3
begin like it, and the rest of them is ignored. Any other deviation is an
`InconsistentGroupProtocol` that names the position: it comes from a member with another protocol of
the same name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby
from typing import Final

from strandline.errors import InconsistentGroupProtocol
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import NO_GENERATION
from strandline.vocabulary.parsing.fields import INT16, INT32, FieldReader, int32s, string

EAGER_VERSION: Final = 0
DRAFT_VERSION: Final = 1
RELEASED_VERSION: Final = 3

COOPERATIVE_STICKY: Final = "cooperative-sticky"
"""The assignor of KIP-429 as it was released."""

_NO_RACK: Final = INT16.pack(-1)

_STRING_BYTES_MIN: Final = INT16.size
_TOPIC_BYTES_MIN: Final = INT16.size + INT32.size
"""An empty name and no partitions."""


class AssignmentError(IntEnum):
    """What a member must do after it has carried out its assignment."""

    NONE = 0
    NEEDS_REJOIN = 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's topics, its owned partitions and their generation.

    `version` is that of its form: EAGER_VERSION, without `owned` and `owned_generation`,
    DRAFT_VERSION or RELEASED_VERSION.
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
        if self.version >= DRAFT_VERSION:
            parts += [_partitions(self.owned), INT32.pack(self.owned_generation)]
        if self.version >= RELEASED_VERSION:
            parts.append(_NO_RACK)
        return b"".join(parts)

    def cooperative(self, protocol: str) -> bool:
        """True if its member keeps partitions while it joins a group whose assignor has this name."""
        return protocol == COOPERATIVE_STICKY or self.version == DRAFT_VERSION

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
        owned = reader.partitions()
        if version > DRAFT_VERSION:
            return cls(RELEASED_VERSION, topics, owned, reader.int32(), user_data)
        if not reader.left:
            return cls(RELEASED_VERSION, topics, owned, _generation_in(user_data), user_data)
        generation = reader.int32()
        reader.end()
        return cls(DRAFT_VERSION, topics, owned, generation, user_data)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A member's partitions and, in the draft, those to revoke and whether to join again.

    `version` is EAGER_VERSION, without `revoked` and `error`, or DRAFT_VERSION.
    """

    version: int
    assigned: tuple[TopicPartition, ...]
    revoked: tuple[TopicPartition, ...] = ()
    error: AssignmentError = AssignmentError.NONE
    user_data: bytes = b""

    def encode(self) -> bytes:
        """The bytes; `assigned` and `revoked` are sorted in them."""
        parts = [INT16.pack(self.version), _partitions(self.assigned), _bytes(self.user_data)]
        if self.version >= DRAFT_VERSION:
            parts += [_partitions(self.revoked), INT16.pack(self.error)]
        return b"".join(parts)

    def only(self, topics: Collection[str]) -> Assignment:
        """The same assignment without partitions of other topics."""
        return replace(self, assigned=tuple(name for name in self.assigned if name.topic in topics))

    def to_owner_of(self, owned: Collection[TopicPartition]) -> Assignment:
        """What an assignment of KIP-429 as released means to a member that owns these partitions: it revokes
        those that are not assigned, and joins again if there are any."""
        revoked = tuple(sorted(set(owned) - set(self.assigned)))
        error = AssignmentError.NEEDS_REJOIN if revoked else AssignmentError.NONE
        return Assignment(DRAFT_VERSION, self.assigned, revoked, error, self.user_data)

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        """Decode an assignment. Raises InconsistentGroupProtocol for invalid bytes."""
        reader = _Reader(data, "assignment")
        version = reader.version()
        assigned, user_data = reader.partitions(), reader.blob()
        if version == EAGER_VERSION:
            reader.end()
        if version != DRAFT_VERSION or not reader.left:
            return cls(EAGER_VERSION, assigned, user_data=user_data)
        revoked, error = reader.partitions(), reader.assignment_error()
        reader.end()
        return cls(DRAFT_VERSION, assigned, revoked, error, user_data)


def generation_data(generation: int) -> bytes:
    """The user data of Java's `cooperative-sticky`, from which a client that knows no version above 1 takes
    the generation of a claim."""
    return INT32.pack(generation)


def _generation_in(user_data: bytes) -> int:
    if len(user_data) != INT32.size:
        return NO_GENERATION
    generation: int = INT32.unpack(user_data)[0]
    return generation


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
