"""Ends of transactions that tools write to logs, without a coordinator (KIP-664)."""

from __future__ import annotations

from typing import Any, Final

from strandline_lab.conformance.case import Call, Case, Topic
from strandline_lab.conformance.cases.transactions.steps import EPOCH, ID, STATES, before, slug

SINCE: Final = 1
LATER: Final = 1_000
"""A coordinator epoch above that of each marker before: the two systems count theirs differently."""


def _marking(topic: str, *, committed: bool = False, index: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "ProducerId": ID,
        "ProducerEpoch": EPOCH,
        "TransactionResult": committed,
        "Topics": [{"Name": topic, "PartitionIndexes": [index]}],
        "CoordinatorEpoch": LATER,
        "TransactionVersion": 0,
        **more,
    }


def _marked(name: str, state: str = "written", *, times: int = 1, settled: bool = True, **more: Any) -> Case:
    own = slug("markers", name)
    topic = Topic(f"transactions.{own}")
    body = {"Markers": [_marking(topic.name, **more)] * times}
    call = Call("WriteTxnMarkers", body, settled=settled)
    first = before(own, state, topic.name)
    return Case(f"transactions: {name}", call, before=first, topics=(topic,), since=SINCE)


CASES: Final = (
    *(_marked(f"an abort, {state}", state) for state in STATES),
    _marked("a commit", committed=True),
    _marked("a marker twice", times=2),
    _marked("an epoch to come", ProducerEpoch=9),
    _marked("a negative epoch", ProducerEpoch=-1),
    _marked("an unknown producer", ProducerId=987_654_321),
    _marked("an earlier coordinator", "committed", CoordinatorEpoch=-1),
    _marked("the second version", TransactionVersion=2),
    _marked("an unknown partition", index=9, settled=False),
    Case("no markers", Call("WriteTxnMarkers", {"Markers": []}), since=SINCE),
)
