"""Errors of appends and reads: records, producers, offsets, and the disk."""

from __future__ import annotations

from strandline.error_codes import ErrorCode
from strandline.errors.base import Retriable, StrandlineError, Unknown
from strandline.ids import TopicPartition


class OffsetOutOfRange(StrandlineError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE


class OffsetNotAvailable(Retriable):
    """A new leader's HW has not yet reached the log end that it had at its election, so it does not
    know the HW (KIP-207)."""

    code = ErrorCode.OFFSET_NOT_AVAILABLE


class CorruptMessage(StrandlineError):
    """The size, magic or CRC of a batch is wrong. The batch was not appended."""

    code = ErrorCode.CORRUPT_MESSAGE


class UndecodableBatch(CorruptMessage):
    """A batch in the log that a reader cannot decode.

    It is a batch of `partition`. The first record that the reader wanted from it has `offset`; the
    next batch begins at `next_offset`.
    """

    def __init__(self, message: str, *, partition: TopicPartition, offset: int, next_offset: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset

    def advised(self, advice: str) -> UndecodableBatch:
        """The same error, with advice for the reader added to its message."""
        return UndecodableBatch(
            f"{self.message}: {advice}",
            partition=self.partition,
            offset=self.offset,
            next_offset=self.next_offset,
        )


class InvalidRecord(StrandlineError):
    code = ErrorCode.INVALID_RECORD
    records: tuple[int, ...] = ()  # positions in the batch of the records that it is refused for


class InvalidTimestamp(InvalidRecord):
    """A time is further from the leader's clock than the topic allows. The batch was not appended."""

    code = ErrorCode.INVALID_TIMESTAMP


class MessageTooLarge(StrandlineError):
    code = ErrorCode.MESSAGE_TOO_LARGE


class UnsupportedCompression(StrandlineError):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InvalidRequiredAcks(StrandlineError):
    code = ErrorCode.INVALID_REQUIRED_ACKS


class NotEnoughReplicas(Retriable):
    """The ISR is smaller than min.insync.replicas; nothing was appended."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppend(Unknown):
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class OutOfOrderSequence(StrandlineError):
    """An earlier batch of this producer is missing, or another batch has these sequences.

    Appending this batch would reorder records; treating it as a duplicate would lose its records.
    """

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class DuplicateSequence(StrandlineError):
    """The batch was appended long ago; the broker does not remember its offset."""

    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidProducerEpoch(StrandlineError):
    code = ErrorCode.INVALID_PRODUCER_EPOCH


class UnknownProducerId(StrandlineError):
    """The broker does not know this producer, and the batch is not the producer's first."""

    code = ErrorCode.UNKNOWN_PRODUCER_ID


class UnexpectedOffset(StrandlineError):
    """The log does not end at the offset that the writer of the batch expected. The batch was not
    appended.

    `limit` is the leader's log end offset at the refusal.
    """

    code = ErrorCode.UNEXPECTED_OFFSET


class StorageFailed(Retriable):
    """The log of this replica failed and fenced itself (a full disk, an I/O error)."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class StorageBusy(Retriable):
    """This process has no free descriptor for a file of the log, or the disk is too full to delete
    records. The request damaged nothing, and may be repeated."""

    code = ErrorCode.KAFKA_STORAGE_ERROR
