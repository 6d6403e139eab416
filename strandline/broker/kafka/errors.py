"""Numbers of errors in Kafka's protocol. strandline's are Kafka's, with the exceptions that stand here."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from strandline.errors import (
    ConcurrentTransactions,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    DuplicateSequence,
    ErrorCode,
    GenerationOfNoGroup,
    InvalidRequest,
    NoRoomForEpoch,
    OutcomeUnknown,
    ProducerFenced,
    StrandlineError,
    TransactionAbortable,
    UnsupportedCompression,
)

OWN_CODES_MIN: Final = 1_000
"""Numbers from here on are strandline's own, and mean nothing to a Kafka client."""


class KafkaCode(IntEnum):
    """Numbers that only this listener answers with."""

    UNSUPPORTED_VERSION = 35
    POLICY_VIOLATION = 44
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    REBOOTSTRAP_REQUIRED = 129


PRODUCE_STORAGE_SINCE: Final = 4
PRODUCE_ABORTABLE_SINCE: Final = 11
"""Clients of earlier versions do not know TRANSACTION_ABORTABLE."""
FETCH_STORAGE_SINCE: Final = 6
"""Clients of earlier versions do not know KAFKA_STORAGE_ERROR."""
FETCH_EPOCHS_SINCE: Final = 9
"""Clients of earlier versions do not know UNKNOWN_LEADER_EPOCH and OFFSET_NOT_AVAILABLE."""
LIST_OFFSETS_EPOCHS_SINCE: Final = 4
LIST_OFFSETS_NOT_AVAILABLE_SINCE: Final = 5
"""Clients of version 4 know the first of the two."""
COMMIT_GROUPS_SINCE: Final = 9
COMMIT_IDS_SINCE: Final = 10
TXN_COMMIT_IDS_SINCE: Final = 6
"""Clients of earlier versions do not know UNKNOWN_TOPIC_ID."""
TXN_COMMIT_LOADING_SINCE: Final = 2
TXN_COMMIT_ABORTABLE_SINCE: Final = 4


def code_of(error: StrandlineError | None) -> int:
    """The number on the wire; 0 for no error."""
    if error is None:
        return 0
    return int(error.code) if error.code < OWN_CODES_MIN else int(ErrorCode.UNKNOWN_SERVER_ERROR)


def message_of(error: StrandlineError | None) -> str | None:
    """What people read beside the number; null for no error."""
    return None if error is None else error.message


def text_of(error: StrandlineError | None) -> str:
    """The same where Kafka's brokers have an empty text for no error."""
    return "" if error is None else error.message


def produce_code(error: StrandlineError, version: int) -> int:
    """NOT_LEADER_OR_FOLLOWER for a leadership that ended: clients look for the new leader before they try
    again. After REQUEST_TIMED_OUT they would try the same broker first.

    OUT_OF_ORDER_SEQUENCE_NUMBER, as from Kafka, for a batch that is older than those that are remembered: to
    clients, DUPLICATE_SEQUENCE_NUMBER is success. But a log that took a later batch of the producer first
    (KIP-360) does not have this one. Of a codec that is none, Kafka's brokers say no more than that they
    failed: producers give up at once, as at the error of that name.

    NOT_ENOUGH_REPLICAS, which producers try again, while the coordinator of a transaction does not answer."""
    if isinstance(error, OutcomeUnknown):
        return int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if isinstance(error, DuplicateSequence):
        return int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    if isinstance(error, UnsupportedCompression):
        return int(ErrorCode.UNKNOWN_SERVER_ERROR)
    if isinstance(error, ProducerFenced):
        return int(ErrorCode.INVALID_PRODUCER_EPOCH)
    if isinstance(error, ConcurrentTransactions | CoordinatorNotAvailable):
        return int(ErrorCode.NOT_ENOUGH_REPLICAS)
    if isinstance(error, TransactionAbortable) and version < PRODUCE_ABORTABLE_SINCE:
        return int(ErrorCode.INVALID_TXN_STATE)
    return _known(code_of(error), storage=version >= PRODUCE_STORAGE_SINCE)


def fetch_code(error: StrandlineError | None, version: int) -> int:
    newer = version >= FETCH_EPOCHS_SINCE
    return _known(code_of(error), storage=version >= FETCH_STORAGE_SINCE, epochs=newer, not_available=newer)


def list_offsets_code(error: StrandlineError | None, version: int) -> int:
    return _known(
        code_of(error),
        epochs=version >= LIST_OFFSETS_EPOCHS_SINCE,
        not_available=version >= LIST_OFFSETS_NOT_AVAILABLE_SINCE,
    )


def commit_code(error: StrandlineError | None, version: int) -> int:
    """UNKNOWN_TOPIC_OR_PARTITION for an offset of a topic that was deleted: clients of versions without ids
    know no UNKNOWN_TOPIC_ID here, and Java's would end its application for it. From 9 on, a group that is not
    there is an error of its own."""
    if isinstance(error, GenerationOfNoGroup) and version >= COMMIT_GROUPS_SINCE:
        return int(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(error, NoRoomForEpoch):
        return int(KafkaCode.UNSUPPORTED_VERSION)
    if version >= COMMIT_IDS_SINCE:
        return code_of(error)
    known = {ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    return int(known[error.code]) if error is not None and error.code in known else code_of(error)


def txn_commit_code(error: StrandlineError | None, version: int) -> int:
    """INVALID_PRODUCER_EPOCH for a producer that is fenced, as Kafka's leaders answer. Clients of the first
    versions fail at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
    match error:
        case ProducerFenced():
            return int(ErrorCode.INVALID_PRODUCER_EPOCH)
        case TransactionAbortable() if version < TXN_COMMIT_ABORTABLE_SINCE:
            return int(ErrorCode.INVALID_TXN_STATE)
        case CoordinatorLoading() if version < TXN_COMMIT_LOADING_SINCE:
            return int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return commit_code(error, COMMIT_IDS_SINCE if version >= TXN_COMMIT_IDS_SINCE else 0)


def find_coordinator_code(error: StrandlineError) -> int:
    """TRANSACTIONAL_ID_AUTHORIZATION_FAILED for a transactional id that cannot be one: librdkafka asks again
    without end after INVALID_REQUEST, and says nothing. This one ends producers at once, with the text."""
    if isinstance(error, InvalidRequest):
        return int(KafkaCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return code_of(error)


def heartbeat_code(error: StrandlineError) -> int:
    """No error while the coordinator reads its groups, as Kafka answers: the group may well be as its member
    knows it. aiokafka's consumer ends for good after COORDINATOR_LOAD_IN_PROGRESS."""
    return 0 if isinstance(error, CoordinatorLoading) else code_of(error)


def _known(code: int, *, storage: bool = True, epochs: bool = True, not_available: bool = True) -> int:
    """The nearest number that a client of this version knows."""
    if not storage and code == ErrorCode.KAFKA_STORAGE_ERROR:
        return int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if not epochs and code == ErrorCode.UNKNOWN_LEADER_EPOCH:
        return int(ErrorCode.LEADER_NOT_AVAILABLE)
    if not not_available and code == ErrorCode.OFFSET_NOT_AVAILABLE:
        return int(ErrorCode.LEADER_NOT_AVAILABLE)
    return code
