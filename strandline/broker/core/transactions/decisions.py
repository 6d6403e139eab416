"""What each request does to a transactional id: the next value, which is to be written; or the held one
itself if there is nothing to write; or the error that refuses it. Nothing here has effects."""

from __future__ import annotations

from strandline.broker.core.transactions.requests import End, Initialize
from strandline.broker.core.transactions.transaction import Transaction
from strandline.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    ProducerFenced,
    StrandlineError,
    TransactionAbortable,
)
from strandline.ids import NO_PRODUCER as NO_ID
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import (
    NO_PRODUCER,
    AddPartitions,
    EndTransaction,
    PartitionResults,
    TransactionState,
)

_S = TransactionState


def check_holder(held: Transaction, asking: ProducerIdentity) -> None:
    """Raises InvalidProducerIdMapping, ProducerFenced."""
    if asking == held.holder:
        return
    producer_id = (held.holder or held.producer).producer_id
    if asking.producer_id != producer_id:
        raise InvalidProducerIdMapping(
            f"transactional id {held.transactional_id} belongs to producer {producer_id}, not to "
            f"{asking.producer_id}"
        )
    raise fenced(held, asking)


def fenced(held: Transaction, asking: ProducerIdentity) -> ProducerFenced:
    return ProducerFenced(
        f"transactional id {held.transactional_id}: producer {asking.producer_id} of epoch "
        f"{asking.producer_epoch} is fenced, or is not the one that has the id now"
    )


def being_ended(transactional_id: str) -> ConcurrentTransactions:
    return ConcurrentTransactions(f"transactional id {transactional_id}: its last transaction is being ended")


def no_id_at_hand(transactional_id: str) -> ConcurrentTransactions:
    return ConcurrentTransactions(
        f"transactional id {transactional_id} needs a new producer id, and none is at hand"
    )


# --- InitProducerId -----------------------------------------------------------------------------


def first(asked: Initialize, now_ms: int) -> Transaction:
    """The first producer of a transactional id. An identity that it has from elsewhere does not count, as in
    Kafka. Raises ConcurrentTransactions."""
    if asked.new_id == NO_ID:
        raise no_id_at_hand(asked.transactional_id)
    producer = ProducerIdentity(asked.new_id, 0)
    return Transaction(asked.transactional_id, producer, asked.request.timeout_ms, _S.EMPTY, now_ms)


def initialized(held: Transaction, asked: Initialize, now_ms: int) -> Transaction:
    """A transaction that is open is aborted first: that is what is written then, and the producer has to come
    again. Raises ProducerFenced, ConcurrentTransactions.

    A producer that has an identity keeps it from others: a request with any but the present or the last one
    comes from a fenced producer (KIP-360). With the last one the answer was lost, and is given again.
    """
    given = asked.request.producer
    if given not in (NO_PRODUCER, held.holder) and (given != held.last):
        raise fenced(held, given)
    if held.ending:
        raise being_ended(held.transactional_id)
    if not held.idle:
        return held.prepared_raised(commit=False, now_ms=now_ms, last=given)
    if given != NO_PRODUCER and given == held.last and held.holder is not None:
        producer = held.producer
    elif not held.epochs_used_up:
        producer = ProducerIdentity(held.producer.producer_id, held.producer.producer_epoch + 1)
    elif asked.new_id != NO_ID:
        producer = ProducerIdentity(asked.new_id, 0)
    else:
        raise no_id_at_hand(held.transactional_id)
    return held.initialized(producer, given, asked.request.timeout_ms, now_ms)


# --- AddPartitionsToTxn -------------------------------------------------------------------------


def added(held: Transaction, asked: AddPartitions, now_ms: int) -> Transaction:
    """Raises InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions."""
    check_holder(held, asked.producer)
    if held.ending:
        raise being_ended(held.transactional_id)
    if held.partitions.issuperset(asked.partitions):
        return held
    return held.added(asked.partitions, now_ms)


def verified(held: Transaction, asked: AddPartitions) -> PartitionResults:
    """Whether the partitions are in this producer's transaction. Raises InvalidProducerIdMapping,
    ProducerFenced, ConcurrentTransactions."""
    check_holder(held, asked.producer)
    if held.ending:
        raise being_ended(held.transactional_id)
    return {
        name: None
        if name in held.partitions
        else TransactionAbortable(f"{name} is not in the transaction of {held.transactional_id}")
        for name in asked.partitions
    }


# --- EndTxn -------------------------------------------------------------------------------------


def ended(held: Transaction, asked: End, now_ms: int) -> Transaction:
    """Raises InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions, InvalidTransactionState."""
    request = asked.request
    if request.next_epoch and request.producer == held.last and request.producer != NO_PRODUCER:
        return _ended_before(held, request)
    check_holder(held, request.producer)
    if held.ending:
        raise being_ended(held.transactional_id)
    if not request.next_epoch:
        return _ended_by_older(held, request, now_ms)
    if held.state is _S.ONGOING:
        next_id = _next_id(held, asked)
        return held.prepared_raised(commit=request.commit, now_ms=now_ms, last=held.producer, next_id=next_id)
    if request.commit:
        raise _other_decision(held, request)
    return held.aborted_nothing(now_ms, _next_id(held, asked))


def _ended_by_older(held: Transaction, request: EndTransaction, now_ms: int) -> Transaction:
    """For a client that keeps its epoch: after the end, the same request again looks like this one."""
    if held.state is _S.ONGOING:
        return held.prepared(commit=request.commit, now_ms=now_ms)
    if held.state is _S.EMPTY or held.commits is not request.commit:
        raise _other_decision(held, request)
    return held


def _next_id(held: Transaction, asked: End) -> int:
    """The producer id after this end; NO_ID if the present one has another epoch for clients."""
    if held.epochs_used_up and asked.new_id == NO_ID:
        raise no_id_at_hand(held.transactional_id)
    return asked.new_id if held.epochs_used_up else NO_ID


def _ended_before(held: Transaction, request: EndTransaction) -> Transaction:
    """The same request again, after it has raised the epoch; or an abort after the transaction was aborted
    for its timeout, which gives the client its next epoch as well."""
    if held.state is _S.EMPTY or held.holder is None:
        raise fenced(held, request.producer)
    if held.commits is not request.commit:
        raise _other_decision(held, request)
    if held.ending:
        raise being_ended(held.transactional_id)
    return held


def _other_decision(held: Transaction, request: EndTransaction) -> StrandlineError:
    return InvalidTransactionState(
        f"transactional id {held.transactional_id} is {held.state.value}: there is nothing to "
        f"{'commit' if request.commit else 'abort'}"
    )


# --- timeouts and administrators ----------------------------------------------------------------


def timed_out(held: Transaction, now_ms: int) -> Transaction:
    """Its producer may go on after it has aborted as well: with the raised epoch."""
    return held.prepared_raised(commit=False, now_ms=now_ms, last=held.producer)


def aborted_by_force(held: Transaction, now_ms: int) -> Transaction:
    """Raises InvalidTransactionState. An abort that is under way is what was asked for."""
    if held.state is _S.ONGOING:
        return timed_out(held, now_ms)
    if held.state is _S.PREPARE_ABORT:
        return held
    raise InvalidTransactionState(
        f"transactional id {held.transactional_id} is {held.state.value}: there is nothing to abort"
    )
