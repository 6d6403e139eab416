"""Both ends of the RPCs of transactions mean the same."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.adapters.codecs import transactions as rpcs
from strandline.adapters.codecs.messages import Call
from strandline.config.limits import MARKERS_PER_CALL_MAX
from strandline.errors import (
    InvalidRequest,
    LeaderHint,
    NotCoordinator,
    NotLeaderOrFollower,
    ProducerFenced,
    StrandlineError,
    TransactionAbortable,
)
from strandline.ids import BrokerId, TopicPartition
from strandline.ports import Listener
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.transactions import (
    EPOCH_MAX,
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

A, B = TopicPartition("orders", 0), TopicPartition("orders", 7)
PRODUCER = ProducerIdentity(2**62, EPOCH_MAX)

REQUESTS: list[tuple[Call[Any, Any], Any]] = [
    (rpcs.FIND_TRANSACTION_COORDINATOR, "t"),
    (rpcs.INIT_TRANSACTIONS, InitTransactions("t", 60_000)),
    (rpcs.INIT_TRANSACTIONS, InitTransactions("t", 60_000, PRODUCER)),
    (rpcs.END_TRANSACTION, EndTransaction("t", PRODUCER, commit=True, next_epoch=True)),
    (rpcs.END_TRANSACTION, EndTransaction("t", PRODUCER, commit=False)),
    (rpcs.DESCRIBE_TRANSACTION, "t"),
    (rpcs.LIST_TRANSACTIONS, None),
    (rpcs.ABORT_TRANSACTION, "t"),
    (rpcs.DESCRIBE_LOGS, (LogQuery(A), LogQuery(B))),
    (rpcs.ABORT_IN_LOG, AbortInLog(B, 2**40)),
    (
        rpcs.WRITE_MARKERS,
        MarkerBatch(
            BrokerId(2),
            (
                MarkerEntry(A, Marker(PRODUCER, commit=True, coordinator_epoch=9)),
                MarkerEntry(B, Marker(PRODUCER, commit=False, coordinator_epoch=9)),
            ),
        ),
    ),
    (
        rpcs.ADMIT_PARTITIONS,
        AdmissionBatch(
            BrokerId(2),
            (AddPartitions("t", PRODUCER, (A, B)), AddPartitions("u", PRODUCER, (A,), verify_only=True)),
        ),
    ),
]
ANSWERS: list[tuple[Call[Any, Any], Any]] = [
    (rpcs.FIND_TRANSACTION_COORDINATOR, Endpoint(3, "h", 9092, "r")),
    (rpcs.INIT_TRANSACTIONS, PRODUCER),
    (rpcs.END_TRANSACTION, PRODUCER),
    *(
        (rpcs.DESCRIBE_TRANSACTION, DescribedTransaction("t", PRODUCER, state, 60_000, 5, (A, B)))
        for state in TransactionState
    ),
    (rpcs.DESCRIBE_TRANSACTION, DescribedTransaction("t", PRODUCER, TransactionState.EMPTY, 60_000)),
    (rpcs.LIST_TRANSACTIONS, (ListedTransaction("t", 5, TransactionState.ONGOING, 7),)),
    (rpcs.ABORT_TRANSACTION, None),
    (
        rpcs.DESCRIBE_LOGS,
        (LogTransactions(A, None, 5, 7, 1, (OpenInLog(PRODUCER, 5, 2**40, 3),)), LogTransactions(B)),
    ),
    (rpcs.ABORT_IN_LOG, None),
    (rpcs.WRITE_MARKERS, (None, None)),
    (rpcs.ADMIT_PARTITIONS, ({A: None, B: None}, {})),
]


def name(of: Call[Any, Any]) -> str:
    return of.path.rpartition("/")[2]


@pytest.mark.parametrize(("rpc", "request_"), REQUESTS, ids=[name(rpc) for rpc, _ in REQUESTS])
def test_a_request_is_read_as_it_was_meant(rpc: Call[Any, Any], request_: object) -> None:
    assert rpc.served.decode(rpc.encode(request_)) == request_
    assert rpc.path == rpc.served.path


@pytest.mark.parametrize(("rpc", "answer"), ANSWERS, ids=[name(rpc) for rpc, _ in ANSWERS])
def test_an_answer_is_read_as_it_was_meant(rpc: Call[Any, Any], answer: object) -> None:
    assert rpc.decode(rpc.served.encode(answer, Listener.INTERNAL)) == answer


@pytest.mark.parametrize(
    "rpc", {rpc.path: rpc for rpc, _ in REQUESTS}.values(), ids={name(rpc): None for rpc, _ in REQUESTS}
)
def test_a_refusal_has_its_facts(rpc: Call[Any, Any]) -> None:
    error = NotCoordinator("not here", leader=LeaderHint(2, "h", 1, 5))
    assert rpc.served.refuse is not None
    with pytest.raises(NotCoordinator) as raised:
        rpc.decode(rpc.served.refuse(error, Listener.INTERNAL))
    assert (raised.value.message, raised.value.leader) == ("not here", error.leader)
    with pytest.raises(InvalidRequest):
        rpc.served.decode(b"\xff")


def test_an_error_of_one_part_leaves_the_others_alone() -> None:
    written: list[StrandlineError | None] = [None, NotLeaderOrFollower("moved"), None]
    results = rpcs.WRITE_MARKERS.decode(rpcs.WRITE_MARKERS.served.encode(written, Listener.INTERNAL))
    assert [type(each) for each in results] == [type(None), NotLeaderOrFollower, type(None)]
    admitted: list[Admitted] = [ProducerFenced("newer"), {A: None, B: TransactionAbortable("not in it")}]
    first, second = rpcs.ADMIT_PARTITIONS.decode(
        rpcs.ADMIT_PARTITIONS.served.encode(admitted, Listener.INTERNAL)
    )
    assert isinstance(first, ProducerFenced)
    assert not isinstance(second, StrandlineError)
    assert second[A] is None and isinstance(second[B], TransactionAbortable)


def test_one_call_has_a_bounded_number_of_markers() -> None:
    """CONTRIBUTING 7"""
    entry = MarkerEntry(A, Marker(PRODUCER, commit=True, coordinator_epoch=9))
    batch = MarkerBatch(BrokerId(2), [entry] * (MARKERS_PER_CALL_MAX + 1))
    with pytest.raises(InvalidRequest):
        rpcs.WRITE_MARKERS.served.decode(rpcs.WRITE_MARKERS.encode(batch))
