"""The records of `__transaction_state`, in the layout of Kafka's own topic, so that its tools read ours.

The key (version 0) is the transactional id. The value is of version 1, which has tagged fields (KIP-915,
KIP-890); version 0 is read too. Kafka does not keep the epoch before the present one, so that a repeated
InitProducerId after a change of the coordinator fences its own producer there: here it is in a header.

A record that is read is checked like the requests for which it was written. Checks against settings are left
out, because a setting may have been another then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from strandline.broker.core.coordinators.names import check_name
from strandline.broker.core.coordinators.record_reader import INT8, INT16, INT32, INT64, RecordReader
from strandline.broker.core.transactions.limits import check_transactional_id
from strandline.broker.core.transactions.transaction import RAISING_VERSION, Transaction
from strandline.errors import InvalidRecord
from strandline.ids import NO_PRODUCER as NO_ID
from strandline.ids import TopicPartition
from strandline.records import Headers
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import EPOCH_MAX, NO_PRODUCER, TransactionState

KEY_VERSION: Final = 0
PLAIN_VERSION: Final = 0
VALUE_VERSION: Final = 1
"""The first flexible version, with tagged fields."""

STATES: Final = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)
"""In the order of their numbers. Dead has one in Kafka, but no record."""

NULL: Final = -1
"""The length of an array that is null."""

PREVIOUS_ID_TAG: Final = 0
NEXT_ID_TAG: Final = 1
CLIENT_VERSION_TAG: Final = 2

LAST_EPOCH_HEADER: Final = "last.epoch"
"""The record header with the epoch of the identity before the present one, as 2 bytes. Without it, none is
known; its producer id is the value's PreviousProducerId."""


class UnreadableTransactionRecord(InvalidRecord):
    """The bytes are not a record of this topic, or have a version that is unknown here."""


# --- encode -------------------------------------------------------------------------------------


def encode_key(transactional_id: str) -> bytes:
    data = transactional_id.encode()
    return INT16.pack(KEY_VERSION) + INT16.pack(len(data)) + data


def encode_value(transaction: Transaction) -> bytes:
    return b"".join(
        (
            INT16.pack(VALUE_VERSION),
            INT64.pack(transaction.producer.producer_id),
            INT16.pack(transaction.producer.producer_epoch),
            INT32.pack(transaction.timeout_ms),
            INT8.pack(STATES.index(transaction.state)),
            *_encoded_partitions(transaction),
            INT64.pack(transaction.updated_ms),
            INT64.pack(transaction.started_ms),
            *_encoded_tags(transaction),
        )
    )


def encode_headers(transaction: Transaction) -> Headers:
    if transaction.last == NO_PRODUCER:
        return ()
    return ((LAST_EPOCH_HEADER, INT16.pack(transaction.last.producer_epoch)),)


def _encoded_partitions(transaction: Transaction) -> Iterator[bytes]:
    """By topic; null for an Empty one, as in Kafka."""
    if transaction.state is TransactionState.EMPTY:
        yield _uvarint(0)
        return
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(transaction.partitions):
        by_topic[topic].append(partition)
    yield _uvarint(len(by_topic) + 1)
    for topic, partitions in by_topic.items():
        name = topic.encode()
        yield _uvarint(len(name) + 1) + name + _uvarint(len(partitions) + 1)
        yield from map(INT32.pack, partitions)
        yield _uvarint(0)


def _encoded_tags(transaction: Transaction) -> Iterator[bytes]:
    """In the order of tags, without those that have their default."""
    tags = [
        (tag, data)
        for tag, data, there in (
            (PREVIOUS_ID_TAG, INT64.pack(transaction.last.producer_id), transaction.last != NO_PRODUCER),
            (NEXT_ID_TAG, INT64.pack(transaction.next_id), transaction.next_id != NO_ID),
            (CLIENT_VERSION_TAG, INT16.pack(transaction.client_version), transaction.client_version != 0),
        )
        if there
    ]
    yield _uvarint(len(tags))
    for tag, data in tags:
        yield _uvarint(tag) + _uvarint(len(data)) + data


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# --- decode -------------------------------------------------------------------------------------


def decode_key(data: bytes) -> str:
    """The transactional id. Raises UnreadableTransactionRecord, InvalidRequest."""
    reader = RecordReader(data, "key", UnreadableTransactionRecord)
    version = reader.int16()
    if version != KEY_VERSION:
        raise reader.refuse(f"version {version}, known is {KEY_VERSION}")
    transactional_id = reader.string()
    reader.end()
    check_transactional_id(transactional_id)
    return transactional_id


def decode_value(transactional_id: str, data: bytes, headers: Headers) -> Transaction:
    """Raises UnreadableTransactionRecord."""
    reader = RecordReader(data, f"transactional id {transactional_id}", UnreadableTransactionRecord)
    version = reader.int16()
    if version not in (PLAIN_VERSION, VALUE_VERSION):
        raise reader.refuse(f"version {version}, known are {PLAIN_VERSION} and {VALUE_VERSION}")
    flexible = version == VALUE_VERSION
    producer = ProducerIdentity(reader.int64(), reader.int16())
    timeout_ms, state = reader.int32(), _state(reader)
    partitions = _partitions(reader, flexible=flexible)
    updated_ms, started_ms = reader.int64(), reader.int64()
    tags = _tags(reader) if flexible else {}
    reader.end()
    transaction = Transaction(
        transactional_id,
        producer,
        timeout_ms,
        state,
        updated_ms,
        partitions,
        started_ms,
        _last(reader, tags.get(PREVIOUS_ID_TAG, NO_ID), headers),
        tags.get(NEXT_ID_TAG, NO_ID),
        tags.get(CLIENT_VERSION_TAG, 0),
    )
    if (wrong := _wrong(transaction)) is not None:
        raise reader.refuse(wrong)
    return transaction


def _state(reader: RecordReader) -> TransactionState:
    number = reader.int8()
    if not 0 <= number < len(STATES):
        raise reader.refuse(f"no record has state {number}")
    return STATES[number]


def _partitions(reader: RecordReader, *, flexible: bool) -> frozenset[TopicPartition]:
    def count(least: int) -> int:
        number = reader.uvarint() - 1 if flexible else reader.int32()
        if number < least:
            raise reader.refuse(f"an array of {number} elements")
        return number

    found: set[TopicPartition] = set()
    for _ in range(count(NULL)):
        topic = reader.compact_string() if flexible else reader.string()
        for _ in range(count(0)):
            name = TopicPartition(topic, reader.int32())
            if name in found or check_name(name) is not None:
                raise reader.refuse(f"partition {name!r:.300} is there twice, or is none")
            found.add(name)
        if flexible and reader.uvarint():
            raise reader.refuse(f"unknown tags of topic {topic}")
    return frozenset(found)


def _tags(reader: RecordReader) -> dict[int, int]:
    """The tagged fields that are known here; others are skipped, as it is their purpose."""
    layouts = {PREVIOUS_ID_TAG: INT64, NEXT_ID_TAG: INT64, CLIENT_VERSION_TAG: INT16}
    found: dict[int, int] = {}
    last = -1
    for _ in range(reader.uvarint()):
        tag, size = reader.uvarint(), reader.uvarint()
        data = reader.take(size)
        if tag <= last:
            raise reader.refuse(f"tag {tag} after tag {last}")
        last = tag
        if (layout := layouts.get(tag)) is not None:
            if size != layout.size:
                raise reader.refuse(f"tag {tag} of {size} bytes, not {layout.size}")
            (found[tag],) = layout.unpack(data)
    return found


def _last(reader: RecordReader, producer_id: int, headers: Headers) -> ProducerIdentity:
    for name, content in headers:
        if name == LAST_EPOCH_HEADER:
            if content is None or len(content) != INT16.size:
                raise reader.refuse(f"header {name} = {content!r:.100}, not {INT16.size} bytes")
            (epoch,) = INT16.unpack(content)
            return ProducerIdentity(producer_id, epoch)
    return NO_PRODUCER


# --- checks -------------------------------------------------------------------------------------


def _wrong(read: Transaction) -> str | None:
    """What is wrong with a record that no coordinator writes; None if it is valid."""
    producer, last = read.producer, read.last
    if producer.producer_id < 0 or not 0 <= producer.producer_epoch <= EPOCH_MAX:
        return f"{producer} is none"
    if last != NO_PRODUCER and (last.producer_id < 0 or not 0 <= last.producer_epoch < EPOCH_MAX):
        return f"{last} is none that a client had"
    if read.timeout_ms < 1 or read.updated_ms < -1 or read.started_ms < -1:
        return (
            f"a timeout of {read.timeout_ms} ms, changed at {read.updated_ms}, begun at {read.started_ms} ms"
        )
    if read.idle and read.partitions:
        return f"it is {read.state.value} and has {len(read.partitions)} partitions"
    if producer.producer_epoch == EPOCH_MAX and read.state in (
        TransactionState.EMPTY,
        TransactionState.ONGOING,
    ):
        return f"it is {read.state.value} with epoch {EPOCH_MAX}, which no client has"
    if read.next_id != NO_ID and (read.next_id < 0 or not read.ending or producer.producer_epoch < EPOCH_MAX):
        return f"it is {read.state.value} of {producer}, and its next producer id is {read.next_id}"
    if not 0 <= read.client_version <= RAISING_VERSION:
        return f"version {read.client_version} of transactions, known are 0 to {RAISING_VERSION}"
    return None
