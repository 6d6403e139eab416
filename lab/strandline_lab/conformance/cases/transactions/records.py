"""Records of transactions: how they are appended, and what each isolation level reads of them."""

from __future__ import annotations

from typing import Any, Final

from strandline_lab.conformance.batches import CONTROL, TRANSACTIONAL, Batch, Record
from strandline_lab.conformance.case import Call, Case, Leader, Topic
from strandline_lab.conformance.cases.produce import NEW_PRODUCER, produced
from strandline_lab.conformance.cases.transactions.steps import (
    STATES,
    added,
    before,
    begun,
    reading,
    slug,
    transactional,
)

BY_ID: Final = 17
"""One version of Fetch, with topics' ids, is enough for most states."""
NEEDED: Final = 13
PRODUCE_SINCE: Final = 9

# --- append -----------------------------------------------------------------------------------


def _append(
    name: str, batch: Any, state: str = "added", topic: str = "", id: str | None = "", index: int = 0
) -> Case:
    own = slug("produce", name)
    target = topic or f"transactions.{own}"
    body = produced(target, (index, batch), TransactionalId=own if id == "" else id)
    topics = () if topic else (Topic(target),)
    first = before(own, state) if topic else before(own, state, target)
    call = Call("Produce", body, to=Leader(topic) if topic else 1)
    return Case(f"transactions: {name}", call, before=first, topics=topics, since=PRODUCE_SINCE)


_MARKER: Final = Record(b"\0\0\0\1", b"\0\0\0\0\0\0")
"""A commit."""
_FORGED: Final = transactional(-1, records=(_MARKER,), attributes=TRANSACTIONAL | CONTROL)
_APPEND: Final = (
    *(_append(f"a first batch, {state}", transactional(), state) for state in ("begun", "added", "fenced")),
    *(
        _append(f"the next batch, {state}", transactional(1), state)
        for state in STATES
        if state not in ("begun", "added", "fenced")
    ),
    *(
        _append(f"the next epoch, {state}", transactional(0, 1), state)
        for state in ("begun", "written", "committed by 5", "aborted by 5", "fenced", "timed out")
    ),
    _append("a duplicate", transactional(), "written"),
    _append("a gap", transactional(5), "written"),
    _append("a first sequence above 0", transactional(5)),
    _append("an epoch to come", transactional(0, 9), "written"),
    _append("an unknown id", transactional(), ""),
    _append("another id", transactional(), id="transactions.other"),
    _append("no id", transactional(), id=None),
    _append("an empty id", transactional(), id=""),
    _append("a batch without a transaction", transactional(attributes=0)),
    _append("a batch without a transaction in an open one", transactional(1, attributes=0), "written"),
    _append("a batch without a producer", Batch()),
    _append("a transactional batch without a producer", Batch(attributes=TRANSACTIONAL)),
    _append("a forged marker", _FORGED),
    _append("a forged marker, written", _FORGED, "written"),
    _append("two batches", [transactional(), transactional(1)]),
    _append("a topic of the system", transactional(), "begun", "__consumer_offsets"),
    _append("the topic of transactions", transactional(), "begun", "__transaction_state"),
    _append("an unknown partition", transactional(), index=9),
)  # fmt: skip

# --- read -------------------------------------------------------------------------------------

_READ_STATES: Final = tuple(state for state in STATES if state not in ("begun", "added", "fenced"))


def _seen(api: str, name: str, call_of: Any, state: str, since: int, *after: Call) -> Case:
    own = slug(f"{api}-{name}", state)
    topic = Topic(f"transactions.{own}")
    call = Call(api, call_of(topic.name), settled=False)
    first = [*before(own, state, topic.name), *after]
    return Case(f"transactions: {name}, {state}", call, before=first, topics=(topic,), since=since)


def _fetched(isolation: int) -> Any:
    return lambda topic: reading(topic, isolation)


def _looked(isolation: int, time: int) -> Any:
    return lambda topic: {
        "ReplicaId": -1,
        "TimeoutMs": 5_000,
        "IsolationLevel": isolation,
        "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "Timestamp": time}]}],
    }


def _producers(topic: str) -> dict[str, Any]:
    return {"Topics": [{"Name": topic, "PartitionIndexes": [0]}]}


def _deleted(topic: str) -> dict[str, Any]:
    return {
        "TimeoutMs": 5_000,
        "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "Offset": -1}]}],
    }


_SEEN: Final = (
    *(
        _seen("Fetch", f"isolation {isolation}", _fetched(isolation), state,
              NEEDED if state in ("written", "committed", "aborted") else BY_ID)
        for state in _READ_STATES for isolation in (0, 1)
    ),
    *(
        _seen("ListOffsets", f"isolation {isolation} of {time}", _looked(isolation, time), state, 8)
        for state in ("written", "committed", "aborted", "timed out") for isolation in (0, 1)
        for time in (-1, -2, -3, 1)
    ),
    *(_seen("DescribeProducers", "producers", _producers, state, 0) for state in STATES),
    *(_seen("DeleteRecords", "records", _deleted, state, 2) for state in ("written", "committed", "aborted")),
)  # fmt: skip


def _mixed(isolation: int, topic: Topic) -> Case:
    """An open transaction between an aborted one and a batch without a transaction."""
    own = slug("Fetch-mixed", f"{isolation}")
    target = f"{topic.name}.{isolation}.{{v}}"
    first = [
        *before(own, "aborted by 5", target),
        begun(f"{own}.other"),
        added(f"{own}.other", target),
        Call("Produce", produced(target, (0, transactional()), TransactionalId=f"{own}.other"), version=9),
        NEW_PRODUCER,
        Call("Produce", produced(target, (0, transactional(attributes=0))), version=9),
    ]
    call = Call("Fetch", reading(target, isolation), settled=False)
    return Case(
        f"transactions: isolation {isolation} of a mixture",
        call,
        before=first,
        topics=(Topic(target),),
        since=BY_ID,
    )


_MIXED: Final = tuple(_mixed(isolation, Topic("transactions.mixed")) for isolation in (0, 1))

CASES: Final = (*_APPEND, *_SEEN, *_MIXED)
