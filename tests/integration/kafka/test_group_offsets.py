"""Requests about a group's offsets, and of administrators, version by version, to a running broker."""

from __future__ import annotations

import pytest

from strandline.broker.kafka.wire.apis import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
)
from strandline.config.limits import KIB
from tests.broker.kafka.support.kafka_wire import KafkaWire
from tests.broker.kafka.support.kio_codec import Values
from tests.integration.kafka.support.group_wire import (
    GROUPS,
    ILLEGAL_GENERATION,
    INVALID_GROUP,
    LOADING,
    NON_EMPTY,
    NOT_FOUND,
    UNKNOWN_MEMBER,
    UNKNOWN_TOPIC,
    enter,
    errors,
    fetched,
    offsets,
    stable,
    sync,
)


@pytest.mark.parametrize("version", range(OFFSET_COMMIT.first, OFFSET_COMMIT.last + 1))
async def test_offsets_are_committed_in_every_version(wire: KafkaWire, group: str, version: int) -> None:
    """By a client outside the group. How long it wants them kept decides nothing, and no metadata is empty
    metadata."""
    asked: Values = {"group_id": group, "generation_id_or_member_epoch": -1}
    if version <= 4:
        asked["retention_time_ms"] = 1
    topics = offsets((0, 5), (2, 7), committed_metadata=None)
    assert errors(await wire.ask(OFFSET_COMMIT.key, version, **asked, topics=topics)) == [0, 0]
    assert await fetched(wire, group) == [(0, 5), (2, 7)]


@pytest.mark.parametrize("version", range(OFFSET_FETCH.first, OFFSET_FETCH.last + 1))
async def test_offsets_are_fetched_in_every_version(wire: KafkaWire, group: str, version: int) -> None:
    """A partition without an offset, and a group that is not known, have offset -1 and no error."""
    topics = offsets((1, 9), committed_leader_epoch=3, committed_metadata="here")
    asked: Values = {"group_id": group, "generation_id_or_member_epoch": -1, "topics": topics}
    await wire.ask(OFFSET_COMMIT.key, 8, **asked)
    wanted = [{"name": "tides", "partition_indexes": [1, 0]}]
    for name, offset in ((group, 9), ("nowhere", -1)):
        if version >= 8:
            groups = [{"group_id": name, "topics": wanted}]
            (found,) = (await wire.ask(OFFSET_FETCH.key, version, groups=groups))["groups"]
        else:
            found = await wire.ask(OFFSET_FETCH.key, version, group_id=name, topics=wanted)
        assert found.get("error_code", 0) == 0
        one, other = found["topics"][0]["partitions"]
        assert (one["partition_index"], one["committed_offset"]) == (1, offset)
        assert (other["committed_offset"], other["metadata"], other["error_code"]) == (-1, "", 0)
        if offset >= 0:
            assert (one["metadata"], one.get("committed_leader_epoch", 3)) == ("here", 3)


async def test_offsets_of_many_groups_in_one_request(wire: KafkaWire) -> None:
    """Each with its own answer, in the order of the request."""
    names = [next(GROUPS) for _ in range(50)]
    for number, name in enumerate(names):
        asked: Values = {"group_id": name, "generation_id_or_member_epoch": -1}
        await wire.ask(OFFSET_COMMIT.key, 8, **asked, topics=offsets((0, number)))
    wanted = [{"group_id": name, "topics": None} for name in (*names, "")]
    found = (await wire.ask(OFFSET_FETCH.key, 8, groups=wanted))["groups"]
    assert [each["group_id"] for each in found] == [*names, ""]
    assert [each["topics"][0]["partitions"][0]["committed_offset"] for each in found[:-1]] == list(range(50))
    assert (found[-1]["error_code"], found[-1]["topics"]) == (INVALID_GROUP, [])


async def test_only_members_commit_while_there_are_any(wire: KafkaWire, group: str) -> None:
    """CORRECTNESS G1. An error of the whole request is each partition's."""
    joined = await stable(wire, group)
    outside: Values = {"group_id": group, "generation_id_or_member_epoch": -1}
    inside = {**outside, "generation_id_or_member_epoch": 1, "member_id": joined["member_id"]}
    topics = offsets((0, 1), (1, 2))
    assert errors(await wire.ask(OFFSET_COMMIT.key, 8, **inside, topics=topics)) == [0, 0]
    found = await wire.ask(OFFSET_COMMIT.key, 8, **outside, topics=offsets((0, 100)))
    assert errors(found) == [UNKNOWN_MEMBER]
    stale = {**inside, "generation_id_or_member_epoch": 2}
    assert errors(await wire.ask(OFFSET_COMMIT.key, 8, **stale, topics=topics)) == [ILLEGAL_GENERATION] * 2
    nameless = {**outside, "group_id": ""}
    assert errors(await wire.ask(OFFSET_COMMIT.key, 8, **nameless, topics=topics)) == [INVALID_GROUP] * 2
    missing = [{"name": "nowhere", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    found = await wire.ask(OFFSET_COMMIT.key, 8, **inside, topics=[*missing, *offsets((0, 3))])
    assert errors(found) == [UNKNOWN_TOPIC, 0]
    assert await fetched(wire, group) == [(0, 3), (1, 2)]


async def delete_offsets(wire: KafkaWire, group: str, topic: str, *numbers: int) -> Values:
    partitions = [{"partition_index": number} for number in numbers]
    asked = [{"name": topic, "partitions": partitions}]
    return await wire.ask(OFFSET_DELETE.key, 0, group_id=group, topics=asked)


async def test_single_offsets_of_a_group_without_members_are_deleted(wire: KafkaWire, group: str) -> None:
    joined = await stable(wire, group)
    inside = {
        "group_id": group,
        "generation_id_or_member_epoch": joined["generation_id"],
        "member_id": joined["member_id"],
    }
    await wire.ask(OFFSET_COMMIT.key, 8, **inside, topics=offsets((0, 5), (1, 6), (2, 7)))
    found = await delete_offsets(wire, group, "tides", 0)
    assert (found["error_code"], found["topics"]) == (NON_EMPTY, [])
    await wire.ask(LEAVE_GROUP.key, 0, group_id=group, member_id=joined["member_id"])
    found = await delete_offsets(wire, group, "tides", 0, 2)
    assert (found["error_code"], errors(found)) == (0, [0, 0])
    assert await fetched(wire, group) == [(1, 6)]
    assert errors(await delete_offsets(wire, group, "nowhere", 0)) == [UNKNOWN_TOPIC]
    assert (await delete_offsets(wire, "nowhere", "tides", 0))["error_code"] == NOT_FOUND


# --- administration ---


@pytest.mark.parametrize("version", range(DESCRIBE_GROUPS.last + 1))
async def test_groups_are_described_in_every_version(wire: KafkaWire, group: str, version: int) -> None:
    """A group that is not known is Dead, which is no error before version 6."""
    joined = await stable(wire, group)
    found = (await wire.ask(DESCRIBE_GROUPS.key, version, groups=[group, "nowhere", ""]))["groups"]
    known, unknown, nameless = found
    assert (known["error_code"], known["group_state"]) == (0, "Stable")
    assert (known["protocol_type"], known["protocol_data"]) == ("consumer", "range")
    (member,) = known["members"]
    assert (member["member_id"], member["client_id"]) == (joined["member_id"], "t")
    assert (member["member_metadata"], member["member_assignment"]) == (b"topics", b"all")
    assert (unknown["error_code"], unknown["group_state"], unknown["members"]) == (0, "Dead", [])
    assert nameless["error_code"] == INVALID_GROUP


@pytest.mark.parametrize("version", range(LIST_GROUPS.last + 1))
async def test_groups_are_listed_in_every_version(wire: KafkaWire, group: str, version: int) -> None:
    await stable(wire, group)
    found = await wire.ask(LIST_GROUPS.key, version)
    (listed,) = [each for each in found["groups"] if each["group_id"] == group]
    assert (found["error_code"], listed["protocol_type"]) == (0, "consumer")
    assert listed.get("group_state", "Stable") == "Stable"


async def test_groups_are_listed_by_state(wire: KafkaWire, group: str) -> None:
    joined = await stable(wire, group)
    for states, there in ((["Stable"], True), (["Empty", "Dead"], False), (["stable"], False)):
        found = await wire.ask(LIST_GROUPS.key, 4, states_filter=states)
        assert (group in [each["group_id"] for each in found["groups"]]) is there
    await wire.ask(LEAVE_GROUP.key, 0, group_id=group, member_id=joined["member_id"])
    found = await wire.ask(LIST_GROUPS.key, 4, states_filter=["Empty"])
    assert group in [each["group_id"] for each in found["groups"]]


async def test_groups_are_listed_by_type(wire: KafkaWire, group: str) -> None:
    """KIP-848: each is of the classic type, in any spelling."""
    await stable(wire, group)
    for types, there in (([], True), (["Classic"], True), (["consumer"], False)):
        found = await wire.ask(LIST_GROUPS.key, 5, states_filter=[], types_filter=types)
        listed = {each["group_id"]: each["group_type"] for each in found["groups"]}
        assert listed.get(group) == ("classic" if there else None)


@pytest.mark.parametrize("version", range(DELETE_GROUPS.last + 1))
async def test_groups_are_deleted_in_every_version(wire: KafkaWire, group: str, version: int) -> None:
    busy, idle = group, next(GROUPS)
    await stable(wire, busy)
    asked: Values = {"group_id": idle, "generation_id_or_member_epoch": -1}
    await wire.ask(OFFSET_COMMIT.key, 8, **asked, topics=offsets((0, 5)))
    names = [busy, idle, "nowhere", idle]
    found = (await wire.ask(DELETE_GROUPS.key, version, groups_names=names))["results"]
    assert [(each["group_id"], each["error_code"]) for each in found] == [
        (busy, NON_EMPTY), (idle, 0), ("nowhere", NOT_FOUND),
    ]  # fmt: skip
    assert await fetched(wire, idle) == []


# --- large answers -------------------------------------------------------------------------------


async def test_large_groups_are_described_some_at_a_time(wire: KafkaWire) -> None:
    """CORRECTNESS X6: an answer has a bound of bytes. Clients ask again for a group of a coordinator that
    loads."""
    names = [next(GROUPS) for _ in range(8)]
    for name in names:
        joined = await enter(wire, name, protocols=[{"name": "range", "metadata": bytes(500 * KIB)}])
        await sync(wire, name, joined, {joined["member_id"]: bytes(500 * KIB)})
    left, rounds = names, 0
    while left:
        found = (await wire.ask(DESCRIBE_GROUPS.key, 5, groups=left))["groups"]
        whole = [each for each in found if each["error_code"] == 0]
        assert all(len(each["members"][0]["member_assignment"]) == 500 * KIB for each in whole)
        assert 1 <= len(whole) <= 5
        left = [each["group_id"] for each in found if each["error_code"] == LOADING]
        assert len(left) + len(whole) == len(found)
        rounds += 1
    assert rounds >= 2


async def test_a_group_that_is_named_again_and_again_is_not_fetched_without_end(
    wire: KafkaWire, group: str
) -> None:
    """CORRECTNESS X6."""
    topics = offsets((0, 1), (1, 2), (2, 3), committed_metadata="x" * 4_000)
    asked: Values = {"group_id": group, "generation_id_or_member_epoch": -1}
    assert errors(await wire.ask(OFFSET_COMMIT.key, 8, **asked, topics=topics)) == [0, 0, 0]
    wanted = [{"group_id": group, "topics": None}] * 2_000
    found = (await wire.ask(OFFSET_FETCH.key, 8, groups=wanted))["groups"]
    codes = [each["error_code"] for each in found]
    assert set(codes) == {0, LOADING} and codes == sorted(codes)
    assert 300 < codes.count(0) < 400
