"""Requests of members, version by version, to a running broker."""

from __future__ import annotations

import asyncio

import pytest

from strandline import Admin
from strandline.broker.kafka.wire.apis import (
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
)
from strandline.config.limits import MIB
from strandline.local.cluster import LocalCluster
from tests.broker.kafka.support.kafka_wire import KafkaWire, kafka_wire
from tests.broker.kafka.support.kio_codec import Values
from tests.integration.kafka.support.group_wire import (
    FENCED,
    GROUPS,
    ID_REQUIRED,
    ILLEGAL_GENERATION,
    INCONSISTENT,
    INVALID_GROUP,
    INVALID_SESSION,
    SESSION_MS,
    UNKNOWN_MEMBER,
    ask_and_close,
    beat,
    described,
    enter,
    joining,
    of_member,
    rebalances,
    stable,
    sync,
)
from tests.waiting import eventually

FOREVER_MS = 2**31 - 1


# --- joining -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(JOIN_GROUP.last + 1))
async def test_clients_of_every_age_join(wire: KafkaWire, group: str, version: int) -> None:
    """Before version 4 they join once, and do not know that a member needs its id first (KIP-394)."""
    asked = joining(group)
    if version >= 1:
        asked["rebalance_timeout_ms"] = SESSION_MS
    joined = await wire.ask(JOIN_GROUP.key, version, **asked)
    if version >= 4:
        assert joined["error_code"] == ID_REQUIRED
        joined = await wire.ask(JOIN_GROUP.key, version, **{**asked, "member_id": joined["member_id"]})
    assert (joined["error_code"], joined["generation_id"], joined["protocol_name"]) == (0, 1, "range")
    assert joined["leader"] == joined["member_id"]
    (member,) = joined["members"]
    assert (member["member_id"], member["metadata"]) == (joined["member_id"], b"topics")
    assert joined.get("protocol_type", "consumer") == "consumer"


async def test_any_rebalance_timeout_is_taken(wire: KafkaWire, group: str) -> None:
    """Clients ask for the longest that there is; the broker's bound holds."""
    assert (await enter(wire, group, rebalance_timeout_ms=FOREVER_MS))["error_code"] == 0


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"group_id": ""}, INVALID_GROUP),
        ({"session_timeout_ms": 1}, INVALID_SESSION),
        ({"protocols": []}, INCONSISTENT),
        ({"member_id": "stranger"}, UNKNOWN_MEMBER),
        ({"protocols": [{"name": "range", "metadata": bytes(2 * MIB)}]}, 42),
    ],
)
async def test_a_join_that_is_refused_says_why(
    wire: KafkaWire, group: str, changed: Values, error: int
) -> None:
    asked = {**joining(group, rebalance_timeout_ms=SESSION_MS), **changed}
    found = await wire.ask(JOIN_GROUP.key, 9, **asked)
    assert (found["error_code"], found["generation_id"], found["members"]) == (error, -1, [])


async def test_a_join_that_waits_holds_its_connection_only(lone_broker: LocalCluster, group: str) -> None:
    """A client has a connection of its own for its group; its other requests do not wait."""
    async with (
        kafka_wire(lone_broker.kafka_bootstrap) as first,
        kafka_wire(lone_broker.kafka_bootstrap) as second,
    ):
        leader = await stable(first, group)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(enter(second, group))
            await eventually(lambda: rebalances(first, group, leader))
            assert not waiting.done()
            again = await first.ask(
                JOIN_GROUP.key, 9, **joining(group, leader["member_id"], rebalance_timeout_ms=SESSION_MS)
            )
        assert again["generation_id"] == waiting.result()["generation_id"] == leader["generation_id"] + 1
        assert (len(again["members"]), len(waiting.result()["members"])) == (2, 0)


# --- assigning ---------------------------------------------------------------------------------


async def test_an_assignment_for_a_member_that_has_left_is_ignored(wire: KafkaWire, group: str) -> None:
    """As in Kafka: between join and sync a member may leave in good order."""
    joined = await enter(wire, group)
    synced = await sync(wire, group, joined, {joined["member_id"]: b"all", "gone": b"nothing"})
    assert (synced["error_code"], synced["assignment"]) == (0, b"all")


@pytest.mark.parametrize("version", range(SYNC_GROUP.last + 1))
async def test_a_leader_assigns_in_every_version(wire: KafkaWire, group: str, version: int) -> None:
    joined = await enter(wire, group, 4)
    named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    synced = await sync(wire, group, joined, {joined["member_id"]: b"all"}, version, **named)
    assert (synced["error_code"], synced["assignment"]) == (0, b"all")
    assert {name: synced[name] for name in named} == named


@pytest.mark.parametrize("named", [{}, {"protocol_type": "consumer", "protocol_name": "sticky"}])
async def test_a_member_that_believes_in_another_protocol_gets_no_assignment(
    wire: KafkaWire, group: str, named: Values
) -> None:
    """KIP-559: from version 5 on it says which."""
    joined = await enter(wire, group)
    synced = await sync(wire, group, joined, {joined["member_id"]: b"all"}, 5, **named)
    assert (synced["error_code"], synced["assignment"]) == (INCONSISTENT, b"")


# --- static members ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [5, 9])
async def test_a_static_leader_that_returns_is_not_to_assign_again(
    wire: KafkaWire, group: str, version: int
) -> None:
    """CORRECTNESS G13: from version 9 on it learns it (KIP-814); before, the assignment that it makes is
    ignored. Its former process is fenced (KIP-345)."""
    before = await stable(wire, group, version=version, group_instance_id="i")
    again = await enter(wire, group, version, group_instance_id="i")
    assert again["generation_id"] == before["generation_id"] and again["member_id"] != before["member_id"]
    assert again["leader"] == again["member_id"] and len(again["members"]) == 1
    assert again.get("skip_assignment", True)
    synced = await sync(wire, group, again, {again["member_id"]: b"other"}, group_instance_id="i")
    assert (synced["error_code"], synced["assignment"]) == (0, b"all")
    assert await beat(wire, group, before, group_instance_id="i") == FENCED
    assert await beat(wire, group, again, group_instance_id="i") == 0


# --- sessions and leaving ----------------------------------------------------------------------


@pytest.mark.parametrize("version", range(HEARTBEAT.last + 1))
async def test_heartbeats_are_answered_at_once(wire: KafkaWire, group: str, version: int) -> None:
    joined = await stable(wire, group)
    found = await wire.ask(HEARTBEAT.key, version, **of_member(group, joined))
    assert found["error_code"] == 0
    found = await wire.ask(HEARTBEAT.key, version, **of_member(group, {**joined, "generation_id": 7}))
    assert found["error_code"] == ILLEGAL_GENERATION
    found = await wire.ask(HEARTBEAT.key, version, **of_member("nowhere", joined))
    assert found["error_code"] == UNKNOWN_MEMBER


async def test_a_member_outlives_its_connection_until_its_session_ends(
    lone_broker: LocalCluster, wire: KafkaWire, group: str
) -> None:
    """A session is bound to heartbeats, and not to a connection."""
    async with kafka_wire(lone_broker.kafka_bootstrap) as first:
        joined = await stable(first, group, session_timeout_ms=1_000)
    for _ in range(3):
        assert await beat(wire, group, joined) == 0

    async def expired() -> bool:
        return bool((await described(wire, group))["group_state"] == "Empty")

    await eventually(expired)


@pytest.mark.parametrize("version", range(LEAVE_GROUP.last + 1))
async def test_members_leave_in_every_version(wire: KafkaWire, group: str, version: int) -> None:
    joined = await stable(wire, group)
    leaving = {"member_id": joined["member_id"]}
    stranger = {"member_id": "stranger"}
    if version < 3:
        found = [(await wire.ask(LEAVE_GROUP.key, version, group_id=group, **one))["error_code"]
                 for one in (stranger, leaving)]  # fmt: skip
    else:
        answer = await wire.ask(LEAVE_GROUP.key, version, group_id=group, members=[stranger, leaving])
        assert answer["error_code"] == 0
        assert [each["member_id"] for each in answer["members"]] == ["stranger", joined["member_id"]]
        found = [each["error_code"] for each in answer["members"]]
    assert found == [UNKNOWN_MEMBER, 0]
    assert (await described(wire, group))["group_state"] == "Empty"
    assert (await wire.ask(LEAVE_GROUP.key, 0, group_id="nowhere", member_id="m"))[
        "error_code"
    ] == UNKNOWN_MEMBER


async def test_an_operator_removes_a_static_member_by_its_instance(wire: KafkaWire, group: str) -> None:
    """KIP-345."""
    await stable(wire, group, group_instance_id="i")
    members = [{"member_id": "", "group_instance_id": "i"}, {"member_id": "", "group_instance_id": "j"}]
    found = (await wire.ask(LEAVE_GROUP.key, 5, group_id=group, members=members))["members"]
    assert [(each["group_instance_id"], each["error_code"]) for each in found] == [
        ("i", 0), ("j", UNKNOWN_MEMBER),
    ]  # fmt: skip
    assert (await described(wire, group))["group_state"] == "Empty"


async def test_reasons_are_kept(lone_broker: LocalCluster, wire: KafkaWire, group: str) -> None:
    """KIP-800: a client says why it joins and leaves."""
    joined = await stable(wire, group, reason="a new day")
    async with Admin(lone_broker.bootstrap) as admin:
        assert "a new day" in (await admin.describe_group(group)).group.reason
        members = [{"member_id": joined["member_id"], "reason": "the end of it"}]
        await wire.ask(LEAVE_GROUP.key, 5, group_id=group, members=members)
        assert "the end of it" in (await admin.describe_group(group)).group.reason


# --- connections that end ---


async def test_a_member_that_leaves_and_hangs_up_has_left(lone_broker: LocalCluster, wire: KafkaWire) -> None:
    """Clients do not wait for the answer when they close."""
    names = [next(GROUPS) for _ in range(20)]
    for name in names:
        async with kafka_wire(lone_broker.kafka_bootstrap) as leaving:
            joined = await stable(leaving, name)
            await ask_and_close(leaving, LEAVE_GROUP, 0, group_id=name, member_id=joined["member_id"])

    async def states() -> set[str]:
        found = (await wire.ask(DESCRIBE_GROUPS.key, 5, groups=names))["groups"]
        return {each["group_state"] for each in found}

    async def all_left() -> bool:
        return await states() == {"Empty"}

    await eventually(all_left, deadline_s=SESSION_MS / 2_000)
