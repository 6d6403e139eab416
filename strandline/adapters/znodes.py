"""The layout in ZooKeeper: every path, and what each znode holds (docs/design.md, "ZooKeeper").

Data is JSON, so that an operator can read it with any client. Unknown fields are ignored, missing
ones raise `ValueError` with the path's name: a znode that somebody else wrote is not guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.metadata import Endpoint, IsrMember, PartitionState, Registration

CLUSTER_ID: Final = "/cluster_id"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
STATE: Final = "/brokers/state"
ELECTIONS: Final = "/brokers/elections"
EPOCH: Final = "/epoch"
PRODUCER_IDS: Final = "/producer_ids"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
DELETE_TOPICS: Final = "/admin/delete_topics"

SKELETON: Final = (
    BROKER_IDS, TOPICS, STATE, ELECTIONS, EPOCH, PRODUCER_IDS, CONTROLLER_EPOCH, DELETE_TOPICS,
)  # fmt: skip
"""Persistent paths that every process makes sure of when it starts."""


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partition(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/{number}"


def replicas(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/{number}/replicas"


def leader(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/{number}/leader"


def isr(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/{number}/isr"


def state_queue(broker_id: int) -> str:
    return f"{STATE}/{broker_id}"


def state_entry_prefix(broker_id: int) -> str:
    """For a sequential create."""
    return f"{STATE}/{broker_id}/request-"


def elections(broker_id: int) -> str:
    return f"{ELECTIONS}/{broker_id}"


def election_notice_prefix(broker_id: int) -> str:
    """For a sequential create."""
    return f"{ELECTIONS}/{broker_id}/notice-"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


# --- what they hold -------------------------------------------------------------------------


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _load(what: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise ValueError(f"{what} is not JSON: {data[:80]!r}") from error


def dump_registration(registration: Registration) -> bytes:
    end = registration.endpoint
    return _dump(
        {
            "host": end.host,
            "port": end.port,
            "rack": end.rack,
            "shutting_down": registration.shutting_down,
        }
    )


def load_registration(broker_id: int, data: bytes, czxid: int) -> Registration:
    raw = _load(broker(broker_id), data)
    try:
        endpoint = Endpoint(broker_id, raw["host"], raw["port"], raw["rack"])
        return Registration(endpoint, BrokerEpoch(czxid), bool(raw["shutting_down"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{broker(broker_id)} lacks {error}: {data[:200]!r}") from error


@dataclass(frozen=True, slots=True)
class TopicNode:
    """`/brokers/topics/[topic]`: the incarnation's id, the overridden config, the partition count.

    No partitions: the topic is not there yet. Its creation takes more than one write, and this is the
    first of them; the last one writes the count.
    """

    topic_id: TopicId
    partitions: int
    config: Mapping[str, str]


def dump_topic(node: TopicNode) -> bytes:
    return _dump({"id": node.topic_id, "partitions": node.partitions, "config": dict(node.config)})


def load_topic(name: str, data: bytes) -> TopicNode:
    raw = _load(topic(name), data)
    try:
        return TopicNode(TopicId(raw["id"]), int(raw["partitions"]), dict(raw["config"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{topic(name)} lacks {error}: {data[:200]!r}") from error


def dump_replicas(assigned: Sequence[int]) -> bytes:
    return _dump(list(assigned))


def load_replicas(name: str, number: int, data: bytes) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(int(b)) for b in _load(replicas(name, number), data))


def dump_isr(state: PartitionState) -> bytes:
    return _dump(
        {
            "leader": state.leader,
            "epoch": state.leader_epoch,
            "isr": [[member.broker, member.broker_epoch] for member in state.isr],
        }
    )


def load_isr(name: str, number: int, data: bytes) -> PartitionState:
    raw = _load(isr(name, number), data)
    try:
        members = tuple(IsrMember(BrokerId(b), BrokerEpoch(e)) for b, e in raw["isr"])
        return PartitionState(BrokerId(raw["leader"]), LeaderEpoch(raw["epoch"]), members)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{isr(name, number)} lacks {error}: {data[:200]!r}") from error


def dump_leader(broker_id: BrokerId, broker_epoch: BrokerEpoch, leader_epoch: LeaderEpoch) -> bytes:
    return _dump({"broker": broker_id, "broker_epoch": broker_epoch, "epoch": leader_epoch})


def dump_deletion(topic_id: TopicId) -> bytes:
    return _dump({"id": topic_id})


def load_deletion(name: str, data: bytes) -> TopicId:
    raw = _load(delete_topic(name), data)
    try:
        return TopicId(raw["id"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{delete_topic(name)} lacks {error}: {data[:200]!r}") from error


class Command(Enum):
    """What a state-change request asks of a broker (seed 002)."""

    START_REPLICA = "start-replica"
    DELETE_REPLICA = "delete-replica"


@dataclass(frozen=True, slots=True)
class StateChange:
    """One request in a broker's queue; a znode carries a list of them.

    `leader_epoch` and the topic id fence it: an older one is superseded, never executed (Q1).
    `requester` is a broker id, or -1 for the controller.
    """

    request_id: str
    command: Command
    topic: str
    key: PartitionKey
    leader_epoch: LeaderEpoch
    requester: BrokerId
    at_ms: int


def dump_state_changes(changes: Sequence[StateChange]) -> bytes:
    return _dump(
        [
            {
                "id": change.request_id,
                "command": change.command.value,
                "topic": change.topic,
                "topic_id": change.key.topic_id,
                "partition": change.key.partition,
                "epoch": change.leader_epoch,
                "requester": change.requester,
                "at": change.at_ms,
            }
            for change in changes
        ]
    )


def load_state_changes(data: bytes) -> list[StateChange]:
    raw = _load("state-change request", data)
    try:
        return [
            StateChange(
                item["id"],
                Command(item["command"]),
                item["topic"],
                PartitionKey(TopicId(item["topic_id"]), PartitionId(item["partition"])),
                LeaderEpoch(item["epoch"]),
                BrokerId(item["requester"]),
                item["at"],
            )
            for item in raw
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"a state-change request lacks {error}: {data[:200]!r}") from error


@dataclass(frozen=True, slots=True)
class ElectionNotice:
    """`/brokers/elections/[id]/…`: this partition has no leader now, you are next."""

    topic: str
    key: PartitionKey
    leader_epoch: LeaderEpoch
    """Epoch of the leader that stepped down."""


def dump_notices(notices: Sequence[ElectionNotice]) -> bytes:
    return _dump([[n.topic, n.key.topic_id, n.key.partition, n.leader_epoch] for n in notices])


def load_notices(data: bytes) -> list[ElectionNotice]:
    raw = _load("election notice", data)
    try:
        return [
            ElectionNotice(name, PartitionKey(TopicId(tid), PartitionId(number)), LeaderEpoch(epoch))
            for name, tid, number, epoch in raw
        ]
    except (TypeError, ValueError) as error:
        raise ValueError(f"an election notice is malformed: {data[:200]!r}") from error


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """`/controller`: the active one and its fencing epoch (version of `/controller_epoch`)."""

    endpoint: Endpoint
    epoch: int


def dump_controller(node: ControllerNode) -> bytes:
    end = node.endpoint
    return _dump({"id": end.id, "host": end.host, "port": end.port, "epoch": node.epoch})


def load_controller(data: bytes) -> ControllerNode:
    raw = _load(CONTROLLER, data)
    try:
        return ControllerNode(Endpoint(raw["id"], raw["host"], raw["port"]), raw["epoch"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{CONTROLLER} lacks {error}: {data[:200]!r}") from error
