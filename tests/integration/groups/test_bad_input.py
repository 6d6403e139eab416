"""Wrong or malicious requests of members: a typed answer, and the group continues. In memory: the bytes are
those of the wire, and test_coordinator.py has what only a wire refuses."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from strandline.adapters.codecs import groups as group_wire
from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    OutcomeUnknown,
    StrandlineError,
    UnknownMemberId,
    UnknownServerError,
)
from strandline.ids import TopicPartition
from strandline.ports import Method
from strandline.testing import MemoryCluster
from strandline.vocabulary.groups import (
    CommittedOffset,
    GroupProtocol,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    OwnershipChange,
    OwnershipKind,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
)
from tests.integration.groups.support.group_rpcs import GroupRpcs, Member, stable

SETTINGS = {
    "group_initial_rebalance_delay_ms": 0,
    "offsets_topic_partitions": 1,
    "group_members_max": 3,
    "group_member_bytes_max": 64 * 1024,
    "offset_metadata_bytes_max": 100,
    "offsets_per_commit_max": 100,
}
ORDERS = TopicPartition("orders", 0)
LONG = "x" * (GROUP_ID_LENGTH_MAX + 1)
CONTROL = "a\x00b"

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=1, broker_settings=SETTINGS) as cluster:
        for topic in ("orders", "other"):
            await cluster.create_topic(topic, partitions=2)
        yield cluster


@pytest.fixture
async def member(cluster: MemoryCluster) -> AsyncIterator[Member]:
    """The one member of a stable group, which must not notice the test's requests."""
    async with GroupRpcs(cluster) as rpcs:
        member = Member(rpcs, f"group-{next(_numbers)}")
        generation = await stable([member])
        await member.commit({ORDERS: 42})
        before = await member.described()
        yield member
        await member.heartbeat()
        assert member.generation == generation
        assert await member.described() == before
        assert (found := (await member.committed())[ORDERS]) is not None and found.offset == 42
        assert await member.sync() == member.member.encode()
        await member.commit({ORDERS: 43})


async def refused(member: Member, method: Method[Any, Any], request: object) -> StrandlineError:
    with pytest.raises(StrandlineError) as raised:
        await member.rpcs.call(member.address, method, request)
    assert raised.value.message
    assert not isinstance(raised.value, OutcomeUnknown | UnknownServerError), raised.value
    return raised.value


# --- ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["", LONG, CONTROL], ids=["empty", "long", "control character"])
async def test_an_id_that_is_none_is_refused_by_every_request(member: Member, group: str) -> None:
    requests: list[tuple[Method[Any, Any], object]] = [
        (group_wire.FIND_COORDINATOR, group),
        (group_wire.JOIN_GROUP, member.join_request(group=group, member="")),
        (group_wire.SYNC_GROUP, SyncGroup(group, "m", 1, "consumer", "range")),
        (group_wire.HEARTBEAT, Heartbeat(group, "m", 1)),
        (group_wire.LEAVE_GROUP, LeaveGroup(group, (LeavingMember("m"),))),
        (group_wire.OFFSET_COMMIT, OffsetCommit(group, "", -1, {ORDERS: CommittedOffset(1)})),
        (group_wire.OFFSET_FETCH, OffsetFetch(group)),
        (group_wire.REPORT_OWNERSHIP, ReportOwnership(group, "m", 1, ())),
        (group_wire.REPORT_TASKS, ReportTasks(group, "m", 1, ())),
        (group_wire.DESCRIBE_GROUP, group),
        (group_wire.DELETE_GROUP, group),
    ]
    for method, request in requests:
        assert isinstance(await refused(member, method, request), InvalidGroupId), method.path


@pytest.mark.parametrize(
    "given",
    [{"member": LONG}, {"client_id": CONTROL}, {"instance": LONG}, {"protocol_type": LONG}],
    ids=["member", "client", "instance", "protocol type"],
)
async def test_other_ids_that_are_none_are_refused(member: Member, given: dict[str, str]) -> None:
    request = member.join_request(**given)
    assert isinstance(await refused(member, group_wire.JOIN_GROUP, request), InvalidRequest)


async def test_bytes_that_are_no_text_are_refused_by_a_typed_error(member: Member) -> None:
    """gRPC itself would answer INTERNAL, and say nothing of what was wrong."""
    for path in (group_wire.JOIN_GROUP, group_wire.OFFSET_COMMIT, group_wire.HEARTBEAT):
        for data in (b"\x0a\x02\xff\xfe", b"\x0a\x05ab", b"\xff", b"\x0a\xff\xff\xff\xff\x0f"):
            raw: Method[bytes, Any] = Method(path.path, lambda data: data, path.decode)
            assert isinstance(await refused(member, raw, data), InvalidRequest)


# --- unknown members ----------------------------------------------------------------------------


async def test_an_unknown_group(member: Member) -> None:
    unknown: list[tuple[Method[Any, Any], object, type[StrandlineError]]] = [
        (group_wire.JOIN_GROUP, member.join_request(group="nobody", member="m"), UnknownMemberId),
        (group_wire.SYNC_GROUP, SyncGroup("nobody", "m", 1, "consumer", "range"), UnknownMemberId),
        (group_wire.HEARTBEAT, Heartbeat("nobody", "m", 1), UnknownMemberId),
        (group_wire.LEAVE_GROUP, LeaveGroup("nobody", (LeavingMember("m"),)), UnknownMemberId),
        (
            group_wire.OFFSET_COMMIT,
            OffsetCommit("nobody", "m", 1, {ORDERS: CommittedOffset(1)}),
            IllegalGeneration,
        ),
        (group_wire.REPORT_OWNERSHIP, ReportOwnership("nobody", "m", 1, ()), UnknownMemberId),
        (group_wire.REPORT_TASKS, ReportTasks("nobody", "m", 1, ()), UnknownMemberId),
        (group_wire.DESCRIBE_GROUP, "nobody", GroupIdNotFound),
        (group_wire.DELETE_GROUP, "nobody", GroupIdNotFound),
    ]
    for method, request, error in unknown:
        assert isinstance(await refused(member, method, request), error), method.path
    fetched = await member.rpcs.call(
        member.address, group_wire.OFFSET_FETCH, OffsetFetch("nobody", (ORDERS,))
    )
    assert fetched == {ORDERS: None}
    assert "nobody" not in {
        g.group for g in await member.rpcs.call(member.address, group_wire.LIST_GROUPS, None)
    }


async def test_an_unknown_member(member: Member) -> None:
    group, generation = member.group, member.generation
    unknown: list[tuple[Method[Any, Any], object]] = [
        (group_wire.JOIN_GROUP, member.join_request(member="stranger")),
        (group_wire.SYNC_GROUP, SyncGroup(group, "stranger", generation, "consumer", "range")),
        (group_wire.HEARTBEAT, Heartbeat(group, "stranger", generation)),
        (
            group_wire.OFFSET_COMMIT,
            OffsetCommit(group, "stranger", generation, {ORDERS: CommittedOffset(1)}),
        ),
        (group_wire.REPORT_OWNERSHIP, ReportOwnership(group, "stranger", generation, ())),
        (group_wire.REPORT_TASKS, ReportTasks(group, "stranger", generation, ())),
    ]
    for method, request in unknown:
        assert isinstance(await refused(member, method, request), UnknownMemberId), method.path
    left = await member.rpcs.call(
        member.address, group_wire.LEAVE_GROUP, LeaveGroup(group, (LeavingMember("stranger"),))
    )
    assert [type(one.error) for one in left] == [UnknownMemberId]


@pytest.mark.parametrize("generation", [0, -7, 99], ids=["older", "negative", "to come"])
async def test_another_generation(member: Member, generation: int) -> None:
    """CORRECTNESS G1: a commit of an older generation would put the new owner back."""
    group = member.group
    requests: list[tuple[Method[Any, Any], object]] = [
        (group_wire.SYNC_GROUP, SyncGroup(group, member.member, generation, "consumer", "range")),
        (group_wire.HEARTBEAT, Heartbeat(group, member.member, generation)),
        (
            group_wire.OFFSET_COMMIT,
            OffsetCommit(group, member.member, generation, {ORDERS: CommittedOffset(1)}),
        ),
    ]
    for method, request in requests:
        error = await refused(member, method, request)
        assert isinstance(error, IllegalGeneration), method.path


async def test_an_instance_id_of_another_member_is_refused(member: Member) -> None:
    """KIP-345: of two processes under one name only one may continue."""
    static = Member(member.rpcs, f"{member.group}-static", instance="i")
    await stable([static])
    error = await refused(
        member,
        group_wire.HEARTBEAT,
        Heartbeat(static.group, "somebody else", static.generation, instance="i"),
    )
    assert isinstance(error, FencedInstanceId)
    await static.heartbeat()


# --- joining ------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [-1, 0, 1, 2**31 - 1])
async def test_a_session_timeout_out_of_bounds(member: Member, timeout_ms: int) -> None:
    request = member.join_request(member="", session_timeout_ms=timeout_ms)
    error = await refused(member, group_wire.JOIN_GROUP, request)
    assert isinstance(error, InvalidSessionTimeout)
    assert error.limit and str(error.limit) in error.message


@pytest.mark.parametrize("timeout_ms", [-1, 0, 2**31 - 1])
async def test_a_rebalance_timeout_out_of_bounds(member: Member, timeout_ms: int) -> None:
    request = member.join_request(member="", rebalance_timeout_ms=timeout_ms)
    assert isinstance(await refused(member, group_wire.JOIN_GROUP, request), InvalidRequest)


async def test_an_unsupported_subscription(member: Member) -> None:
    """The message says what the group supports."""
    for given in (
        {"protocols": (GroupProtocol("other", b""),)},
        {"protocol_type": "connect"},
        {"protocols": ()},
        {"protocol_type": ""},
    ):
        error = await refused(member, group_wire.JOIN_GROUP, member.join_request(member="", **given))
        assert isinstance(error, InconsistentGroupProtocol), given


async def test_metadata_that_is_too_large(member: Member) -> None:
    metadata = os.urandom(SETTINGS["group_member_bytes_max"] + 1)
    request = member.join_request(member="", protocols=(GroupProtocol("range", metadata),))
    error = await refused(member, group_wire.JOIN_GROUP, request)
    assert isinstance(error, InvalidRequest)
    assert error.limit == SETTINGS["group_member_bytes_max"]


# --- assigning ----------------------------------------------------------------------------------


async def test_an_assignment_that_is_refused_leaves_the_generation_to_be_assigned(member: Member) -> None:
    """The message names the bound, and the leader may send a better one."""
    leader = Member(member.rpcs, f"{member.group}-other")
    await leader.join()
    most = SETTINGS["group_member_bytes_max"]
    with pytest.raises(InvalidRequest, match=str(most)):
        await leader.sync({leader.member: bytes(most + 1)})
    assert await leader.sync({leader.member: b"right"}) == b"right"
    await leader.heartbeat()


async def test_assignments_for_strangers_are_ignored(member: Member) -> None:
    leader = Member(member.rpcs, f"{member.group}-other")
    await leader.join()
    assert await leader.sync({leader.member: b"right", "stranger": b"x", "": b"x"}) == b"right"
    await leader.heartbeat()


async def test_a_sync_with_another_protocol_than_the_groups(member: Member) -> None:
    with pytest.raises(InconsistentGroupProtocol):
        await member.sync(protocol="sticky")
    with pytest.raises(InconsistentGroupProtocol):
        await member.sync(protocol_type="connect")


# --- offsets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "offset", "error"),
    [
        (ORDERS, CommittedOffset(-1), InvalidRequest),
        (ORDERS, CommittedOffset(1, metadata="x" * 101), OffsetMetadataTooLarge),
        (ORDERS, CommittedOffset(1, leader_epoch=-2), InvalidRequest),
        (ORDERS, CommittedOffset(1, leader_epoch=2**40), InvalidRequest),
        (TopicPartition("orders", -1), CommittedOffset(1), InvalidRequest),
        (TopicPartition("", 0), CommittedOffset(1), StrandlineError),
        (TopicPartition(LONG, 0), CommittedOffset(1), StrandlineError),
    ],
    ids=["negative", "metadata", "epoch", "large epoch", "partition", "no topic", "long topic"],
)
async def test_an_offset_that_is_none_spoils_no_other(
    member: Member, name: TopicPartition, offset: CommittedOffset, error: type[StrandlineError]
) -> None:
    other = TopicPartition("other", 0)
    results = await member.rpcs.call(
        member.address,
        group_wire.OFFSET_COMMIT,
        OffsetCommit(
            member.group, member.member, member.generation, {name: offset, other: CommittedOffset(7)}
        ),
    )
    assert isinstance(results[name], error)
    assert results[other] is None
    committed = await member.committed()
    assert {found: at and at.offset for found, at in committed.items()} == {ORDERS: 42, other: 7}


async def test_more_offsets_than_a_commit_may_have(member: Member) -> None:
    offsets = {TopicPartition("t", n): 1 for n in range(SETTINGS["offsets_per_commit_max"] + 1)}
    with pytest.raises(InvalidRequest):
        await member.commit(offsets)


async def test_a_commit_from_outside_while_the_group_has_members(member: Member) -> None:
    """CORRECTNESS G1: it would move the members' positions under them."""
    request = OffsetCommit(member.group, "", -1, {ORDERS: CommittedOffset(1)})
    assert isinstance(await refused(member, group_wire.OFFSET_COMMIT, request), UnknownMemberId)


async def test_a_group_with_members_is_not_deleted(member: Member) -> None:
    assert isinstance(await refused(member, group_wire.DELETE_GROUP, member.group), NonEmptyGroup)


@pytest.mark.parametrize(
    ("name", "generation", "error"),
    [
        (TopicPartition("orders", -5), 1, InvalidRequest),
        (TopicPartition("", 0), 1, InvalidRequest),
        (ORDERS, 99, IllegalGeneration),
    ],
    ids=["partition", "topic", "generation"],
)
async def test_an_impossible_report_is_refused(
    member: Member, name: TopicPartition, generation: int, error: type[StrandlineError]
) -> None:
    """The ownership record stays as it was, and no event is published."""
    change = OwnershipChange(OwnershipKind.ASSIGNED, (name,), 1, generation)
    request = ReportOwnership(member.group, member.member, member.generation, (change,))
    assert isinstance(await refused(member, group_wire.REPORT_OWNERSHIP, request), error)
