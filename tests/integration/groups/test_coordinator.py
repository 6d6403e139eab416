"""The coordinator in real brokers, spoken to without a consumer in between."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from strandline import Admin, Consumer
from strandline.adapters.codecs import groups as group_wire
from strandline.config.limits import MESSAGE_BYTES_MAX
from strandline.errors import (
    CoordinatorNotAvailable,
    InvalidTopic,
    NotCoordinator,
    OutcomeUnknown,
    RebalanceInProgress,
)
from strandline.ids import GROUP_EVENTS_TOPIC, OFFSETS_TOPIC, TopicPartition
from strandline.local.cluster import LocalCluster
from strandline.ports import Method
from strandline.vocabulary.groups import (
    GroupProtocol,
    Heartbeat,
    LeaveGroup,
    MemberIdGiven,
    OffsetCommit,
    OffsetFetch,
    OwnershipChange,
    OwnershipKind,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
)
from tests.conftest import ClusterFactory
from tests.integration.groups.support.group_rpcs import GroupRpcs, Member, stable
from tests.integration.support.raw import Brokers
from tests.waiting import DEADLINE_S, eventually

GROUP_SETTINGS = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_partitions": 3}
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    found = await make_module_cluster(brokers=3, broker_settings=GROUP_SETTINGS)
    async with Admin(found.bootstrap) as admin:
        await admin.create_topic("orders", partitions=2, replication_factor=3)
    return found


@pytest.fixture
async def rpcs(cluster: LocalCluster) -> AsyncIterator[GroupRpcs]:
    async with GroupRpcs(cluster) as found:
        yield found


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


async def read(cluster: LocalCluster, topic: str, partitions: int) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of all that is in a topic now."""
    names = [TopicPartition(topic, number) for number in range(partitions)]
    async with Consumer(cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign(names)
        found: list[tuple[bytes | None, bytes | None]] = []
        while records := await consumer.getmany(timeout_ms=500):
            found += [(record.key, record.value) for name in names for record in records.get(name, [])]
        return found


# --- a group's life -----------------------------------------------------------------------------


async def test_the_first_requests_create_the_topic_once(cluster: LocalCluster, rpcs: GroupRpcs) -> None:
    """Created automatically, replicated, compacted; all brokers name the same coordinator."""
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(rpcs.coordinator("somebody")) for _ in range(20)]
    assert len({task.result() for task in asked}) == 1
    found = {asked[0].result()}

    async def all_name_it() -> bool:
        """A broker learns of the new topic's leader a moment later."""
        for broker in cluster.broker_ids:
            try:
                found.add(await rpcs.at(broker, group_wire.FIND_COORDINATOR, "somebody"))
            except CoordinatorNotAvailable:
                return False
        return True

    await eventually(all_name_it)
    assert found == {asked[0].result()}
    async with Admin(cluster.bootstrap) as admin:
        (topic,) = await admin.describe_topics([OFFSETS_TOPIC])
    assert topic.config["cleanup.policy"] == "compact"
    assert [len(p.replicas) for p in topic.partitions] == [3, 3, 3]
    assert found == {e for e in found if e.id == topic.partitions[rpcs.partition("somebody", 3)].leader}


async def test_members_join_sync_beat_and_commit(rpcs: GroupRpcs, group: str) -> None:
    """One generation, one leader, an assignment for each, and offsets that come back."""
    members = [Member(rpcs, group) for _ in range(3)]
    generation = await stable(members)
    for member in members:
        await member.heartbeat()
        assert member.generation == generation
    assert await members[0].commit({FIRST: 5, SECOND: 7}) == {FIRST: None, SECOND: None}
    committed = await members[1].committed()
    assert {name: found and found.offset for name, found in committed.items()} == {FIRST: 5, SECOND: 7}
    described = await members[2].described()
    assert described.state == "Stable"
    assert {m.member for m in described.members} == {m.member for m in members}
    assert {m.host for m in described.members} == {"127.0.0.1"}


async def test_a_held_heartbeat_hears_of_a_rebalance_at_once(rpcs: GroupRpcs, group: str) -> None:
    """The seed's case b: the first hears while it waits, long before its next heartbeat would go out."""
    first, second = Member(rpcs, group), Member(rpcs, group)
    await stable([first])
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        beating = tasks.create_task(_raised(first.heartbeat(max_wait_ms=9_000)))
        joining = tasks.create_task(second.join())
        error = await beating
        assert isinstance(error, RebalanceInProgress)
        assert error.message
        again = await first.join()
    assert joining.result().generation == again.generation == 2
    assert {again.leader, joining.result().leader} == {first.member}


async def _raised(awaited: Any) -> BaseException | None:
    try:
        await awaited
    except Exception as error:
        return error
    return None


async def test_a_member_that_leaves_makes_room_at_once(rpcs: GroupRpcs, group: str) -> None:
    first, second = Member(rpcs, group), Member(rpcs, group)
    await stable([first, second])
    assert [left.error for left in await second.leave()] == [None]
    assert await stable([first]) == first.generation
    described = await first.described()
    assert [m.member for m in described.members] == [first.member]


async def test_a_client_that_vanishes_while_its_join_is_held_is_forgotten(
    rpcs: GroupRpcs, group: str
) -> None:
    """Its call is cancelled, the others wait for it no longer than the rebalance timeout, and continue."""
    first = Member(rpcs, group, rebalance_timeout_ms=300, session_timeout_ms=600)
    await stable([first])
    async with GroupRpcs(rpcs.cluster) as others:
        vanishing = Member(others, group, rebalance_timeout_ms=300, session_timeout_ms=600)
        await vanishing.find()
        given = await others.call(vanishing.address, group_wire.JOIN_GROUP, vanishing.join_request())
        assert isinstance(given, MemberIdGiven)
        vanishing.member = given.member
        async with asyncio.TaskGroup() as tasks:
            held = tasks.create_task(_raised(vanishing.join()))
            assert isinstance(await _raised(first.heartbeat(max_wait_ms=9_000)), RebalanceInProgress)
            held.cancel()
    generation = await stable([first])

    async def alone() -> bool:
        return [m.member for m in (await first.described()).members] == [first.member]

    await eventually(alone)
    await stable([first])
    assert generation >= 2
    await first.commit({FIRST: 1})


async def test_a_message_over_the_transports_limit_ends_that_call_only(rpcs: GroupRpcs, group: str) -> None:
    """The member that sent it stays what it was."""
    member = Member(rpcs, group)
    await stable([member])
    before = await member.described()
    request = member.join_request(protocols=(GroupProtocol("range", bytes(MESSAGE_BYTES_MAX + 1)),))
    with pytest.raises(OutcomeUnknown, match="RESOURCE_EXHAUSTED"):
        await member.rpcs.call(member.address, group_wire.JOIN_GROUP, request)
    await member.heartbeat()
    assert await member.described() == before


# --- the wrong broker ---------------------------------------------------------------------------

REQUESTS: list[tuple[Method[Any, Any], Any]] = [
    (group_wire.SYNC_GROUP, SyncGroup("g", "m", 1, "consumer", "range")),
    (group_wire.HEARTBEAT, Heartbeat("g", "m", 1)),
    (group_wire.LEAVE_GROUP, LeaveGroup("g", ())),
    (group_wire.OFFSET_COMMIT, OffsetCommit("g", "m", 1, {})),
    (group_wire.OFFSET_FETCH, OffsetFetch("g")),
    (group_wire.REPORT_OWNERSHIP, ReportOwnership("g", "m", 1, ())),
    (group_wire.REPORT_TASKS, ReportTasks("g", "m", 1, ())),
    (group_wire.DESCRIBE_GROUP, "g"),
    (group_wire.DELETE_GROUP, "g"),
]


async def test_another_broker_names_the_coordinator(cluster: LocalCluster, rpcs: GroupRpcs) -> None:
    """NOT_COORDINATOR with the leader: a client need not look for it."""
    coordinator = await rpcs.coordinator("g")
    requests = [*REQUESTS, (group_wire.JOIN_GROUP, Member(rpcs, "g").join_request())]
    for broker in cluster.broker_ids:
        if broker == coordinator.id:
            continue
        for method, request in requests:
            with pytest.raises(NotCoordinator) as raised:
                await rpcs.at(broker, method, request)
            hint = raised.value.leader
            assert hint is not None, method.path
            assert (hint.broker_id, hint.port) == (coordinator.id, coordinator.port)


async def test_each_broker_lists_the_groups_that_it_coordinates(
    cluster: LocalCluster, rpcs: GroupRpcs
) -> None:
    groups = [f"listed-{number}" for number in range(12)]
    for group in groups:
        request = OffsetCommit(group, "", -1, {})
        await rpcs.asked(group, group_wire.OFFSET_COMMIT, request)
        await stable([Member(rpcs, group)])
    for broker in cluster.broker_ids:
        listed = {g.group for g in await rpcs.at(broker, group_wire.LIST_GROUPS, None)}
        mine = {group for group in groups if (await rpcs.coordinator(group)).id == broker}
        assert listed & set(groups) == mine


# --- internal topics ----------------------------------------------------------------------------


async def test_clients_cannot_write_or_delete_internal_topics_by_accident(
    cluster: LocalCluster, rpcs: GroupRpcs
) -> None:
    """A client's record in `__consumer_offsets` would be read as a group's; all clients may read the
    topic."""
    await stable([Member(rpcs, "somebody")])
    async with Admin(cluster.bootstrap) as admin:
        with pytest.raises(InvalidTopic, match="cannot be deleted"):
            await admin.delete_topics([OFFSETS_TOPIC])
        (topic,) = await admin.describe_topics([OFFSETS_TOPIC])
    async with Brokers(cluster) as brokers:
        stream = brokers.produce(topic.partitions[0].leader, TopicPartition(OFFSETS_TOPIC, 0))
        result = await stream.one(b"accident", acks=-1)
        stream.close()
    assert (result.error.code, "system's own" in result.error.message) == (InvalidTopic.code, True)
    assert await read(cluster, OFFSETS_TOPIC, 3)


async def test_changes_of_a_group_become_events(cluster: LocalCluster, rpcs: GroupRpcs, group: str) -> None:
    """Generations with their reasons, and each member's partitions, in the order in which they happened."""
    member = Member(rpcs, group)
    generation = await stable([member])
    changes = (OwnershipChange(OwnershipKind.ASSIGNED, (SECOND, FIRST), 17, generation, "new"),)
    await rpcs.asked(
        group, group_wire.REPORT_OWNERSHIP, ReportOwnership(group, member.member, generation, changes)
    )
    await member.leave()

    async def events() -> list[dict[str, Any]]:
        records = await read(cluster, GROUP_EVENTS_TOPIC, 1)
        found = [json.loads(value or b"") for key, value in records if key == group.encode()]
        return found if found and found[-1]["event"] in ("generation_ended", "member_left", "lost") else []

    async def events_of_both() -> list[dict[str, Any]]:
        found = await events()
        return found if {"member_left", "assigned"} <= {event["event"] for event in found} else []

    found = await eventually(events_of_both, deadline_s=20)
    kinds = [event["event"] for event in found]
    assert all((event["version"], event["group"]) == (1, group) for event in found)
    assert kinds.index("generation_started") < kinds.index("generation_stable") < kinds.index("assigned")
    assert kinds.index("assigned") < kinds.index("member_left")
    (assigned,) = [event for event in found if event["event"] == "assigned"]
    assert assigned["partitions"] == {"orders": [0, 1]}
    assert (assigned["member"], assigned["at_ms"], assigned["generation"]) == (member.member, 17, generation)
    (started,) = [event for event in found if event["event"] == "generation_started"]
    assert started["generation"] == generation
