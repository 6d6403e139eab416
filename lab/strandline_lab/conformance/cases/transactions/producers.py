"""Transactional producers, from their first request to their last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from strandline_lab.conformance.batches import TRANSACTIONAL, Batch
from strandline_lab.conformance.case import Call, Case, Group, Taken, Topic, TopicId, Transaction
from strandline_lab.conformance.cases.produce import PRODUCER, produced

READ: Final = Topic("transactions.read", 2)
UNKNOWN: Final = "transactions.unknown"
ID: Final = Taken(PRODUCER)
EPOCH: Final = Taken("producer epoch")
_TAKEN: Final = {PRODUCER: "ProducerId", "producer epoch": "ProducerEpoch"}
_MS: Final = 60_000
NEEDED: Final = 13
"""Transactions come with versions of Fetch that have topic ids."""


def _slug(api: str, name: str) -> str:
    return f"{api}.{name.replace(' ', '-').replace(',', '')}.{{v}}"


def _adding(name: str, topics: Mapping[str, Sequence[int]], **more: Any) -> dict[str, Any]:
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


def _ending(name: str, *, committed: bool, **more: Any) -> dict[str, Any]:
    return {
        "TransactionalId": name,
        "ProducerId": ID,
        "ProducerEpoch": EPOCH,
        "Committed": committed,
        **more,
    }


def _begun(name: str) -> Call:
    body = {"TransactionalId": name, "TransactionTimeoutMs": _MS}
    return Call("InitProducerId", body, version=4, to=Transaction(name), take=_TAKEN)


def _added(name: str, topic: str = READ.name) -> Call:
    body = _adding(name, {topic: [0]})
    return Call("AddPartitionsToTxn", body, version=3, to=Transaction(name))


def _written(name: str, sequence: int = 0) -> Call:
    batch = Batch(producer=PRODUCER, epoch=0, sequence=sequence, attributes=TRANSACTIONAL)
    return Call("Produce", produced(READ.name, (0, batch), TransactionalId=name), version=9)


def _ended(name: str, committed: bool) -> Call:
    return Call("EndTxn", _ending(name, committed=committed), version=3, to=Transaction(name))


def _before(name: str, state: str) -> Sequence[Call]:
    begun, added = [_begun(name)], [_begun(name), _added(name)]
    states: Mapping[str, Sequence[Call]] = {
        "": [],
        "begun": begun,
        "added": added,
        "written": [*added, _written(name)],
        "committed": [*added, _written(name), _ended(name, True)],
        "aborted": [*added, _written(name), _ended(name, False)],
        "begun twice": [*begun, replace(_begun(name), take={})],
    }
    return states[state]


# --- begin ------------------------------------------------------------------------------------


def _begin(name: str, state: str = "", since: int = 0, **more: Any) -> Case:
    own = _slug("init", name)
    body = {"TransactionalId": own, "TransactionTimeoutMs": _MS, **more}
    call = Call("InitProducerId", body, to=Transaction(own))
    return Case(f"transactions: {name}", call, before=_before(own, state), topics=(READ,), since=since)


_BEGIN: Final = (
    _begin("a new id"),
    _begin("an id again", "begun"),
    _begin("an id with an open transaction", "written"),
    _begin("an id after a commit", "committed"),
    _begin("a timeout of 0", TransactionTimeoutMs=0),
    _begin("a timeout that is too long", TransactionTimeoutMs=2_000_000_000),
    _begin("with its producer", "begun", 3, ProducerId=ID, ProducerEpoch=EPOCH),
    _begin("with an old epoch", "begun twice", 3, ProducerId=ID, ProducerEpoch=EPOCH),
    _begin("with another producer", "begun", 3, ProducerId=99, ProducerEpoch=0),
    _begin("with an epoch to come", "begun", 3, ProducerId=ID, ProducerEpoch=9),
)

# --- add --------------------------------------------------------------------------------------


def _add(
    name: str,
    topics: Mapping[str, Sequence[int]] | None = None,
    state: str = "begun",
    since: int = 0,
    **more: Any,
) -> Case:
    own = _slug("add", name)
    asked = {READ.name: [0]} if topics is None else topics
    call = Call("AddPartitionsToTxn", _adding(own, asked, **more), to=Transaction(own))
    return Case(name, call, before=_before(own, state), topics=(READ,), since=since)


_ADD: Final = (
    _add("one partition"),
    _add("two partitions", {READ.name: [0, 1]}),
    _add("a partition again", state="added"),
    _add("after a commit", state="committed"),
    _add("no topics", {}),
    _add("no partitions", {READ.name: []}),
    _add("an unknown topic", {UNKNOWN: [0]}),
    _add("an unknown partition", {READ.name: [9]}),
    _add("a partition and an unknown one", {READ.name: [0, 9]}),
    _add("a topic of the system", {"__consumer_offsets": [0]}),
    _add("an unknown id", state=""),
    _add("another producer", ProducerId=99),
    _add("an epoch to come", ProducerEpoch=9),
    _add("an old epoch", state="begun twice"),
    _add("only verified", state="added", since=4, VerifyOnly=True),
    _add("only verified, not added", since=4, VerifyOnly=True),
)

# --- end --------------------------------------------------------------------------------------


def _end(name: str, committed: bool, state: str = "written", **more: Any) -> Case:
    own = _slug("end", name)
    call = Call("EndTxn", _ending(own, committed=committed, **more), to=Transaction(own))
    return Case(name, call, before=_before(own, state), topics=(READ,))


_END: Final = (
    _end("commit", True),
    _end("abort", False),
    _end("commit of nothing", True, "begun"),
    _end("abort of nothing", False, "begun"),
    _end("commit again", True, "committed"),
    _end("abort again", False, "aborted"),
    _end("abort after a commit", False, "committed"),
    _end("commit after an abort", True, "aborted"),
    _end("an unknown id", True, ""),
    _end("another producer", True, ProducerId=99),
    _end("an epoch to come", True, ProducerEpoch=9),
    _end("an old epoch", True, "begun twice"),
)

# --- offsets ----------------------------------------------------------------------------------


def _adding_offsets(name: str, group: str) -> dict[str, Any]:
    return {"TransactionalId": name, "ProducerId": ID, "ProducerEpoch": EPOCH, "GroupId": group}


def _add_offsets(name: str, state: str = "begun", group: str = "transactions.group", **more: Any) -> Case:
    own = _slug("offsets", name)
    body = {**_adding_offsets(own, group), **more}
    call = Call("AddOffsetsToTxn", body, to=Transaction(own))
    return Case(name, call, before=_before(own, state), topics=(READ,))


_ADD_OFFSETS: Final = (
    _add_offsets("a group"),
    _add_offsets("an empty group id", group=""),
    _add_offsets("an unknown id", ""),
    _add_offsets("another producer", ProducerId=99),
    _add_offsets("an epoch to come", ProducerEpoch=9),
    _add_offsets("an old epoch", "begun twice"),
)


def _commit(name: str, state: str = "begun", group: str | None = None, **more: Any) -> Case:
    own = _slug("txn-commit", name)
    to = own if group is None else group
    partition = {"PartitionIndex": 0, "CommittedOffset": 3, "CommittedMetadata": ""}
    topic = {"Name": READ.name, "TopicId": TopicId(READ.name), "Partitions": [partition]}
    body = {
        "TransactionalId": own,
        "GroupId": to,
        "ProducerId": ID,
        "ProducerEpoch": EPOCH,
        "Topics": [topic],
        **more,
    }
    added = Call("AddOffsetsToTxn", _adding_offsets(own, to), version=3, to=Transaction(own))
    before = [*_before(own, state), *([added] if state else [])]
    call = Call("TxnOffsetCommit", body, to=Group(to))
    return Case(name, call, before=before, topics=(READ,))


_COMMIT: Final = (
    _commit("a group"),
    _commit("no topics", Topics=[]),
    _commit("an unknown id", ""),
    _commit("no group id", "", ""),
    _commit("another producer", ProducerId=99),
    _commit("an epoch to come", ProducerEpoch=9),
    _commit("an old epoch", "begun twice"),
    _commit("an unknown member", GenerationIdOrMemberEpoch=1, MemberId="unknown"),
    _commit("an unknown topic", Topics=[{"Name": UNKNOWN, "Partitions": [{"CommittedOffset": 1}]}]),
)

# --- what tools ask ---------------------------------------------------------------------------


def _described(name: str, state: str, *, twice: bool = False) -> Case:
    own = _slug("described", name)
    call = Call("DescribeTransactions", {"TransactionalIds": [own] * (1 + twice)}, to=Transaction(own))
    return Case(name, call, before=_before(own, state), topics=(READ,))


_DESCRIBE: Final = (
    _described("an unknown id", ""),
    _described("begun", "begun"),
    _described("an open transaction", "written"),
    _described("committed", "committed"),
    _described("an id twice", "begun", twice=True),
    Case("no ids", Call("DescribeTransactions", {"TransactionalIds": []})),
    Case("an empty id", Call("DescribeTransactions", {"TransactionalIds": [""]}, to=Transaction(""))),
)


def _listed(name: str, since: int = 0, **more: Any) -> Case:
    own = _slug("listed", name)
    call = Call("ListTransactions", more, to=Transaction(own))
    return Case(name, call, before=_before(own, "added"), topics=(READ,), since=since, only=own)


_LIST: Final = (
    _listed("all transactions"),
    _listed("ongoing ones", StateFilters=["Ongoing"]),
    _listed("an unknown state", StateFilters=["Nothing"]),
    _listed("an unknown producer", ProducerIdFilters=[987_654_321]),
    _listed("for an hour", since=1, DurationFilter=3_600_000),
    _listed("a pattern", since=2, TransactionalIdPattern="listed.*"),
    _listed("a wrong pattern", since=2, TransactionalIdPattern="["),
)


def _read(name: str, state: str, isolation: int) -> Case:
    """Reads a partition of its own that a transaction wrote to."""
    own = _slug("read", name)
    topic = Topic(f"transactions.{own}")
    batch = Batch(producer=PRODUCER, epoch=0, sequence=0, attributes=TRANSACTIONAL)
    write = Call("Produce", produced(topic.name, (0, batch), TransactionalId=own), version=9)
    # The marker stands after the one record.
    marked = Call("Fetch", _reading(topic.name, 1, 0), version=12, until="Responses.0.Partitions.0.Records")
    end = [] if state == "open" else [_ended(own, state == "committed"), marked]
    call = Call("Fetch", _reading(topic.name, 0, isolation), settled=False)
    before = [_begun(own), _added(own, topic.name), write, *end]
    return Case(name, call, before=before, topics=(topic,), since=NEEDED)


def _reading(topic: str, offset: int, isolation: int) -> dict[str, Any]:
    asked = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
    return {
        "MaxWaitMs": 100,
        "MinBytes": 1,
        "MaxBytes": 1 << 20,
        "IsolationLevel": isolation,
        "Topics": [{"Topic": topic, "TopicId": TopicId(topic), "Partitions": [asked]}],
    }


_READ: Final = (
    _read("an open transaction", "open", 0),
    _read("an open transaction, committed only", "open", 1),
    _read("a commit", "committed", 0),
    _read("a commit, committed only", "committed", 1),
    _read("an abort", "aborted", 0),
    _read("an abort, committed only", "aborted", 1),
)

CASES: Final = (*_BEGIN, *_ADD, *_END, *_ADD_OFFSETS, *_COMMIT, *_DESCRIBE, *_LIST, *_READ)
