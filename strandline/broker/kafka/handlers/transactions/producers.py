"""Answers AddPartitionsToTxn, AddOffsetsToTxn and EndTxn, and InitProducerId with a transactional id."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import code_of
from strandline.broker.kafka.wire.producer_id import InitProducerIdAnswer, InitProducerIdRequest
from strandline.broker.kafka.wire.topics import answering, names_of
from strandline.broker.kafka.wire.transactions.producers import (
    BATCHES_SINCE,
    NEXT_EPOCH_SINCE,
    AddedToTransaction,
    AddOffsetsAnswer,
    AddOffsetsRequest,
    AddPartitionsAnswer,
    AddPartitionsRequest,
    EndTransactionAnswer,
    EndTransactionRequest,
    PartitionAdded,
    PartitionsOfTransaction,
)
from strandline.broker.transactions.handlers import TransactionHandlers
from strandline.errors import ErrorCode, StrandlineError
from strandline.security.access import Access
from strandline.security.rights import CLUSTER_ACTION
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import AddPartitions, Admitted, EndTransaction, InitTransactions

FENCED_SINCE: Final = 2
INIT_FENCED_SINCE: Final = 4
"""Clients of earlier versions do not know PRODUCER_FENCED."""


class TransactionProducersApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, transactions: TransactionHandlers, access: Access) -> None:
        self._transactions = transactions
        self._access = access

    async def init(self, request: InitProducerIdRequest, call: Call) -> InitProducerIdAnswer:
        """For a request with a transactional id."""
        given = ProducerIdentity(request.producer_id, request.epoch)
        asked = InitTransactions(request.transactional_id or "", request.timeout_ms, given)
        try:
            identity = await self._transactions.init(asked, call.caller)
        except StrandlineError as error:
            return InitProducerIdAnswer(error=_known(error, fenced=call.version >= INIT_FENCED_SINCE))
        return InitProducerIdAnswer(identity.producer_id, identity.producer_epoch)

    async def add_partitions(self, request: AddPartitionsRequest, call: Call) -> AddPartitionsAnswer:
        """One transaction of a client; or several of brokers, which have asked for their clients' rights."""
        asked = [_question(each) for each in request.transactions]
        if call.version >= BATCHES_SINCE:
            if (refusal := self._access.refusal(call.caller, CLUSTER_ACTION)) is not None:
                return AddPartitionsAnswer((), code_of(refusal))
            answers = [await self._transactions.admit_existing(each) for each in asked]
        else:
            answers = [await self._add(each, call) for each in asked]
        results = [
            _added(of, answer, call.version) for of, answer in zip(request.transactions, answers, strict=True)
        ]
        return AddPartitionsAnswer(tuple(results))

    async def _add(self, asked: AddPartitions, call: Call) -> Admitted:
        try:
            return await self._transactions.add_partitions(asked, call.caller)
        except StrandlineError as error:
            return error

    async def add_offsets(self, request: AddOffsetsRequest, call: Call) -> AddOffsetsAnswer:
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        try:
            await self._transactions.add_offsets(
                request.transactional_id, producer, request.group, call.caller
            )
        except StrandlineError as error:
            return AddOffsetsAnswer(_known(error, fenced=call.version >= FENCED_SINCE))
        return AddOffsetsAnswer()

    async def end(self, request: EndTransactionRequest, call: Call) -> EndTransactionAnswer:
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        next_epoch = call.version >= NEXT_EPOCH_SINCE
        asked = EndTransaction(request.transactional_id, producer, request.commit, next_epoch)
        try:
            identity = await self._transactions.end(asked, call.caller)
        except StrandlineError as error:
            return EndTransactionAnswer(_known(error, fenced=call.version >= FENCED_SINCE))
        return EndTransactionAnswer(0, identity.producer_id, identity.producer_epoch)


def _question(of: PartitionsOfTransaction) -> AddPartitions:
    producer = ProducerIdentity(of.producer_id, of.producer_epoch)
    return AddPartitions(of.transactional_id, producer, tuple(names_of(of.topics)), of.verify_only)


def _added(of: PartitionsOfTransaction, answer: Admitted, version: int) -> AddedToTransaction:
    if isinstance(answer, StrandlineError):
        answer = dict.fromkeys(names_of(of.topics), answer)
    fenced = version >= FENCED_SINCE
    results = (
        PartitionAdded(name.partition, _known(answer[name], fenced=fenced)) for name in names_of(of.topics)
    )
    return AddedToTransaction(of.transactional_id, answering(of.topics, results))


def _known(error: StrandlineError | None, *, fenced: bool) -> int:
    """The nearest number that a client of this version knows."""
    code = code_of(error)
    if not fenced and code == ErrorCode.PRODUCER_FENCED:
        return int(ErrorCode.INVALID_PRODUCER_EPOCH)
    return code
