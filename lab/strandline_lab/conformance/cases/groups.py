"""Groups as tools see them, and groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strandline_lab.conformance.case import Call, Case, Group, Taken, Topic, TopicId
from strandline_lab.conformance.cases.members import joined, left, stable

LISTED: Final = "groups.listed"


def _listed(name: str, since: int = 0, **more: Any) -> Case:
    group = f"{LISTED}.{name.replace(' ', '-')}.{{v}}"
    call = Call("ListGroups", more, to=Group(group))
    return Case(name, call, before=stable(group), since=since, only=group)


_LIST: Final = (
    _listed("all groups"),
    _listed("stable groups", since=4, StatesFilter=["Stable"]),
    _listed("stable groups in small letters", since=4, StatesFilter=["stable"]),
    _listed("empty groups", since=4, StatesFilter=["Empty"]),
    _listed("an unknown state", since=4, StatesFilter=["Nothing"]),
    _listed("a state without a name", since=4, StatesFilter=[""]),
    _listed("classic groups", since=5, TypesFilter=["classic"]),
    _listed("classic groups in capitals", since=5, TypesFilter=["CLASSIC"]),
    _listed("consumer groups", since=5, TypesFilter=["consumer"]),
    _listed("an unknown type", since=5, TypesFilter=["nothing"]),
)


def _described(name: str, *groups: str, state: str = "", since: int = 0, **more: Any) -> Case:
    own = f"groups.described.{name.replace(' ', '-')}.{{v}}"
    first = {"": [], "joined": joined(own), "stable": stable(own), "empty": [*stable(own), left(own)]}
    first["static"] = stable(own, "one")
    asked = list(groups) or [own]
    call = Call("DescribeGroups", {"Groups": asked, **more}, to=Group(asked[0]))
    return Case(name, call, before=first[state], since=since)


_DESCRIBE: Final = (
    _described("a stable group", state="stable"),
    _described("a group before its assignment", state="joined"),
    _described("an empty group", state="empty"),
    _described("a static member", state="static"),
    _described("an unknown group"),
    _described("rights", state="stable", since=3, IncludeAuthorizedOperations=True),
    _described("rights on an unknown group", since=3, IncludeAuthorizedOperations=True),
    Case("no groups", Call("DescribeGroups", {"Groups": []})),
    _described(
        "a group twice",
        "groups.described.a-group-twice.{v}",
        "groups.described.a-group-twice.{v}",
        state="stable",
    ),
)


def _deleted(name: str, state: str = "", times: int = 1) -> Case:
    own = f"groups.deleted.{name.replace(' ', '-')}.{{v}}"
    before = {"": [], "stable": stable(own), "empty": [*stable(own), left(own)]}[state]
    call = Call("DeleteGroups", {"GroupsNames": [own] * times}, to=Group(own))
    return Case(name, call, before=before)


_DELETE: Final = (
    _deleted("an empty group", "empty"),
    _deleted("a group with a member", "stable"),
    _deleted("an unknown group"),
    _deleted("an empty group twice", "empty", 2),
    _deleted("an unknown group twice", "", 2),
    Case("no groups", Call("DeleteGroups", {"GroupsNames": []})),
)

# --- the consumer protocol --------------------------------------------------------------------

READ: Final = Topic("groups.read", 2)
MEMBER: Final = Taken("member", "")
EPOCH: Final = Taken("epoch", 0)


def _beating(group: str, **more: Any) -> dict[str, Any]:
    return {
        "GroupId": group,
        "MemberId": "AAAAAAAAAAAAAAAAAAAAAA",
        "MemberEpoch": 0,
        "RebalanceTimeoutMs": 60_000,
        "SubscribedTopicNames": [READ.name],
        "TopicPartitions": [],
        **more,
    }


def consumer(group: str, **more: Any) -> Call:
    """Makes a group of one member of the consumer protocol."""
    take = {"member": "MemberId", "epoch": "MemberEpoch"}
    body = _beating(group, **more)
    return Call("ConsumerGroupHeartbeat", body, version=1, to=Group(group), take=take)


def _beat(name: str, state: str = "", since: int = 0, group: str | None = None, **more: Any) -> Case:
    own = f"groups.beat.{name.replace(' ', '-')}.{{v}}" if group is None else group
    before: Sequence[Call] = {
        "": [],
        "joined": [consumer(own)],
        "static": [consumer(own, InstanceId="one")],
        "classic": stable(own),
    }[state]
    call = Call("ConsumerGroupHeartbeat", _beating(own, **more), to=Group(own))
    return Case(name, call, before=before, topics=(READ,), since=since)


def _again(name: str, epoch: Any = EPOCH, state: str = "joined", **more: Any) -> Case:
    """A heartbeat of a member that has joined; null says that nothing changed."""
    nothing = {"RebalanceTimeoutMs": -1, "SubscribedTopicNames": None, "TopicPartitions": None}
    return _beat(name, state, MemberId=MEMBER, MemberEpoch=epoch, **(nothing | more))


_OWNED: Final = [{"TopicId": TopicId(READ.name), "Partitions": [0, 1]}]

_CONSUMERS: Final = (
    _beat("a first member"),
    _beat("no member id", MemberId=""),
    _beat("no group id", group=""),
    _beat("no topics", SubscribedTopicNames=[]),
    _beat("null topics", SubscribedTopicNames=None),
    _beat("an unknown topic", SubscribedTopicNames=["groups.unknown"]),
    _beat("an invalid topic", SubscribedTopicNames=["a b"]),
    _beat("no timeout", RebalanceTimeoutMs=-1),
    _beat("no words", RebalanceTimeoutMs=-1, SubscribedTopicNames=None, TopicPartitions=None),
    _beat("owned partitions at once", TopicPartitions=_OWNED),
    _beat("an unknown assignor", ServerAssignor="nothing"),
    _beat("the assignor range", ServerAssignor="range"),
    _beat("an empty assignor", ServerAssignor=""),
    _beat("an empty instance", InstanceId=""),
    _beat("an empty rack", RackId=""),
    _beat("an instance", InstanceId="one"),
    _beat("an instance that is there", "static", InstanceId="one", MemberId="BBBBBBBBBBBBBBBBBBBBBB"),
    _beat("a pattern", since=1, SubscribedTopicNames=None, SubscribedTopicRegex="groups\\.re.*"),
    _beat("a wrong pattern", since=1, SubscribedTopicNames=None, SubscribedTopicRegex="["),
    _beat("an unknown member", MemberEpoch=3),
    _beat("an unknown member of a group", "joined", MemberId="unknown", MemberEpoch=1),
    _beat("an unknown member leaves", "joined", MemberId="unknown", MemberEpoch=-1),
    _beat("an epoch of -3", "joined", MemberEpoch=-3),
    _beat("a classic group", "classic"),
    _again("nothing new"),
    _again("all that it has", TopicPartitions=_OWNED),
    _again("an epoch to come", 99),
    _again("leaves", -1),
    _again("leaves for a while without an instance", -2),
    _again("leaves for a while", -2, "static", InstanceId="one"),
    _again("other topics", SubscribedTopicNames=["groups.unknown"]),
    _again("joins again", 0, SubscribedTopicNames=[READ.name], RebalanceTimeoutMs=60_000, TopicPartitions=[]),
)


def _consumers(name: str, *groups: str, state: str = "", **more: Any) -> Case:
    own = f"groups.consumers.{name.replace(' ', '-')}.{{v}}"
    before: Sequence[Call] = {"": [], "joined": [consumer(own)], "classic": stable(own)}[state]
    call = Call("ConsumerGroupDescribe", {"GroupIds": list(groups) or [own], **more}, to=Group(own))
    return Case(name, call, before=before, topics=(READ,))


_DESCRIBE_CONSUMERS: Final = (
    _consumers("a group", state="joined"),
    _consumers("rights", state="joined", IncludeAuthorizedOperations=True),
    _consumers("an unknown group"),
    _consumers("a classic group", state="classic"),
    _consumers("no name", ""),
    Case("no groups", Call("ConsumerGroupDescribe", {"GroupIds": []})),
    Case(
        "a group of consumers",
        Call("DescribeGroups", {"Groups": ["groups.848.{v}"]}, to=Group("groups.848.{v}")),
        before=[consumer("groups.848.{v}")],
        topics=(READ,),
        since=6,
    ),
)

CASES: Final = (*_LIST, *_DESCRIBE, *_DELETE, *_CONSUMERS, *_DESCRIBE_CONSUMERS)
