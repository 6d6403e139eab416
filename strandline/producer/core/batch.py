"""One batch from its first record to its end, and the queue of its partition."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import InvalidRecord, InvalidRequest, StrandlineError
from strandline.ids import NO_BROKER, NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.records import HEADER_BYTES, Codec, PackedRecords, RecordFields, pack, validate
from strandline.records.encode import NO_SEQUENCE
from strandline.vocabulary.log import ProducerIdentity

Ticket = TypeVar("Ticket")

SEQUENCES: Final = 1 << 31
"""Sequence numbers count modulo this (KIP-98)."""

NO_CONNECTION: Final = -1

Place = tuple[int, int]
"""Where a batch stands in its partition's order: the number of the batch that was begun, and the index of its
first record in that one, which may have been divided since."""

VARINT_MAX: Final = 3
"""Bytes of a varint for any length or count in a batch; none of them exceeds RECORDS_BYTES_MAX."""

RECORD_OVERHEAD_MAX: Final = 1 + 10 + 5 * VARINT_MAX
"""Bytes of a record besides key, value and headers: attributes, timestamp delta, the lengths of the
record, its key and its value, its offset delta, and its number of headers."""

VALUE_OVERHEAD_MAX: Final = 4 + 3 * VARINT_MAX
"""The same for a record with only a value, where timestamp delta, key and headers take a byte each."""

HEADER_OVERHEAD_MAX: Final = 2 * VARINT_MAX
"""Bytes of a record's header besides its key and value."""


@dataclass(slots=True, eq=False)
class Batch(Generic[Ticket]):
    """Records of one partition that are sent, succeed and fail together.

    It is open while `records` may be added, then packed once and never changed. It gets its
    sequence when it is first sent, and another one only under another producer id.
    """

    queue: PartitionQueue[Ticket]
    number: Place
    deadline: float
    ticket: Ticket
    """Identifies the caller to notify; owned by the driver."""
    size: int = HEADER_BYTES
    """An upper bound of the batch's size in bytes."""
    records: list[RecordFields] = field(default_factory=list)
    packed: PackedRecords | None = None
    due: bool = False
    """Ready to be sent without further lingering."""
    sequence: int = NO_SEQUENCE
    connection: int = NO_CONNECTION
    """The connection on which it is in flight."""
    broker: int = NO_BROKER
    """The broker that it was last sent to."""
    topic_id: TopicId = NO_TOPIC_ID
    """The incarnation of the topic that it was last sent to."""
    unknown: bool = False
    """An attempt ended without an answer: the batch may be in the log."""
    settled: bool = False
    """Its end was reported. If it is still in flight, its answer only shows when the queue is no
    longer in flight."""
    last_error: StrandlineError | None = None
    expected_offset: int | None = None
    """It is appended at this offset or not at all."""

    @property
    def record_count(self) -> int:
        return len(self.records) if self.packed is None else self.packed.record_count

    def pack(self, codec: Codec) -> PackedRecords:
        """Encode the records; uncompressed if compression would make them too large to send."""
        if self.packed is None:
            self.packed = pack(self.records, codec=codec)
            if self.packed.size > RECORDS_BYTES_MAX:
                self.packed = pack(self.records)
            self.records = []
        return self.packed

    def seal(self, *, transactional: bool = False) -> bytes:
        """The bytes to send, with the current identity and sequence."""
        assert self.packed is not None, f"batch {self.number} of {self.queue.name} is not packed"
        identity = self.queue.identity
        if identity is None:
            return self.packed.seal()
        return self.packed.seal(
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=self.sequence,
            transactional=transactional,
        )


class Gap(NamedTuple):
    """The end of what is sent to a partition, and its error: a gapless producer sends nothing behind the
    first batch that failed, and no producer sends anything to a partition that is gone."""

    number: Place
    error: StrandlineError


BEGINNING: Final[Place] = (0, 0)
"""No batch stands before this."""


class PartitionQueue(Generic[Ticket]):
    """All unsettled batches of one partition.

    In order, `in_flight`, `waiting` and `open` together are the partition's batches; failed ones
    return to `waiting`, in their old order.
    """

    __slots__ = (
        "acknowledged_to", "attempts", "backing_off", "begun", "broker", "epoch", "gap", "identity",
        "in_flight", "name", "next_sequence", "open", "pause", "recovering", "renewing", "resetting",
        "size_max", "topic_id", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        name: TopicPartition,
        identity: ProducerIdentity | None,
        size_max: int,
        topic_id: TopicId = NO_TOPIC_ID,
    ) -> None:
        self.name = name
        self.identity = identity
        """None if the producer is not idempotent."""
        self.size_max = size_max
        """Largest size of a batch of this partition in bytes."""
        self.topic_id = topic_id
        """What is sent is for this incarnation of the topic, and no other."""
        self.broker: int = NO_BROKER
        self.epoch: int = NO_EPOCH
        self.next_sequence = 0
        self.begun = 0
        self.acknowledged_to = BEGINNING
        """The number of the last batch that was acknowledged under this producer id: it is replicated, and so
        is each earlier one that is in the log."""
        self.open: Batch[Ticket] | None = None
        self.waiting: deque[Batch[Ticket]] = deque()
        self.in_flight: deque[Batch[Ticket]] = deque()
        self.recovering = False
        """A batch failed: nothing is sent until the batches in flight behind it have been answered."""
        self.backing_off = False
        """Nothing is sent until pause number `pause` is over, or another leader is known."""
        self.pause = 0
        self.attempts = 0
        """Consecutive failures."""
        self.resetting = False
        """A sequence was used that is not in the log, or may not be: nothing is sent until nothing
        is in flight and the partition has another producer id."""
        self.renewing = False
        """Another producer id was requested."""
        self.gap: Gap | None = None
        """Nothing behind it is sent."""

    def __repr__(self) -> str:
        return f"PartitionQueue({self.name})"

    @property
    def gone(self) -> bool:
        """True while the topic does not have this partition any longer."""
        return self.gap is not None and self.gap.number == BEGINNING

    @property
    def empty(self) -> bool:
        return not (self.in_flight or self.waiting or self.open)

    def requeue(self, batch: Batch[Ticket]) -> None:
        """Return a batch to `waiting`, at its place in the order."""
        batch.connection = NO_CONNECTION
        if batch.topic_id != self.topic_id:
            self.begin_anew(batch)
        at = 0
        for waiting in self.waiting:
            if waiting.number > batch.number:
                break
            at += 1
        self.waiting.insert(at, batch)

    def begin_anew(self, batch: Batch[Ticket]) -> None:
        """The batch was sent to an earlier incarnation of the topic, if at all: this one cannot have it."""
        batch.sequence, batch.unknown, batch.last_error = NO_SEQUENCE, False, None

    def withdraw(self, batch: Batch[Ticket]) -> None:
        """Take out a batch that has ended. One that is in flight stays there until it is answered."""
        if batch is self.open:
            self.open = None
        elif batch.connection == NO_CONNECTION:
            self.waiting.remove(batch)

    def abandon(self) -> list[Batch[Ticket]]:
        """Take out all batches, which have ended now; returns them."""
        batches = self.unsettled()
        for batch in batches:
            batch.settled = True
            self.withdraw(batch)
        return batches

    def go_on_as(self, identity: ProducerIdentity) -> None:
        """The next transaction has this identity, and its sequences begin at 0."""
        self.identity = identity
        self.next_sequence, self.acknowledged_to = 0, BEGINNING
        if not self.gone:
            self.gap = None

    def has_earlier(self, batch: Batch[Ticket]) -> bool:
        """True if an earlier batch is unsettled."""
        return any(
            other.number < batch.number and not other.settled
            for batches in (self.in_flight, self.waiting)
            for other in batches
        )

    def unsettled(self) -> list[Batch[Ticket]]:
        """The unsettled batches, in order."""
        batches = [batch for batch in self.in_flight if not batch.settled]
        batches += self.waiting
        batches.sort(key=lambda batch: batch.number)
        if self.open is not None:
            batches.append(self.open)
        return batches

    def number_sequence(self, batch: Batch[Ticket]) -> None:
        """Give a batch its sequence, if it has none."""
        if self.identity is not None and batch.sequence == NO_SEQUENCE:
            batch.sequence = self.next_sequence
            self.next_sequence = (self.next_sequence + batch.record_count) % SEQUENCES


def unseal(batch: bytes) -> PackedRecords:
    """The records of a batch that another encoder made, to be sealed under another identity.

    Raises CorruptMessage, MessageTooLarge, InvalidRecord (several batches, or one of another
    producer), InvalidRequest unless it is bytes.
    """
    if not isinstance(batch, bytes | bytearray | memoryview):
        raise InvalidRequest(f"batch = {batch!r:.100}: give the bytes of a batch")
    headers = validate(batch, bytes_max=RECORDS_BYTES_MAX)
    if len(headers) != 1:
        raise InvalidRecord(f"{len(headers)} batches were given where one is sent at a time")
    header = headers[0]
    if header.producer_id >= 0:
        raise InvalidRecord(
            f"the batch carries producer id {header.producer_id}; a producer numbers what it sends by itself"
        )
    return PackedRecords(
        batch[header.position + HEADER_BYTES : header.end],
        header.attributes,
        header.record_count,
        header.base_timestamp,
        header.max_timestamp,
    )
