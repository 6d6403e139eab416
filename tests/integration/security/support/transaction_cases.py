"""Requests about transactions, and the rights that they take."""

from __future__ import annotations

from typing import Final

from strandline.adapters.codecs import groups
from strandline.adapters.codecs import transactions as rpcs
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.coordinator import TRANSACTION, FindCoordinatorRequest
from strandline.broker.kafka.wire.groups.offsets import OffsetToCommit, TxnOffsetCommitRequest
from strandline.broker.kafka.wire.producer_id import InitProducerIdRequest
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.broker.kafka.wire.transactions.markers import MarkerToWrite, WriteMarkersRequest
from strandline.broker.kafka.wire.transactions.producers import (
    AddOffsetsRequest,
    AddPartitionsRequest,
    EndTransactionRequest,
    PartitionsOfTransaction,
)
from strandline.broker.kafka.wire.transactions.tools import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from strandline.ids import TopicPartition
from strandline.security.rights import (
    ALTER_CLUSTER,
    CLUSTER_ACTION,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
)
from strandline.vocabulary.groups import CommittedOffset, OffsetCommit
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import (
    AbortInLog,
    EndTransaction,
    InitTransactions,
    LogQuery,
    TxnOffsetCommit,
)
from tests.integration.security.support.cases import GROUP, TOPIC, TRANSACTIONAL_ID, Case

_ID: Final = TRANSACTIONAL_ID
_ADD: Final = AddPartitionsRequest((PartitionsOfTransaction(_ID, 1, 0, (OfTopic(TOPIC, (0,)),)),))
_PARTITION: Final = TopicPartition(TOPIC, 0)
_MARKERS: Final = WriteMarkersRequest((MarkerToWrite(1, 0, False, (OfTopic(TOPIC, (0,)),), 0),))

_PRODUCER: Final = ProducerIdentity(1, 0)
_OFFSETS: Final = OffsetCommit(GROUP, "", -1, {_PARTITION: CommittedOffset(0)})
_KAFKA_OFFSETS: Final = TxnOffsetCommitRequest(
    _ID, GROUP, 1, 0, (OfTopic(TOPIC, (OffsetToCommit(0, 0, -1, None),)),)
)
_COMMITS: Final = (WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC)

TRANSACTION_CALLS: Final = (
    Case(groups.TXN_OFFSET_COMMIT, TxnOffsetCommit(_ID, _PRODUCER, _OFFSETS), _COMMITS),
    Case(rpcs.FIND_TRANSACTION_COORDINATOR, _ID, (DESCRIBE_TRANSACTIONAL_ID,)),
    Case(rpcs.INIT_TRANSACTIONS, InitTransactions(_ID, 60_000), (WRITE_TRANSACTIONAL_ID,)),
    Case(
        rpcs.END_TRANSACTION,
        EndTransaction(_ID, ProducerIdentity(1, 0), commit=True),
        (WRITE_TRANSACTIONAL_ID,),
    ),
    Case(rpcs.DESCRIBE_TRANSACTION, _ID, (DESCRIBE_TRANSACTIONAL_ID,)),
    Case(rpcs.LIST_TRANSACTIONS, None, (DESCRIBE_TRANSACTIONAL_ID,), lambda listed: not listed),
    Case(rpcs.ABORT_TRANSACTION, _ID, (ALTER_CLUSTER,)),
    Case(rpcs.DESCRIBE_LOGS, [LogQuery(_PARTITION)], (DESCRIBE_TOPIC,)),
    Case(rpcs.ABORT_IN_LOG, AbortInLog(_PARTITION, 0), (ALTER_CLUSTER,)),
)
TRANSACTION_APIS: Final = (
    Case(
        apis.FIND_COORDINATOR,
        FindCoordinatorRequest((_ID,), TRANSACTION),
        (DESCRIBE_TRANSACTIONAL_ID,),
        label="of a transactional id",
    ),
    Case(
        apis.INIT_PRODUCER_ID,
        InitProducerIdRequest(_ID),
        (WRITE_TRANSACTIONAL_ID,),
        label="with a transactional id",
    ),
    Case(apis.ADD_PARTITIONS_TO_TXN, _ADD, (WRITE_TRANSACTIONAL_ID, WRITE_TOPIC), version=3),
    Case(apis.ADD_PARTITIONS_TO_TXN, _ADD, (CLUSTER_ACTION,), label="of brokers"),
    Case(
        apis.ADD_OFFSETS_TO_TXN,
        AddOffsetsRequest(_ID, 1, 0, GROUP),
        (WRITE_TRANSACTIONAL_ID, READ_GROUP),
    ),
    Case(apis.END_TXN, EndTransactionRequest(_ID, 1, 0, True), (WRITE_TRANSACTIONAL_ID,)),
    Case(apis.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest((_ID,)), (DESCRIBE_TRANSACTIONAL_ID,)),
    Case(
        apis.LIST_TRANSACTIONS,
        ListTransactionsRequest(),
        (DESCRIBE_TRANSACTIONAL_ID,),
        lambda answer: not answer.transactions,
    ),
    Case(apis.TXN_OFFSET_COMMIT, _KAFKA_OFFSETS, _COMMITS, version=5),
    Case(apis.WRITE_TXN_MARKERS, _MARKERS, (CLUSTER_ACTION,)),
)
