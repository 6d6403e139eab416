"""The layout in ZooKeeper: every path, and what each znode holds (docs/design.md, "ZooKeeper").

Data is JSON, so that an operator can read it with any client. Unknown fields are ignored, missing
ones raise `ValueError` with the path's name: a znode that somebody else wrote is not guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicId
from strandline.metadata import (
    Drain,
    Endpoint,
    IsrMember,
    PartitionState,
    Reassignment,
    Registration,
    Replaced,
)
from strandline.ports import Check
from strandline.state_changes import StateChangeEvent, dump_event, load_event
from strandline.topics import check_topic_name

logger = structlog.get_logger(__name__)

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
TOPIC_IDS: Final = "/brokers/topic_ids"
REASSIGNED: Final = "/brokers/partitions_reassigned"
DRAINS: Final = "/admin/drains"

SKELETON: Final = (
    BROKER_IDS, TOPICS, STATE, ELECTIONS, EPOCH, PRODUCER_IDS, CONTROLLER_EPOCH, DELETE_TOPICS, REASSIGNED,
    DRAINS, TOPIC_IDS,
)  # fmt: skip
"""Persistent paths that every process makes sure of when it starts."""


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def _named(name: str) -> str:
    """A topic's name as a part of a path: nothing that anybody sends leads to another znode.

    Raises InvalidTopic.
    """
    check_topic_name(name)
    return name


def topic(name: str) -> str:
    """Raises InvalidTopic, as all do that make a path of a topic's name."""
    return f"{TOPICS}/{_named(name)}"


def partition(name: str, number: int) -> str:
    return f"{TOPICS}/{_named(name)}/{number}"


def replicas(name: str, number: int) -> str:
    return f"{TOPICS}/{_named(name)}/{number}/replicas"


def leader(name: str, number: int) -> str:
    return f"{TOPICS}/{_named(name)}/{number}/leader"


def isr(name: str, number: int) -> str:
    return f"{TOPICS}/{_named(name)}/{number}/isr"


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
    return f"{DELETE_TOPICS}/{_named(name)}"


def topic_id(incarnation: TopicId) -> str:
    """Stands as long as this incarnation of a topic does."""
    return f"{TOPIC_IDS}/{incarnation}"


def of_incarnation(incarnation: TopicId) -> Check:
    """For every write to the znodes of a topic or its partitions that was decided on what they held.

    A topic that is created again under its name has the same paths, and versions that begin anew: to compare
    them alone would let who still means the old one write over the new one.
    """
    return Check(topic_id(incarnation))


def reassigned_topic(name: str) -> str:
    """Has a child for each partition under reassignment; gone when none is."""
    return f"{REASSIGNED}/{_named(name)}"


def reassigned(name: str, number: int) -> str:
    return f"{REASSIGNED}/{_named(name)}/{number}"


def drain(broker_id: int) -> str:
    return f"{DRAINS}/{broker_id}"


# --- what they hold -------------------------------------------------------------------------


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def load(what: str, data: bytes) -> Any:
    """Raises ValueError that names what it is."""
    try:
        return json.loads(data)
    except ValueError as error:
        raise ValueError(f"{what} is not JSON: {data[:80]!r}") from error


def dump_registration(registration: Registration) -> bytes:
    end = registration.endpoint
    return dump(
        {
            "host": end.host,
            "port": end.port,
            "rack": end.rack,
            "external": end.external,
            "shutting_down": registration.shutting_down,
        }
    )


def _external(raw: Mapping[str, Any]) -> tuple[str, int] | None:
    """Of a member. Absent in what was written before there were second listeners."""
    found = raw.get("external")
    return None if found is None else (found[0], found[1])


def load_registration(broker_id: int, data: bytes, czxid: int) -> Registration:
    raw = load(broker(broker_id), data)
    try:
        endpoint = Endpoint(broker_id, raw["host"], raw["port"], raw["rack"], _external(raw))
        return Registration(endpoint, BrokerEpoch(czxid), bool(raw["shutting_down"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{broker(broker_id)} lacks {error}: {data[:200]!r}") from error


@dataclass(frozen=True, slots=True)
class TopicNode:
    """`/brokers/topics/[topic]`: the incarnation's id, the overridden config, the partition count.

    No partitions: the topic is not there yet. Its creation takes more than one write, and this is the
    first of them; the last one writes the count. So does an addition of partitions that takes more than one:
    `growing` says how many there are to be, and nobody sees those beyond the count until they all are.
    """

    topic_id: TopicId
    partitions: int
    config: Mapping[str, str]
    growing: int = 0


def dump_topic(node: TopicNode) -> bytes:
    fields: dict[str, Any] = {
        "id": node.topic_id,
        "partitions": node.partitions,
        "config": dict(node.config),
    }
    if node.growing:
        fields["growing"] = node.growing
    return dump(fields)


def load_topic(name: str, data: bytes) -> TopicNode:
    raw = load(topic(name), data)
    try:
        growing = int(raw.get("growing", 0))
        return TopicNode(TopicId(raw["id"]), int(raw["partitions"]), dict(raw["config"]), growing)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{topic(name)} lacks {error}: {data[:200]!r}") from error


def dump_replicas(assigned: Sequence[int]) -> bytes:
    return dump(list(assigned))


def load_replicas(name: str, number: int, data: bytes) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(int(b)) for b in load(replicas(name, number), data))


def dump_isr(state: PartitionState) -> bytes:
    fields: dict[str, Any] = {
        "leader": state.leader,
        "epoch": state.leader_epoch,
        "isr": [[member.broker, member.broker_epoch] for member in state.isr],
    }
    if state.trail:
        fields["trail"] = [dump_event(event) for event in state.trail]
    return dump(fields)


def load_isr(name: str, number: int, data: bytes) -> PartitionState:
    raw = load(isr(name, number), data)
    try:
        members = tuple(IsrMember(BrokerId(b), BrokerEpoch(e)) for b, e in raw["isr"])
        state = PartitionState(BrokerId(raw["leader"]), LeaderEpoch(raw["epoch"]), members)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{isr(name, number)} lacks {error}: {data[:200]!r}") from error
    trail = raw.get("trail")
    return replace(state, trail=_load_trail(isr(name, number), trail)) if trail else state


def _load_trail(path: str, raw: Any) -> tuple[StateChangeEvent, ...]:
    """Passes over what is no event, or one of a later version: no election fails for the sake of a record."""
    events = []
    for fields in raw if isinstance(raw, list) else [raw]:
        try:
            events.append(load_event(fields))
        except (ValueError, AttributeError) as error:
            logger.error("not an event: it will not be recorded", path=path, reason=str(error))
    return tuple(events)


def dump_leader(broker_id: BrokerId, broker_epoch: BrokerEpoch, leader_epoch: LeaderEpoch) -> bytes:
    return dump({"broker": broker_id, "broker_epoch": broker_epoch, "epoch": leader_epoch})


def dump_deletion(topic_id: TopicId) -> bytes:
    return dump({"id": topic_id})


def load_deletion(name: str, data: bytes) -> TopicId:
    raw = load(delete_topic(name), data)
    try:
        return TopicId(raw["id"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{delete_topic(name)} lacks {error}: {data[:200]!r}") from error


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """`/controller`: the active one and its fencing epoch (version of `/controller_epoch`)."""

    endpoint: Endpoint
    epoch: int


def dump_controller(node: ControllerNode) -> bytes:
    end = node.endpoint
    return dump(
        {"id": end.id, "host": end.host, "port": end.port, "external": end.external, "epoch": node.epoch}
    )


def load_controller(data: bytes) -> ControllerNode:
    raw = load(CONTROLLER, data)
    try:
        endpoint = Endpoint(raw["id"], raw["host"], raw["port"], external=_external(raw))
        return ControllerNode(endpoint, raw["epoch"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{CONTROLLER} lacks {error}: {data[:200]!r}") from error


def dump_reassignment(wanted: Reassignment) -> bytes:
    return dump(
        {
            "id": wanted.topic_id,
            "replicas": list(wanted.replicas),
            "original": list(wanted.original),
            "throttle": wanted.throttle_bytes_per_s,
            "reverting": wanted.reverting,
            "request": wanted.request_id,
            "at": wanted.at_ms,
            "replaced": [[r.request_id, list(r.replicas), r.at_ms, r.until_ms] for r in wanted.replaced],
        }
    )


def load_reassignment(name: str, number: int, data: bytes) -> Reassignment:
    raw = load(reassigned(name, number), data)
    try:
        return Reassignment(
            TopicId(raw["id"]),
            tuple(BrokerId(int(b)) for b in raw["replicas"]),
            tuple(BrokerId(int(b)) for b in raw["original"]),
            int(raw["throttle"]),
            bool(raw["reverting"]),
            raw["request"],
            int(raw["at"]),
            tuple(
                Replaced(request_id, tuple(BrokerId(int(b)) for b in replicas), int(at_ms), int(until_ms))
                for request_id, replicas, at_ms, until_ms in raw["replaced"]
            ),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{reassigned(name, number)} lacks {error}: {data[:200]!r}") from error


def dump_drain(wanted: Drain) -> bytes:
    return dump(
        {
            "broker_epoch": wanted.broker_epoch,
            "replicas": wanted.replicas,
            "throttle": wanted.throttle_bytes_per_s,
        }
    )


def load_drain(broker_id: int, data: bytes) -> Drain:
    raw = load(drain(broker_id), data)
    try:
        return Drain(BrokerEpoch(int(raw["broker_epoch"])), bool(raw["replicas"]), int(raw["throttle"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{drain(broker_id)} lacks {error}: {data[:200]!r}") from error
