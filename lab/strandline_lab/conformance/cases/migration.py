"""Groups that change their protocol while they have members (KIP-848, online migration)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strandline_lab.conformance.case import Call, Case, Group, Taken, Topic
from strandline_lab.conformance.cases.members import joining, seen

READ: Final = Topic("migration.read", 2)
_NAMED: Final = b"\0\0\0\1\0\x0emigration.read"
EAGER: Final = b"\0\0" + _NAMED + b"\xff\xff\xff\xff"
"""A consumer's subscription in version 0, to the topic; no user data."""
COOPERATIVE: Final = (
    b"\0\3" + _NAMED + b"\xff\xff\xff\xff" + _NAMED + b"\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff"
)
"""In version 3: the member has both partitions."""
ASSIGNMENT: Final = b"\0\0" + _NAMED + b"\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"
"""Both partitions of the topic."""
PROTOCOLS: Final = [{"Name": "range", "Metadata": EAGER}]
MEMBER: Final = Taken("member", "")
GENERATION: Final = Taken("generation", 0)
CONSUMER: Final = "CCCCCCCCCCCCCCCCCCCCCC"
EPOCH: Final = Taken("epoch", 0)


def _heartbeat(group: str, epoch: Any = 0, **more: Any) -> dict[str, Any]:
    said = {"RebalanceTimeoutMs": 60_000, "SubscribedTopicNames": [READ.name], "TopicPartitions": []}
    nothing = {"RebalanceTimeoutMs": -1, "SubscribedTopicNames": None, "TopicPartitions": None}
    fields = said if epoch == 0 else nothing
    return {"GroupId": group, "MemberId": CONSUMER, "MemberEpoch": epoch, **fields, **more}


def _classic(group: str, instance: str | None = None, **more: Any) -> list[Call]:
    """A group of one member, which leads it and has both partitions."""
    body = joining(group, GroupInstanceId=instance, **{"Protocols": PROTOCOLS, **more})
    take = {"member": "MemberId", "generation": "GenerationId"}
    join = Call("JoinGroup", body, version=3 if instance is None else 5, to=Group(group), take=take)
    fields = {
        "GroupId": group, "GenerationId": GENERATION, "MemberId": MEMBER,
        "Assignments": [{"MemberId": MEMBER, "Assignment": ASSIGNMENT}],
    }  # fmt: skip
    return [join, seen(group), Call("SyncGroup", fields, version=2, to=Group(group))]


def _up(group: str, instance: str | None = None, **more: Any) -> Call:
    body = _heartbeat(group, InstanceId=instance, **more)
    return Call("ConsumerGroupHeartbeat", body, version=1, to=Group(group), take={"epoch": "MemberEpoch"})


def _again(group: str, metadata: bytes = EAGER, **more: Any) -> Call:
    """The classic member joins again, which is its step."""
    body = joining(group, MEMBER, Protocols=[{"Name": "range", "Metadata": metadata}], **more)
    return Call("JoinGroup", body, version=5, to=Group(group), take={"generation": "GenerationId"})


def _synced(group: str) -> Call:
    fields = {"GroupId": group, "GenerationId": GENERATION, "MemberId": MEMBER, "Assignments": []}
    return Call("SyncGroup", fields, version=2, to=Group(group))


def _down(group: str) -> Call:
    """The member of the consumer protocol leaves."""
    return Call("ConsumerGroupHeartbeat", _heartbeat(group, -1), version=1, to=Group(group))


def _before(state: str, group: str) -> Sequence[Call]:
    up = [*_classic(group), _up(group)]
    rejoined = [*up, _again(group), _synced(group)]
    return {
        "": [],
        "classic": _classic(group),
        "of others": _classic(group, ProtocolType="connect"),
        "unreadable": _classic(group, Protocols=[{"Name": "range", "Metadata": b"?"}]),
        "static": _classic(group, "one"),
        "consumer": [_up(group)],
        "static consumer": [_up(group, "one")],
        "up": up,
        "rejoined": rejoined,
        "cooperative": [*up, _again(group, COOPERATIVE)],
        "down": [*rejoined, _down(group)],
        "down at once": [*up, _down(group)],
    }[state]


def _case(api: str, name: str, state: str, since: int = 0, until: int = 99, **fields: Any) -> Case:
    own = f"migration.{api}.{name.replace(' ', '-').replace(',', '')}.{{v}}"
    body = {key: own if value is ... else value for key, value in fields.items()}
    if api in ("DescribeGroups", "ConsumerGroupDescribe"):
        body = {key: [own] for key in body}
    call = Call(api, body, to=Group(own))
    return Case(name, call, before=_before(state, own), topics=(READ,), since=since, until=until)


def _beat(name: str, state: str, epoch: Any = 0, **more: Any) -> Case:
    fields = _heartbeat("", epoch, **more) | {"GroupId": ...}
    return _case("ConsumerGroupHeartbeat", name, state, **fields)


def _join(name: str, state: str, member: Any = "", since: int = 0, until: int = 99, **more: Any) -> Case:
    fields = joining("", member, **{"Protocols": PROTOCOLS, **more}) | {"GroupId": ...}
    return _case("JoinGroup", name, state, since, until, **fields)


def _sync(name: str, state: str, generation: Any = GENERATION, **more: Any) -> Case:
    fields = {"MemberId": MEMBER, "GenerationId": generation, "Assignments": []}
    named = {"ProtocolType": "consumer", "ProtocolName": "range"}
    return _case("SyncGroup", name, state, GroupId=..., **{**fields, **named, **more})


def _alive(name: str, state: str, generation: Any = GENERATION, member: Any = MEMBER) -> Case:
    return _case("Heartbeat", name, state, GroupId=..., GenerationId=generation, MemberId=member)


def _leave(name: str, state: str, member: Any = MEMBER, instance: str | None = None) -> Case:
    members = [{"MemberId": member, "GroupInstanceId": instance, "Reason": None}]
    return _case("LeaveGroup", name, state, GroupId=..., MemberId=member, Members=members)


CASES: Final = (
    _beat("a consumer joins a classic group", "classic"),
    _beat("a consumer joins a classic group of others", "of others"),
    _beat("a consumer joins an unreadable classic group", "unreadable"),
    _beat("a consumer takes the place of a classic instance", "static", InstanceId="one"),
    _beat("a heartbeat to a classic group", "classic", 1),
    _beat("a farewell to a classic group", "classic", -1),
    _beat("a heartbeat after a conversion", "rejoined", EPOCH),
    _beat("a heartbeat to a group that is classic again", "down", 2),
    _beat("a heartbeat under the id of a classic member", "up", 1, MemberId=MEMBER),
    _join("a group of consumers", "consumer"),
    _join("a group of consumers, with an id", "consumer", "an id of its own"),
    _join("a group of consumers, of another type", "consumer", ProtocolType="connect"),
    _join("a group of consumers, unreadable", "consumer", Protocols=[{"Name": "range", "Metadata": b"?"}]),
    _join("a group of consumers, without protocols", "consumer", Protocols=[]),
    _join("a group of consumers, under the id of one", "consumer", CONSUMER),
    _join("a group of consumers, an instance", "consumer", since=5, GroupInstanceId="one"),
    _join("a group of consumers, as the same instance", "static consumer", since=5, GroupInstanceId="one"),
    _join("a classic member after a conversion", "up", MEMBER),
    _join(
        "a classic member with other protocols", "up", MEMBER,
        Protocols=[{"Name": "roundrobin", "Metadata": EAGER}],
    ),
    _join(
        "another classic member with other protocols", "up", "an id of its own",
        Protocols=[{"Name": "roundrobin", "Metadata": EAGER}],
    ),
    _join(
        "a cooperative member that has all", "up", MEMBER,
        Protocols=[{"Name": "range", "Metadata": COOPERATIVE}],
    ),
    _sync("after a conversion", "up"),
    _sync("after the next join", "rejoined"),
    _sync("after the next join, twice", "rejoined"),
    _sync("of what a cooperative member keeps", "cooperative"),
    _sync("a generation to come of a converted group", "rejoined", 9),
    _sync("a member of the consumer protocol", "rejoined", EPOCH, MemberId=CONSUMER),
    _sync("after the way back", "down"),
    _alive("after a conversion", "up"),
    _alive("after the next join", "rejoined"),
    _alive("of a cooperative member that has to give up", "cooperative"),
    _alive("a generation to come of a converted group", "rejoined", 9),
    _alive("a member of the consumer protocol", "rejoined", EPOCH, CONSUMER),
    _alive("after the way back", "down"),
    _alive("after the way back of an older epoch", "down at once"),
    _leave("a classic member of a converted group", "rejoined"),
    _leave("a member of the consumer protocol", "rejoined", CONSUMER),
    _case("ConsumerGroupDescribe", "a converted group", "rejoined", GroupIds=...),
    _case("ConsumerGroupDescribe", "a group that is classic again", "down", GroupIds=...),
    _case("DescribeGroups", "a converted group", "rejoined", since=6, Groups=...),
    _case("DescribeGroups", "a group that is classic again", "down", Groups=...),
)  # fmt: skip
