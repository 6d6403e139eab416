"""Requests about groups, as a client of any age sends them."""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from strandline.broker.kafka.wire.apis import (
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_FETCH,
    SYNC_GROUP,
    ApiWire,
)
from tests.broker.kafka.support.codec import encode_request
from tests.broker.kafka.support.kafka_wire import KafkaWire
from tests.broker.kafka.support.kio_codec import Values

SESSION_MS: Final = 10_000
UNKNOWN_TOPIC: Final = 3
LOADING: Final = 14
NOT_COORDINATOR: Final = 16
ILLEGAL_GENERATION: Final = 22
INCONSISTENT: Final = 23
INVALID_GROUP: Final = 24
UNKNOWN_MEMBER: Final = 25
INVALID_SESSION: Final = 26
REBALANCES: Final = 27
INVALID: Final = 42
NON_EMPTY: Final = 68
NOT_FOUND: Final = 69
ID_REQUIRED: Final = 79
FENCED: Final = 82

GROUPS: Final = (f"group-{number}" for number in count())
"""A new group each time."""


def joining(group: str, member: str = "", **more: Any) -> Values:
    return {
        "group_id": group,
        "member_id": member,
        "session_timeout_ms": SESSION_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"topics"}],
        **more,
    }


async def enter(wire: KafkaWire, group: str, version: int = 9, **more: Any) -> Values:
    """A new member joins with the id that it is given."""
    more = {"rebalance_timeout_ms": SESSION_MS, **more} if version else more
    given = await wire.ask(JOIN_GROUP.key, version, **joining(group, **more))
    if given["error_code"] != ID_REQUIRED:
        return given
    return await wire.ask(JOIN_GROUP.key, version, **joining(group, given["member_id"], **more))


async def stable(wire: KafkaWire, group: str, **more: Any) -> Values:
    """One member, with its assignment. Returns its join."""
    joined = await enter(wire, group, **more)
    assert joined["error_code"] == 0, joined
    synced = await sync(wire, group, joined, {joined["member_id"]: b"all"})
    assert (synced["error_code"], synced["assignment"]) == (0, b"all")
    return joined


async def sync(
    wire: KafkaWire, group: str, joined: Values, assignments: dict[str, bytes], version: int = 4, **more: Any
) -> Values:
    return await wire.ask(
        SYNC_GROUP.key,
        version,
        group_id=group,
        generation_id=joined["generation_id"],
        member_id=joined["member_id"],
        assignments=[{"member_id": name, "assignment": data} for name, data in assignments.items()],
        **more,
    )


def of_member(group: str, joined: Values, **more: Any) -> Values:
    return {
        "group_id": group,
        "generation_id": joined["generation_id"],
        "member_id": joined["member_id"],
        **more,
    }


async def beat(wire: KafkaWire, group: str, joined: Values, **more: Any) -> int:
    found = await wire.ask(HEARTBEAT.key, 4, **of_member(group, joined, **more))
    return int(found["error_code"])


async def described(wire: KafkaWire, group: str) -> Values:
    (found,) = (await wire.ask(DESCRIBE_GROUPS.key, 5, groups=[group]))["groups"]
    return dict(found)


async def rebalances(wire: KafkaWire, group: str, joined: Values) -> bool:
    return await beat(wire, group, joined) == REBALANCES


def offsets(*found: tuple[int, int], **more: Any) -> list[Values]:
    partitions = [{"partition_index": number, "committed_offset": offset, **more} for number, offset in found]
    return [{"name": "tides", "partitions": partitions}]


def errors(found: Values) -> list[int]:
    return [each["error_code"] for topic in found["topics"] for each in topic["partitions"]]


async def fetched(wire: KafkaWire, group: str, topics: Any = None) -> list[tuple[int, int]]:
    found = await wire.ask(OFFSET_FETCH.key, 7, group_id=group, topics=topics)
    assert found["error_code"] == 0
    return sorted(
        (each["partition_index"], each["committed_offset"])
        for topic in found["topics"]
        for each in topic["partitions"]
    )


async def ask_and_close(wire: KafkaWire, api: ApiWire[Any, Any], version: int, **values: Any) -> None:
    data = encode_request(api.key, version, values)
    wire.send(len(data).to_bytes(4, "big") + data)
    wire.writer.close()
    await wire.writer.wait_closed()
