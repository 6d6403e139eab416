"""Transactional ids, the partitions of their transactions, and how these end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from strandline_lab.conformance.case import Call, Case, Transaction
from strandline_lab.conformance.cases.transactions.steps import (
    EPOCH,
    ID,
    MS,
    OTHER,
    READ,
    STATES,
    UNKNOWN,
    adding,
    before,
    ending,
    slug,
)

LONG: Final = "i" * 1_000
TIMEOUT_MS_MAX: Final = 900_000
"""The default of `transaction.max.timeout.ms`."""

# --- begin ------------------------------------------------------------------------------------


def _begin(name: str, state: str = "", since: int = 0, own: str = "", **more: Any) -> Case:
    own = own or slug("init", name)
    body = {"TransactionalId": own, "TransactionTimeoutMs": MS, **more}
    call = Call("InitProducerId", body, to=Transaction(own))
    return Case(f"transactions: {name}", call, before=before(own, state), topics=(READ,), since=since)


_THEIRS: Final[dict[str, Any]] = {"ProducerId": ID, "ProducerEpoch": EPOCH}
_BEGIN: Final = (
    _begin("a new id"),
    *(_begin(f"an id that is {state}", state) for state in STATES),
    *(_begin(f"its producer, {state}", state, 3, **_THEIRS) for state in STATES),
    _begin("a timeout of 0", TransactionTimeoutMs=0),
    _begin("a negative timeout", TransactionTimeoutMs=-1),
    _begin("the longest timeout", TransactionTimeoutMs=TIMEOUT_MS_MAX),
    _begin("a timeout that is too long", TransactionTimeoutMs=TIMEOUT_MS_MAX + 1),
    _begin("a timeout that is far too long", TransactionTimeoutMs=2_000_000_000),
    _begin("a long id", own=f"{LONG}.{{v}}"),
    _begin("another producer", "begun", 3, ProducerId=OTHER, ProducerEpoch=0),
    _begin("an epoch to come", "begun", 3, ProducerId=ID, ProducerEpoch=9),
    _begin("a new id with a producer", "", 3, ProducerId=OTHER, ProducerEpoch=5),
    _begin("a producer without an epoch", "begun", 3, ProducerId=ID, ProducerEpoch=-1),
)

# --- add --------------------------------------------------------------------------------------


def _add(
    name: str,
    topics: Mapping[str, Sequence[int]] | None = None,
    state: str = "begun",
    since: int = 0,
    **more: Any,
) -> Case:
    own = slug("add", name)
    asked = {READ.name: [0]} if topics is None else topics
    call = Call("AddPartitionsToTxn", adding(own, asked, **more), to=Transaction(own))
    return Case(name, call, before=before(own, state), topics=(READ,), since=since)


def _add_several(name: str, *states: str, since: int = 4) -> Case:
    """A request for several transactions, as brokers send it. Its first id has a coordinator anywhere."""
    own = slug("several", name)
    calls = [call for number, state in enumerate(states) for call in before(f"{own}.{number}", state)]
    bodies = [adding(f"{own}.{number}", {READ.name: [0]}) for number in range(len(states))]
    body = {**bodies[0], "Transactions": [each["Transactions"][0] for each in bodies]}
    return Case(
        name, Call("AddPartitionsToTxn", body, to=Transaction(f"{own}.0")), before=calls, topics=(READ,),
        since=since,
    )  # fmt: skip


_ADD: Final = (
    *(_add(f"a partition, {state}", state=state) for state in STATES),
    *(_add(f"only verified, {state}", state=state, since=4, VerifyOnly=True) for state in STATES),
    _add("two partitions", {READ.name: [0, 1]}),
    _add("another partition", {READ.name: [1]}, "added"),
    _add("a partition twice", {READ.name: [0, 0]}),
    _add("no topics", {}),
    _add("no partitions", {READ.name: []}),
    _add("an unknown topic", {UNKNOWN: [0]}),
    _add("an invalid name", {"a b": [0]}),
    _add("an unknown partition", {READ.name: [9]}),
    _add("a negative partition", {READ.name: [-1]}),
    _add("a partition and an unknown one", {READ.name: [0, 9]}),
    _add("a topic of the system", {"__consumer_offsets": [0]}),
    _add("the topic of transactions", {"__transaction_state": [0]}),
    _add("an unknown id", state=""),
    _add("another producer", ProducerId=OTHER),
    _add("an epoch to come", ProducerEpoch=9),
    _add("a negative epoch", ProducerEpoch=-1),
    _add("only verified, another partition", {READ.name: [1]}, "added", 4, VerifyOnly=True),
    _add_several("one transaction", "begun"),
    Case("no transactions", Call("AddPartitionsToTxn", {"Transactions": []}), since=4),
)

# --- end --------------------------------------------------------------------------------------


def _end(name: str, committed: bool, state: str = "written", **more: Any) -> Case:
    own = slug("end", name)
    call = Call("EndTxn", ending(own, committed=committed, **more), to=Transaction(own))
    return Case(name, call, before=before(own, state), topics=(READ,))


_END: Final = (
    *(_end(f"commit, {state}", True, state) for state in STATES),
    *(_end(f"abort, {state}", False, state) for state in STATES),
    *(
        _end(f"{'commit' if committed else 'abort'} with the next epoch, {state}", committed, state,
             ProducerEpoch=1)
        for state in ("committed by 5", "aborted by 5", "fenced", "timed out") for committed in (True, False)
    ),
    _end("an unknown id", True, ""),
    _end("another producer", True, ProducerId=OTHER),
    _end("an epoch to come", True, ProducerEpoch=9),
    _end("a negative epoch", True, ProducerEpoch=-1),
)  # fmt: skip

# --- what tools ask ---------------------------------------------------------------------------


def _described(name: str, state: str, *, times: int = 1) -> Case:
    own = slug("described", name)
    call = Call("DescribeTransactions", {"TransactionalIds": [own] * times}, to=Transaction(own))
    return Case(name, call, before=before(own, state), topics=(READ,))


_DESCRIBE: Final = (
    _described("an unknown id", ""),
    *(_described(state, state) for state in STATES),
    _described("an id twice", "begun", times=2),
    Case("no ids", Call("DescribeTransactions", {"TransactionalIds": []})),
    Case("an empty id", Call("DescribeTransactions", {"TransactionalIds": [""]}, to=Transaction(""))),
)


def _listed(name: str, state: str = "added", since: int = 0, **more: Any) -> Case:
    own = slug("listed", name)
    call = Call("ListTransactions", more, to=Transaction(own))
    return Case(name, call, before=before(own, state), topics=(READ,), since=since, only=own)


_LIST: Final = (
    *(_listed(state, state) for state in STATES),
    _listed("ongoing ones", StateFilters=["Ongoing"]),
    _listed("empty ones", StateFilters=["Empty"]),
    _listed("two states", StateFilters=["Empty", "Ongoing"]),
    _listed("an unknown state", StateFilters=["Nothing"]),
    _listed("a known state and an unknown one", StateFilters=["Ongoing", "Nothing"]),
    _listed("an unknown producer", ProducerIdFilters=[OTHER]),
    _listed("its producer", ProducerIdFilters=[ID]),
    _listed("for an hour", since=1, DurationFilter=3_600_000),
    _listed("for no time", since=1, DurationFilter=0),
    _listed("a pattern", since=2, TransactionalIdPattern="listed.*"),
    _listed("a pattern of another id", since=2, TransactionalIdPattern="other.*"),
    _listed("an empty pattern", since=2, TransactionalIdPattern=""),
    _listed("a wrong pattern", since=2, TransactionalIdPattern="["),
)

CASES: Final = (*_BEGIN, *_ADD, *_END, *_DESCRIBE, *_LIST)
