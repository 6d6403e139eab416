"""Members of classic groups: they join, get their assignments, stay and leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strandline_lab.conformance.case import Call, Case, Group, Taken

METADATA: Final = b"\0\0\0\0\0\1\0\7members\xff\xff\xff\xff"
"""A consumer's subscription in version 0: the topic `members`, no user data."""
ASSIGNMENT: Final = b"\0\0\0\0\0\1\0\7members\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
"""A consumer's assignment in version 0: partition 0 of that topic."""
PROTOCOLS: Final = ({"Name": "range", "Metadata": METADATA},)
MEMBER: Final = Taken("member", "")
GENERATION: Final = Taken("generation", 0)
SESSION_MS: Final = 30_000
NAMELESS: Final = ""


def joining(group: str, member: Any = "", **more: Any) -> dict[str, Any]:
    return {
        "GroupId": group,
        "SessionTimeoutMs": SESSION_MS,
        "RebalanceTimeoutMs": SESSION_MS,
        "MemberId": member,
        "ProtocolType": "consumer",
        "Protocols": list(PROTOCOLS),
        **more,
    }


def joined(group: str, instance: str | None = None) -> list[Call]:
    """Makes a group with one member, which leads it and has no assignment yet."""
    # Version 5 of a static member and version 3 of another need no second request.
    version = 3 if instance is None else 5
    body = joining(group, GroupInstanceId=instance)
    take = {"member": "MemberId", "generation": "GenerationId"}
    join = Call("JoinGroup", body, version=version, to=Group(group), take=take)
    return [join, seen(group)]


def seen(group: str) -> Call:
    """Waits until the group is shown: Kafka answers a JoinGroup before that."""
    body = {"Groups": [group]}
    return Call("DescribeGroups", body, version=5, to=Group(group), until="Groups.0.ProtocolType")


def synced(group: str) -> Call:
    """Gives the member its assignment: the group is stable then."""
    body = {
        "GroupId": group,
        "GenerationId": GENERATION,
        "MemberId": MEMBER,
        "Assignments": [{"MemberId": MEMBER, "Assignment": ASSIGNMENT}],
    }
    return Call("SyncGroup", body, version=2, to=Group(group))


def left(group: str) -> Call:
    """The member leaves; the group stays without members."""
    return Call("LeaveGroup", {"GroupId": group, "MemberId": MEMBER}, version=2, to=Group(group))


def stable(group: str, instance: str | None = None) -> list[Call]:
    return [*joined(group, instance), synced(group)]


def _slug(api: str, name: str) -> str:
    return f"{api}.{name.replace(' ', '-').replace(',', '')}.{{v}}"


def _group(
    name: str, api: str, fields: dict[str, Any], before: Sequence[Call], since: int, group: str
) -> Case:
    call = Call(api, {"GroupId": group, **fields}, to=Group(group))
    return Case(name, call, before=before, since=since)


# --- join -------------------------------------------------------------------------------------


def _join(name: str, since: int = 0, group: str | None = None, before: str = "", **more: Any) -> Case:
    """`before`: the state that the group is in, of one member."""
    own = _slug("join", name) if group is None else group
    first = {"": [], "joined": joined(own), "stable": stable(own), "empty": [*stable(own), left(own)]}[before]
    call = Call("JoinGroup", joining(own) | more, to=Group(own))
    return Case(name, call, before=first, since=since)


def _join_static(name: str, since: int = 5, **more: Any) -> Case:
    own = _slug("join", name)
    call = Call("JoinGroup", joining(own) | more, to=Group(own))
    return Case(name, call, before=stable(own, "one"), since=since)


def _join_again(name: str, until: int = 99, **more: Any) -> Case:
    """Joins with the id that a first request was given, as versions from 4 on want it."""
    own = _slug("join", name)
    first = Call("JoinGroup", joining(own), version=4, to=Group(own), take={"member": "MemberId"})
    call = Call("JoinGroup", joining(own, MEMBER) | more, to=Group(own))
    return Case(name, call, before=[first], until=until)


_TWO: Final = (PROTOCOLS[0], {"Name": "roundrobin", "Metadata": METADATA})

_JOIN: Final = (
    _join("a first member"),
    _join_again("with the id that was given"),
    _join_again("with the id and a reason", Reason="because"),
    _join_again("with the id and two protocols", Protocols=list(_TWO)),
    _join("an unknown member id", MemberId="unknown"),
    _join("an unknown member id in a group", before="stable", MemberId="unknown"),
    _join("an unknown member id in an empty group", before="empty", MemberId="unknown"),
    _join("no group id", group="", MemberId=""),
    _join("no protocols", Protocols=[]),
    _join("no protocol type", ProtocolType=""),
    _join("a protocol without a name", Protocols=[{"Name": "", "Metadata": METADATA}]),
    _join("a protocol twice", Protocols=[PROTOCOLS[0], PROTOCOLS[0]]),
    _join("no metadata", Protocols=[{"Name": "range", "Metadata": b""}]),
    _join("another type of protocol", ProtocolType="connect"),
    _join("a type that the group has not", before="stable", ProtocolType="connect"),
    _join("a protocol that the group has not", before="stable", Protocols=[_TWO[1]]),
    _join("a type that an empty group has not", before="empty", ProtocolType="connect"),
    _join("a session of 0", SessionTimeoutMs=0),
    _join("a session of a millisecond", SessionTimeoutMs=1),
    _join("a negative session", SessionTimeoutMs=-1),
    _join("a session of an hour", SessionTimeoutMs=3_600_000),
    _join("a rebalance timeout of 0", since=1, RebalanceTimeoutMs=0),
    _join("a rebalance timeout of -1", since=1, RebalanceTimeoutMs=-1),
    _join("the member again", before="stable", MemberId=MEMBER),
    _join("the member again, before its assignment", before="joined", MemberId=MEMBER),
    _join("the member again, other metadata", before="stable", MemberId=MEMBER, Protocols=list(_TWO)),
    _join("a static member", since=5, GroupInstanceId="one"),
    _join("an empty instance id", since=5, GroupInstanceId=""),
    _join("an invalid instance id", since=5, GroupInstanceId="a b"),
    _join("a static member with an unknown id", since=5, GroupInstanceId="one", MemberId="unknown"),
    _join_static("a static member again", GroupInstanceId="one"),
    _join_static("a static member with its id", GroupInstanceId="one", MemberId=MEMBER),
    _join_static("a static member with another's id", GroupInstanceId="one", MemberId="other"),
    _join_static("another instance with the id of a member", GroupInstanceId="two", MemberId=MEMBER),
    _join_static("a static member again, other metadata", GroupInstanceId="one", Protocols=list(_TWO)),
)

# --- sync -------------------------------------------------------------------------------------

_OWN: Final = [{"MemberId": MEMBER, "Assignment": ASSIGNMENT}]


def _sync(name: str, since: int = 0, state: str = "joined", instance: str | None = None, **more: Any) -> Case:
    own = _slug("sync", name)
    fields = {
        "GenerationId": GENERATION,
        "MemberId": MEMBER,
        "ProtocolType": "consumer",
        "ProtocolName": "range",
        "Assignments": _OWN,
        **more,
    }
    before = {"": [], "joined": joined(own, instance), "stable": stable(own, instance)}[state]
    return _group(name, "SyncGroup", fields, before, since, more.get("GroupId", own))


_SYNC: Final = (
    _sync("the leader's assignments"),
    _sync("no assignments", Assignments=[]),
    _sync("assignments of others", Assignments=[{"MemberId": "other", "Assignment": ASSIGNMENT}]),
    _sync("an assignment twice", Assignments=[*_OWN, {"MemberId": MEMBER, "Assignment": b"x"}]),
    _sync("a stable group", state="stable"),
    _sync("a stable group, no assignments", state="stable", Assignments=[]),
    _sync("an unknown group", state=""),
    _sync("no group id", state="", GroupId=""),
    _sync("an unknown member", MemberId="unknown"),
    _sync("no member id", MemberId=""),
    _sync("a generation to come", GenerationId=9),
    _sync("a negative generation", GenerationId=-1),
    _sync("an unknown member and generation", MemberId="unknown", GenerationId=9),
    _sync("another type of protocol", since=5, ProtocolType="connect"),
    _sync("another protocol", since=5, ProtocolName="roundrobin"),
    _sync("null types", since=5, ProtocolType=None, ProtocolName=None),
    _sync("a static member", since=3, instance="one", GroupInstanceId="one"),
    _sync("a static member with another's id", 3, instance="one", GroupInstanceId="one", MemberId="other"),
    _sync("an unknown instance", since=3, GroupInstanceId="other"),
)

# --- heartbeat --------------------------------------------------------------------------------


def _beat(name: str, since: int = 0, state: str = "stable", instance: str | None = None, **more: Any) -> Case:
    own = _slug("beat", name)
    fields = {"GenerationId": GENERATION, "MemberId": MEMBER, **more}
    before = {
        "": [],
        "joined": joined(own, instance),
        "stable": stable(own, instance),
        "empty": [*stable(own), left(own)],
    }[state]
    return _group(name, "Heartbeat", fields, before, since, more.get("GroupId", own))


_BEAT: Final = (
    _beat("a member"),
    _beat("before the assignment", state="joined"),
    _beat("an unknown group", state=""),
    _beat("an empty group", state="empty"),
    _beat("no group id", state="", GroupId=""),
    _beat("an unknown member", MemberId="unknown"),
    _beat("no member id", MemberId=""),
    _beat("a generation to come", GenerationId=9),
    _beat("a negative generation", GenerationId=-1),
    _beat("an unknown member and generation", MemberId="unknown", GenerationId=9),
    _beat("a static member", since=3, instance="one", GroupInstanceId="one"),
    _beat("a static member with another's id", 3, instance="one", GroupInstanceId="one", MemberId="other"),
    _beat("an unknown instance", since=3, GroupInstanceId="other"),
)

# --- leave ------------------------------------------------------------------------------------


def _leave(
    name: str, *members: dict[str, Any], state: str = "stable", since: int = 0, group: str | None = None
) -> Case:
    """Versions below 3 name the first member only."""
    own = _slug("leave", name) if group is None else group
    instance = "one" if state == "static" else None
    before = [] if state == "" else stable(own, instance)
    first = members[0]["MemberId"] if members else ""
    fields = {"MemberId": first, "Members": list(members)}
    return _group(name, "LeaveGroup", fields, before, since, own)


def _who(member: Any, instance: str | None = None, reason: str | None = None) -> dict[str, Any]:
    return {"MemberId": member, "GroupInstanceId": instance, "Reason": reason}


_LEAVE: Final = (
    _leave("the member", _who(MEMBER)),
    _leave("the member, with a reason", _who(MEMBER, reason="because")),
    _leave("an unknown member", _who("unknown")),
    _leave("no member id", _who("")),
    _leave("an unknown group", _who("unknown"), state=""),
    _leave("no group id", _who("unknown"), state="", group=""),
    _leave("no members", since=3),
    _leave("no members of an unknown group", state="", since=3),
    _leave("the member twice", _who(MEMBER), _who(MEMBER), since=3),
    _leave("the member and an unknown one", _who(MEMBER), _who("unknown"), since=3),
    _leave("two unknown members of an unknown group", _who("a"), _who("b"), state="", since=3),
    _leave("a static member by its instance", _who("", "one"), state="static", since=3),
    _leave("a static member by both", _who(MEMBER, "one"), state="static", since=3),
    _leave("a static member with another's id", _who("other", "one"), state="static", since=3),
    _leave("a static member by its member id", _who(MEMBER), state="static", since=3),
    _leave("an unknown instance", _who("", "two"), state="static", since=3),
)

CASES: Final = (*_JOIN, *_SYNC, *_BEAT, *_LEAVE)
