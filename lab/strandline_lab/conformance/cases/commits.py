"""Offsets that groups commit, fetch and delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strandline_lab.conformance.case import Call, Case, Group, Topic, TopicId
from strandline_lab.conformance.cases.cluster import NO_TOPIC
from strandline_lab.conformance.cases.fetch import TO_COME
from strandline_lab.conformance.cases.groups import consumer
from strandline_lab.conformance.cases.members import GENERATION, MEMBER, joined, left, stable

READ: Final = Topic("commits.read", 3)
OTHER: Final = Topic("commits.other")
UNKNOWN: Final = "commits.unknown"
METADATA_BYTES: Final = 4_096
"""Kafka's offset.metadata.max.bytes."""


def _slug(name: str) -> str:
    return f"commits.{name.replace(' ', '-').replace(',', '')}.{{v}}"


_BY_MEMBER: Final[dict[str, Any]] = {"GenerationIdOrMemberEpoch": GENERATION, "MemberId": MEMBER}


def _before(group: str, state: str) -> Sequence[Call]:
    states: dict[str, Sequence[Call]] = {
        "": [],
        "joined": joined(group),
        "stable": stable(group),
        "static": stable(group, "one"),
        "empty": [*stable(group), left(group)],
        "committed": [_committed(group)],
        "member and commit": [*stable(group), _committed(group, **_BY_MEMBER)],
        "consumer": [consumer(group)],
    }
    return states[state]


# --- commit -----------------------------------------------------------------------------------


def _topic(name: str, *partitions: tuple[int, int], **more: Any) -> dict[str, Any]:
    """`partitions` are indexes with offsets."""
    each = [
        {"PartitionIndex": index, "CommittedOffset": offset, "CommittedMetadata": "", **more}
        for index, offset in partitions
    ]
    return {"Name": name, "TopicId": TopicId(name), "Partitions": each}


def _committed(group: str, *topics: dict[str, Any], **more: Any) -> Call:
    these = list(topics) or [_topic(READ.name, (0, 7), CommittedMetadata="note"), _topic(READ.name, (1, 0))]
    body = {"GroupId": group, "Topics": these, "GenerationIdOrMemberEpoch": -1, **more}
    return Call("OffsetCommit", body, version=7, to=Group(group))


def _commit(
    name: str, *topics: dict[str, Any], state: str = "", since: int = 0, group: str | None = None, **more: Any
) -> Case:
    own = _slug(name) if group is None else group
    body = {
        "GroupId": own,
        "Topics": list(topics) or [_topic(READ.name, (0, 5))],
        "GenerationIdOrMemberEpoch": -1,
        "MemberId": "",
        **more,
    }
    call = Call("OffsetCommit", body, to=Group(own))
    return Case(name, call, before=_before(own, state), topics=(READ, OTHER), since=since)


def _member(name: str, state: str = "stable", since: int = 0, **more: Any) -> Case:
    """A commit of the member that the group has."""
    fields = {**_BY_MEMBER, **more}
    return _commit(name, state=state, since=since, **fields)


_COMMIT: Final = (
    _commit("without a group"),
    _commit("an empty group", state="empty"),
    _commit("a group with a member", state="stable"),
    _commit("a group before its assignment", state="joined"),
    _commit("a member id without a group", MemberId="x"),
    _commit("a member id in an empty group", state="empty", MemberId="x"),
    _commit("a generation without a group", GenerationIdOrMemberEpoch=3, MemberId="x"),
    _commit("a generation in an empty group", state="empty", GenerationIdOrMemberEpoch=1, MemberId="x"),
    _commit("an instance without a group", since=7, GroupInstanceId="one"),
    _commit("an instance in an empty group", state="empty", since=7, GroupInstanceId="one"),
    _commit("no group id", group=""),
    _commit("three partitions", _topic(READ.name, (0, 1), (1, 2), (2, 3))),
    _commit("two topics", _topic(READ.name, (0, 1)), _topic(OTHER.name, (0, 2))),
    _commit("a partition twice", _topic(READ.name, (0, 1), (0, 2))),
    _commit("a topic twice", _topic(READ.name, (0, 1)), _topic(READ.name, (1, 2))),
    _commit("no topics", Topics=[]),
    _commit("no partitions", _topic(READ.name)),
    _commit("an unknown topic", _topic(UNKNOWN, (0, 1)) | {"TopicId": NO_TOPIC}),
    _commit("an id of zero", _topic(UNKNOWN, (0, 1)), since=10),
    _commit("a topic and an unknown one", _topic(READ.name, (0, 1)), _topic(UNKNOWN, (0, 1))),
    _commit("an empty name", _topic("", (0, 1))),
    _commit("an invalid name", _topic("a b", (0, 1))),
    _commit("an unknown partition", _topic(READ.name, (9, 1))),
    _commit("a negative partition", _topic(READ.name, (-1, 1))),
    _commit("an offset of -1", _topic(READ.name, (0, -1))),
    _commit("an offset of -5", _topic(READ.name, (0, -5))),
    _commit("the last offset of all", _topic(READ.name, (0, 2**63 - 1))),
    _commit("null metadata", _topic(READ.name, (0, 1), CommittedMetadata=None)),
    _commit("much metadata", _topic(READ.name, (0, 1), CommittedMetadata="m" * METADATA_BYTES)),
    _commit("too much metadata", _topic(READ.name, (0, 1), CommittedMetadata="m" * (METADATA_BYTES + 1))),
    _commit("a leader's epoch", _topic(READ.name, (0, 1), CommittedLeaderEpoch=0), since=6),
    _commit("a leader's epoch to come", _topic(READ.name, (0, 1), CommittedLeaderEpoch=TO_COME), since=6),
    _commit("a retention", since=2, RetentionTimeMs=1_000),
    _member("the member"),
    _member("the member before its assignment", "joined"),
    _member("a generation to come", GenerationIdOrMemberEpoch=9),
    _member("an older generation", GenerationIdOrMemberEpoch=0),
    _member("an unknown member", MemberId="unknown"),
    _member("no member id", MemberId=""),
    _member("a static member", "static", since=7, GroupInstanceId="one"),
    _member("a static member with another's id", "static", 7, GroupInstanceId="one", MemberId="other"),
    _member("an unknown instance", "static", 7, GroupInstanceId="two"),
    _member("the member of a consumer group", "consumer", 9, GenerationIdOrMemberEpoch=1),
    _member("an epoch to come of a consumer group", "consumer", 9, GenerationIdOrMemberEpoch=9),
    _member("an unknown member of a consumer group", "consumer", 9, MemberId="unknown"),
    _commit("without a member, in a consumer group", state="consumer"),
)

# --- fetch ------------------------------------------------------------------------------------


def _asked(name: str, *indexes: int) -> dict[str, Any]:
    return {"Name": name, "TopicId": TopicId(name), "PartitionIndexes": list(indexes)}


def _fetch(
    name: str,
    topics: list[dict[str, Any]] | None,
    state: str = "committed",
    since: int = 0,
    times: int = 1,
    stable: bool = False,
    **more: Any,
) -> Case:
    """`times`: how often the group is in the request. `more` are fields of the group, from 9 on."""
    own = _slug(f"fetch {name}")
    group = {"GroupId": own, "Topics": topics, **more}
    body = {"GroupId": own, "Topics": topics, "Groups": [group] * times, "RequireStable": stable}
    call = Call("OffsetFetch", body, to=Group(own))
    first = max(since, 2) if topics is None else since
    return Case(name, call, before=_before(own, state), topics=(READ, OTHER), since=first)


_FETCH: Final = (
    _fetch("one partition", [_asked(READ.name, 0)]),
    _fetch("three partitions", [_asked(READ.name, 0, 1, 2)]),
    _fetch("all topics", None),
    _fetch("all topics, with a member", None, "member and commit"),
    _fetch("all topics of an unknown group", None, ""),
    _fetch("all topics of a group without commits", None, "stable"),
    _fetch("no topics", []),
    _fetch("no partitions", [_asked(READ.name)]),
    _fetch("an unknown group", [_asked(READ.name, 0)], ""),
    _fetch("an unknown topic", [_asked(UNKNOWN, 0) | {"TopicId": NO_TOPIC}]),
    _fetch("an id of zero", [_asked(UNKNOWN, 0)], since=10),
    _fetch("an empty name", [_asked("", 0)]),
    _fetch("an invalid name", [_asked("a b", 0)]),
    _fetch("an unknown partition", [_asked(READ.name, 9)]),
    _fetch("a negative partition", [_asked(READ.name, -1)]),
    _fetch("a topic without commits", [_asked(OTHER.name, 0)]),
    _fetch("two topics", [_asked(READ.name, 0), _asked(OTHER.name, 0)]),
    _fetch("a partition twice", [_asked(READ.name, 0, 0)]),
    _fetch("a topic twice", [_asked(READ.name, 0), _asked(READ.name, 1)]),
    _fetch("only stable offsets", [_asked(READ.name, 0)], since=7, stable=True),
    _fetch("a group twice", [_asked(READ.name, 0)], since=8, times=2),
    _fetch("no groups", [], since=8, times=0),
    _fetch("a member", [_asked(READ.name, 0)], "consumer", 9, MemberId=MEMBER, MemberEpoch=1),
    _fetch("an epoch to come", [_asked(READ.name, 0)], "consumer", 9, MemberId=MEMBER, MemberEpoch=9),
    _fetch("an unknown member", [_asked(READ.name, 0)], "consumer", 9, MemberId="unknown", MemberEpoch=1),
    _fetch(
        "an epoch of a classic group", [_asked(READ.name, 0)], "stable", 9, MemberId=MEMBER, MemberEpoch=1
    ),
)

# --- delete -----------------------------------------------------------------------------------


def _delete(
    name: str, *topics: tuple[str, Sequence[int]], state: str = "committed", group: str | None = None
) -> Case:
    own = _slug(f"delete {name}") if group is None else group
    asked = [
        {"Name": topic, "Partitions": [{"PartitionIndex": each} for each in indexes]}
        for topic, indexes in topics
    ]
    call = Call("OffsetDelete", {"GroupId": own, "Topics": asked}, to=Group(own))
    return Case(name, call, before=_before(own, state), topics=(READ, OTHER))


_DELETE: Final = (
    _delete("one partition", (READ.name, [0])),
    _delete("two partitions", (READ.name, [0, 1])),
    _delete("a partition without a commit", (READ.name, [2])),
    _delete("an unknown topic", (UNKNOWN, [0])),
    _delete("an unknown partition", (READ.name, [9])),
    _delete("an invalid name", ("a b", [0])),
    _delete("a partition twice", (READ.name, [0, 0])),
    _delete("no topics"),
    _delete("no partitions", (READ.name, [])),
    _delete("an unknown group", (READ.name, [0]), state=""),
    _delete("no group id", (READ.name, [0]), state="", group=""),
    _delete("a group with a member", (READ.name, [0]), state="member and commit"),
    _delete("an empty group", (READ.name, [0]), state="empty"),
)

# --- the group without a name -----------------------------------------------------------------

_NAMELESS: Final = (
    Case("a group without a name", Call("DescribeGroups", {"Groups": [""]}, to=Group(""))),
    Case("a group without a name", Call("DeleteGroups", {"GroupsNames": [""]}, to=Group(""))),
)
"""Before the commit without a group's id: Kafka keeps that one's offset."""

CASES: Final = (*_NAMELESS, *_COMMIT, *_FETCH, *_DELETE)
