"""Groups' offsets that are committed in transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strandline_lab.conformance.case import Call, Case, Group, Topic, TopicId, Transaction
from strandline_lab.conformance.cases.transactions.steps import (
    EPOCH,
    ID,
    OTHER,
    SECOND,
    STATES,
    UNKNOWN,
    before,
    ended,
    shown,
    slug,
)

TOPIC: Final = Topic("transactions.grouped")
_ADDED: Final = 3
"""The version of AddOffsetsToTxn, and of the TxnOffsetCommit after it, of the first protocol."""
_BY_SECOND: Final = 5
"""The version of TxnOffsetCommit that adds the group to the transaction (KIP-890)."""


def _adding(name: str, group: str) -> dict[str, Any]:
    return {"TransactionalId": name, "ProducerId": ID, "ProducerEpoch": EPOCH, "GroupId": group}


def _add(name: str, state: str = "begun", group: str = "transactions.group", **more: Any) -> Case:
    own = slug("offsets", name)
    call = Call("AddOffsetsToTxn", {**_adding(own, group), **more}, to=Transaction(own))
    return Case(name, call, before=before(own, state, TOPIC.name), topics=(TOPIC,))


_ADD: Final = (
    *(_add(f"a group, {state}", state) for state in STATES),
    _add("an empty group id", group=""),
    _add("an unknown id", ""),
    _add("another producer", ProducerId=OTHER),
    _add("an epoch to come", ProducerEpoch=9),
)


def _committing(name: str, group: str, offset: int = 3) -> dict[str, Any]:
    partition = {"PartitionIndex": 0, "CommittedOffset": offset, "CommittedMetadata": "m"}
    topic = {"Name": TOPIC.name, "TopicId": TopicId(TOPIC.name), "Partitions": [partition]}
    return {
        "TransactionalId": name,
        "GroupId": group,
        "ProducerId": ID,
        "ProducerEpoch": EPOCH,
        "Topics": [topic],
    }


def _added(name: str, group: str) -> Call:
    return Call("AddOffsetsToTxn", _adding(name, group), version=_ADDED, to=Transaction(name))


def _commit(
    name: str,
    state: str = "begun",
    group: str | None = None,
    *,
    adds: bool = True,
    since: int = 0,
    **more: Any,
) -> Case:
    own = slug("txn-commit", name)
    to = own if group is None else group
    begin = [*before(own, state, TOPIC.name), *([_added(own, to)] if adds else [])]
    call = Call("TxnOffsetCommit", {**_committing(own, to), **more}, to=Group(to))
    return Case(name, call, before=begin, topics=(TOPIC,), since=since)


_COMMIT: Final = (
    *(_commit(f"a group, {state}", state) for state in STATES),
    *(
        _commit(f"a group that is not added, {state}", state, adds=False, since=_BY_SECOND)
        for state in STATES
    ),
    _commit("no topics", Topics=[]),
    _commit("an unknown id", "", adds=False),
    _commit("no group id", "", "", adds=False),
    _commit("another producer", ProducerId=OTHER),
    _commit("an epoch to come", ProducerEpoch=9),
    _commit("an unknown member", GenerationIdOrMemberEpoch=1, MemberId="unknown"),
    _commit("a member without a generation", MemberId="unknown"),
    _commit("a static member", GroupInstanceId="static", since=3),
    _commit("an unknown topic", Topics=[{"Name": UNKNOWN, "Partitions": [{"CommittedOffset": 1}]}]),
    _commit(
        "an unknown partition",
        Topics=[{"Name": TOPIC.name, "TopicId": TopicId(TOPIC.name),
                 "Partitions": [{"PartitionIndex": 9, "CommittedOffset": 1}]}],
    ),
    _commit("a negative offset", Topics=_committing("", "", -5)["Topics"]),
    _commit("an epoch of a leader", Topics=_committing("", "")["Topics"], since=2),
)  # fmt: skip

# --- looking at them --------------------------------------------------------------------------

_COMMITTED: Final = 8
"""The version of OffsetCommit of names."""


def _left(own: str, end: str) -> Sequence[Call]:
    """A commit of offset 3 in a transaction after one of 1 without; and what the transaction comes to."""
    topics = _committing(own, own, 1)["Topics"]
    plain = {"GroupId": own, "MemberId": "", "GenerationIdOrMemberEpoch": -1, "Topics": topics}
    committed = Call("TxnOffsetCommit", _committing(own, own), version=_ADDED, to=Group(own))
    calls = [
        Call("OffsetCommit", plain, version=_COMMITTED, to=Group(own)),
        *before(own, "begun", TOPIC.name),
        _added(own, own),
        committed,
    ]
    if end:
        state = "CompleteCommit" if end == "committed" else "CompleteAbort"
        calls += [ended(own, committed=end == "committed", version=SECOND), shown(own, state)]
    return calls


def _fetched(name: str, end: str, *, stable: bool) -> Case:
    own = slug("txn-fetch", name)
    topics = [{"Name": TOPIC.name, "TopicId": TopicId(TOPIC.name), "PartitionIndexes": [0]}]
    group = {"GroupId": own, "Topics": topics}
    body = {"Groups": [group], "RequireStable": stable, "GroupId": own, "Topics": topics}
    # What is not stable is the answer that is looked for, once the end is shown.
    call = Call("OffsetFetch", body, to=Group(own))
    return Case(
        f"transactions: {name}", call, before=_left(own, end), topics=(TOPIC,), since=7 if stable else 1
    )


_FETCHED: Final = tuple(
    _fetched(f"{'stable' if stable else 'any'} offsets, {end or 'open'}", end, stable=stable)
    for end in ("", "committed", "aborted")
    for stable in (True, False)
)


def _of_group(api: str, name: str, body: dict[str, Any], end: str) -> Case:
    own = slug(f"txn-{api}", name)
    filled = {**body, **({"GroupsNames": [own]} if api == "DeleteGroups" else {"GroupId": own})}
    return Case(
        f"transactions: {name}", Call(api, filled, to=Group(own)), before=_left(own, end), topics=(TOPIC,)
    )


_GROUPS: Final = (
    _of_group("DeleteGroups", "a group with open offsets", {}, ""),
    _of_group("DeleteGroups", "a group with committed offsets", {}, "committed"),
    _of_group(
        "OffsetDelete", "open offsets",
        {"Topics": [{"Name": TOPIC.name, "Partitions": [{"PartitionIndex": 0}]}]}, "",
    ),
    _of_group(
        "OffsetCommit", "a commit beside open offsets",
        {"MemberId": "", "GenerationIdOrMemberEpoch": -1, "Topics": _committing("", "", 7)["Topics"]}, "",
    ),
)  # fmt: skip

CASES: Final = (*_ADD, *_COMMIT, *_FETCHED, *_GROUPS)
