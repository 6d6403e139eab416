"""The RPCs of `strandline.v1.Transactions`, with the values of `strandline.vocabulary.transactions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.message import Message

from strandline.adapters.codecs.messages import (
    ENDPOINT,
    ERROR,
    PARTITION,
    Call,
    MessageCodec,
    Part,
    at_most,
    call,
    many,
    nothing,
    only,
    plain,
    shape,
)
from strandline.adapters.rpc.wire_errors import error_from_wire, error_to_wire
from strandline.config.limits import ADMISSIONS_PER_CALL_MAX, LOGS_PER_CALL_MAX, MARKERS_PER_CALL_MAX
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Listener, Request, Response
from strandline.rpc import common_pb2, transaction_pb2
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.transactions import (
    AbortInLog,
    AddPartitions,
    AdmissionBatch,
    Admitted,
    DescribedTransaction,
    EndTransaction,
    InitTransactions,
    ListedTransaction,
    LogQuery,
    LogTransactions,
    Marker,
    MarkerBatch,
    MarkerEntry,
    OpenInLog,
    TransactionState,
)


def _rpc(
    name: str, request: MessageCodec[Request], response: MessageCodec[Response]
) -> Call[Request, Response]:
    return call(f"/strandline.v1.Transactions/{name}", request, response, refuses_malformed=True)


# --- parts --------------------------------------------------------------------------------------

_IDENTITY: Final = shape(transaction_pb2.ProducerIdentity, ProducerIdentity)
_PRODUCER: Final = Part(_IDENTITY.write, _IDENTITY.read)
_STATE: Final = plain(lambda state: state.value, TransactionState)
_PARTITION: Final = MessageCodec(
    transaction_pb2.TransactionPartition,
    lambda name, to: transaction_pb2.TransactionPartition(topic=name.topic, partition=name.partition),
    lambda message: TopicPartition(message.topic, message.partition),
)
_RESULT: Final = MessageCodec(
    common_pb2.Error,
    lambda error, to: common_pb2.Error() if error is None else error_to_wire(error, to),
    error_from_wire,
)

# --- producers ----------------------------------------------------------------------------------

FIND_TRANSACTION_COORDINATOR: Final[Call[str, Endpoint]] = _rpc(
    "FindTransactionCoordinator",
    only(transaction_pb2.FindTransactionCoordinatorRequest, "transactional_id"),
    only(transaction_pb2.FindTransactionCoordinatorResponse, "coordinator", ENDPOINT),
)
INIT_TRANSACTIONS: Final[Call[InitTransactions, ProducerIdentity]] = _rpc(
    "InitTransactions",
    shape(transaction_pb2.InitTransactionsRequest, InitTransactions, producer=_PRODUCER),
    only(transaction_pb2.InitTransactionsResponse, "producer", _PRODUCER),
)
END_TRANSACTION: Final[Call[EndTransaction, ProducerIdentity]] = _rpc(
    "EndTransaction",
    shape(transaction_pb2.EndTransactionRequest, EndTransaction, producer=_PRODUCER),
    only(transaction_pb2.EndTransactionResponse, "producer", _PRODUCER),
)

# --- tools --------------------------------------------------------------------------------------

DESCRIBE_TRANSACTION: Final[Call[str, DescribedTransaction]] = _rpc(
    "DescribeTransaction",
    only(transaction_pb2.DescribeTransactionRequest, "transactional_id"),
    shape(
        transaction_pb2.DescribeTransactionResponse,
        DescribedTransaction,
        producer=_PRODUCER,
        state=_STATE,
        partitions=many(_PARTITION),
    ),
)
_LISTED: Final = MessageCodec(
    transaction_pb2.ListedTransaction,
    lambda listed, to: transaction_pb2.ListedTransaction(
        transactional_id=listed.transactional_id,
        producer_id=listed.producer_id,
        state=listed.state.value,
        started_ms=listed.started_ms,
    ),
    lambda message: ListedTransaction(
        message.transactional_id, message.producer_id, TransactionState(message.state), message.started_ms
    ),
)
LIST_TRANSACTIONS: Final[Call[None, Sequence[ListedTransaction]]] = _rpc(
    "ListTransactions",
    nothing(transaction_pb2.ListTransactionsRequest),
    only(transaction_pb2.ListTransactionsResponse, "transactions", many(_LISTED)),
)
ABORT_TRANSACTION: Final[Call[str, None]] = _rpc(
    "AbortTransaction",
    only(transaction_pb2.AbortTransactionRequest, "transactional_id"),
    nothing(transaction_pb2.AbortTransactionResponse),
)

_OPEN: Final = shape(transaction_pb2.OpenInLog, OpenInLog, producer=_PRODUCER)
DESCRIBE_LOGS: Final[Call[Sequence[LogQuery], Sequence[LogTransactions]]] = _rpc(
    "DescribeLogs",
    only(
        transaction_pb2.DescribeLogsRequest,
        "partitions",
        many(
            shape(transaction_pb2.LogQuery, LogQuery, name=PARTITION),
            at_most(LOGS_PER_CALL_MAX, "partitions"),
        ),
    ),
    only(
        transaction_pb2.DescribeLogsResponse,
        "partitions",
        many(
            shape(
                transaction_pb2.LogTransactions,
                LogTransactions,
                name=PARTITION,
                error=ERROR,
                opened=many(_OPEN),
            )
        ),
    ),
)
ABORT_IN_LOG: Final[Call[AbortInLog, None]] = _rpc(
    "AbortInLog",
    shape(transaction_pb2.AbortInLogRequest, AbortInLog, name=PARTITION),
    nothing(transaction_pb2.AbortInLogResponse),
)

# --- brokers ------------------------------------------------------------------------------------


def _write_entry(entry: MarkerEntry, to: Listener) -> Message:
    marker = entry.marker
    return transaction_pb2.MarkerEntry(
        topic=entry.name.topic,
        partition=entry.name.partition,
        producer_id=marker.producer.producer_id,
        producer_epoch=marker.producer.producer_epoch,
        commit=marker.commit,
        coordinator_epoch=marker.coordinator_epoch,
    )


def _read_entry(message: transaction_pb2.MarkerEntry) -> MarkerEntry:
    producer = ProducerIdentity(message.producer_id, message.producer_epoch)
    marker = Marker(producer, message.commit, message.coordinator_epoch)
    return MarkerEntry(TopicPartition(message.topic, message.partition), marker)


_ENTRY: Final = MessageCodec(transaction_pb2.MarkerEntry, _write_entry, _read_entry)

WRITE_MARKERS: Final[Call[MarkerBatch, Sequence[StrandlineError | None]]] = _rpc(
    "WriteMarkers",
    shape(
        transaction_pb2.WriteMarkersRequest,
        MarkerBatch,
        entries=many(_ENTRY, at_most(MARKERS_PER_CALL_MAX, "markers")),
    ),
    only(transaction_pb2.WriteMarkersResponse, "results", many(_RESULT)),
)


def _write_admitted(admitted: Admitted, to: Listener) -> Message:
    if isinstance(admitted, StrandlineError):
        return transaction_pb2.AdmissionResult(error=error_to_wire(admitted, to))
    partitions = [
        transaction_pb2.AdmittedPartition(
            topic=name.topic,
            partition=name.partition,
            error=None if error is None else error_to_wire(error, to),
        )
        for name, error in admitted.items()
    ]
    return transaction_pb2.AdmissionResult(partitions=partitions)


def _read_admitted(message: transaction_pb2.AdmissionResult) -> Admitted:
    if (error := error_from_wire(message.error)) is not None:
        return error
    return {TopicPartition(p.topic, p.partition): error_from_wire(p.error) for p in message.partitions}


_ADMISSION: Final[MessageCodec[Any]] = shape(
    transaction_pb2.Admission, AddPartitions, producer=_PRODUCER, partitions=many(_PARTITION)
)

ADMIT_PARTITIONS: Final[Call[AdmissionBatch, Sequence[Admitted]]] = _rpc(
    "AdmitPartitions",
    shape(
        transaction_pb2.AdmitPartitionsRequest,
        AdmissionBatch,
        admissions=many(_ADMISSION, at_most(ADMISSIONS_PER_CALL_MAX, "admissions")),
    ),
    only(
        transaction_pb2.AdmitPartitionsResponse,
        "results",
        many(MessageCodec(transaction_pb2.AdmissionResult, _write_admitted, _read_admitted)),
    ),
)
