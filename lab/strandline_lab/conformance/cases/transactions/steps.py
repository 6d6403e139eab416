"""The requests that bring a transactional id into a state, in which cases ask something of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from strandline_lab.conformance.batches import TRANSACTIONAL, Batch
from strandline_lab.conformance.case import Call, Taken, Topic, TopicId, Transaction
from strandline_lab.conformance.cases.produce import PRODUCER, produced

READ: Final = Topic("transactions.read", 2)
UNKNOWN: Final = "transactions.unknown"
ID: Final = Taken(PRODUCER)
EPOCH: Final = Taken("producer epoch")
OTHER: Final = 987_654_321
"""A producer id that no broker has given yet."""
_TAKEN: Final = {PRODUCER: "ProducerId", "producer epoch": "ProducerEpoch"}
MS: Final = 60_000
SHORT_MS: Final = 1_000
FIRST, SECOND = 3, 5
"""Versions of EndTxn: of the first protocol, and of the second, in which each transaction has an epoch
(KIP-890)."""
BY_FIRST, BY_SECOND = 9, 12
"""Versions of Produce; the second adds its partitions to the transaction."""

STATES: Final = (
    "begun", "added", "written", "written by 12", "committed", "aborted", "committed by 5", "aborted by 5",
    "fenced", "fenced while open", "timed out",
)  # fmt: skip
"""In which a case may be asked. `ID` and `EPOCH` are those of the producer that came first."""


def slug(api: str, name: str) -> str:
    """A transactional id, or a part of a topic's name, for a case in the version under test."""
    return f"{api}.{name}.{{v}}".replace(" ", "-").replace(",", "")


def adding(name: str, topics: Mapping[str, Sequence[int]], **more: Any) -> dict[str, Any]:
    """The body of AddPartitionsToTxn."""
    these = [{"Name": topic, "Partitions": list(indexes)} for topic, indexes in topics.items()]
    fields = {"ProducerId": ID, "ProducerEpoch": EPOCH, **more}
    one = {"TransactionalId": name, "VerifyOnly": False, "Topics": these, **fields}
    return {
        "Transactions": [one],
        "V3AndBelowTransactionalId": name,
        "V3AndBelowProducerId": fields["ProducerId"],
        "V3AndBelowProducerEpoch": fields["ProducerEpoch"],
        "V3AndBelowTopics": these,
    }


def ending(name: str, *, committed: bool, **more: Any) -> dict[str, Any]:
    """The body of EndTxn."""
    return {
        "TransactionalId": name,
        "ProducerId": ID,
        "ProducerEpoch": EPOCH,
        "Committed": committed,
        **more,
    }


def begun(name: str, timeout_ms: int = MS, *, twin: bool = False) -> Call:
    """`twin`: the id and epoch of the producer before it are kept."""
    body = {"TransactionalId": name, "TransactionTimeoutMs": timeout_ms}
    take = {} if twin else _TAKEN
    return Call("InitProducerId", body, version=4, to=Transaction(name), take=take)


def added(name: str, topic: str = READ.name) -> Call:
    return Call("AddPartitionsToTxn", adding(name, {topic: [0]}), version=3, to=Transaction(name))


def transactional(sequence: int = 0, epoch: int = 0, **more: Any) -> Batch:
    return Batch(producer=PRODUCER, epoch=epoch, sequence=sequence, **{"attributes": TRANSACTIONAL} | more)


def written(name: str, topic: str = READ.name, version: int = BY_FIRST) -> Call:
    return Call("Produce", produced(topic, (0, transactional()), TransactionalId=name), version=version)


def ended(name: str, *, committed: bool, version: int = FIRST) -> Call:
    return Call("EndTxn", ending(name, committed=committed), version=version, to=Transaction(name))


def shown(name: str, state: str) -> Call:
    """Waits until the id is in this state: markers are written after EndTxn is answered."""
    body = {"TransactionalIds": [name]}
    until = "TransactionStates.0.TransactionState"
    return Call("DescribeTransactions", body, version=0, to=Transaction(name), until=until, value=state)


def before(name: str, state: str, topic: str = READ.name) -> Sequence[Call]:
    """The requests that bring the id into a state."""
    start, add, write = [begun(name)], added(name, topic), written(name, topic)
    second = [*start, written(name, topic, BY_SECOND)]
    states: Mapping[str, Sequence[Call]] = {
        "": [],
        "begun": start,
        "added": [*start, add],
        "written": [*start, add, write],
        "written by 12": second,
        "committed": [*start, add, write, ended(name, committed=True), shown(name, "CompleteCommit")],
        "aborted": [*start, add, write, ended(name, committed=False), shown(name, "CompleteAbort")],
        "committed by 5": [
            *second, ended(name, committed=True, version=SECOND), shown(name, "CompleteCommit")
        ],
        "aborted by 5": [
            *second, ended(name, committed=False, version=SECOND), shown(name, "CompleteAbort")
        ],
        "fenced": [*start, begun(name, twin=True)],
        "fenced while open": [*start, add, write, begun(name, twin=True)],
        "timed out": [begun(name, SHORT_MS), add, write, shown(name, "CompleteAbort")],
    }  # fmt: skip
    return states[state]


def reading(topic: str, isolation: int) -> dict[str, Any]:
    """The body of Fetch, from the start of a topic's first partition."""
    asked = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}
    return {
        "MaxWaitMs": 100,
        "MinBytes": 1,
        "MaxBytes": 1 << 20,
        "IsolationLevel": isolation,
        "Topics": [{"Topic": topic, "TopicId": TopicId(topic), "Partitions": [asked]}],
    }
