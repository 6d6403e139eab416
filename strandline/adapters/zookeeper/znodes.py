"""The layout in ZooKeeper: every path, and the content of each znode (docs/design.md, "ZooKeeper").

Data is JSON, so that an operator can read it with any client. Unknown fields are ignored; a field
that is missing, of another type or out of bounds raises `UnreadableZnode` with the path's name: no
content is guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from strandline.config.limits import PARTITIONS_PER_TOPIC_MAX
from strandline.ids import NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, TopicId
from strandline.ports import Check, Znode
from strandline.vocabulary.metadata import (
    Endpoint,
    Registration,
)
from strandline.vocabulary.parsing.typed_json import (
    INT32_MAX,
    UnreadableJson,
    broker_numbers,
    integer,
    parse,
    text,
    unreadable_as,
)
from strandline.vocabulary.topics import check_topic_name, is_topic_name

CLUSTER_ID: Final = "/cluster_id"
CLUSTER_ID_LENGTH_MAX: Final = 128
MEMBER_KEY: Final = "/member_key"
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
BALANCE: Final = "/admin/balance"
UNRECORDED: Final = "/admin/unrecorded_events"

SKELETON: Final = (
    BROKER_IDS, TOPICS, STATE, ELECTIONS, EPOCH, PRODUCER_IDS, CONTROLLER_EPOCH, DELETE_TOPICS, REASSIGNED,
    DRAINS, TOPIC_IDS, UNRECORDED,
)  # fmt: skip
"""Persistent paths that every process creates at its start if they are missing."""


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def _named(name: str) -> str:
    """A topic's name as a part of a path; it is checked, so that no client's name leads to another
    znode.

    Raises InvalidTopic.
    """
    check_topic_name(name)
    return name


def topic(name: str) -> str:
    """Raises InvalidTopic, as do all functions that make a path of a topic's name."""
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
    """The path prefix for a sequential create."""
    return f"{STATE}/{broker_id}/request-"


def elections(broker_id: int) -> str:
    return f"{ELECTIONS}/{broker_id}"


def election_notice_prefix(broker_id: int) -> str:
    """The path prefix for a sequential create."""
    return f"{ELECTIONS}/{broker_id}/notice-"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{_named(name)}"


def topic_id(incarnation: TopicId) -> str:
    """Exists as long as this incarnation of a topic does."""
    return f"{TOPIC_IDS}/{incarnation}"


def of_incarnation(incarnation: TopicId) -> Check:
    """The check for every write to the znodes of a topic or its partitions that depends on their
    content.

    A topic that is created again under its name has the same paths, and versions that begin again.
    Comparing versions alone would let a writer that refers to the old topic overwrite the new one.
    """
    return Check(topic_id(incarnation))


def reassigned_topic(name: str) -> str:
    """Has a child for each partition under reassignment; deleted when there is none."""
    return f"{REASSIGNED}/{_named(name)}"


def reassigned(name: str, number: int) -> str:
    return f"{REASSIGNED}/{_named(name)}/{number}"


def drain(broker_id: int) -> str:
    return f"{DRAINS}/{broker_id}"


def unrecorded(identifier: str) -> str:
    return f"{UNRECORDED}/{identifier}"


# --- contents --------------------------------------------------------------------------------


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))  # `json.dumps` would make one for each znode


def dump(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()


class UnreadableZnode(UnreadableJson):
    """A znode's data is not what its path requires. Readers skip the znode."""


@contextmanager
def reading(path: str, data: bytes) -> Iterator[Any]:
    """The JSON of a znode. Errors of its decoding are raised as UnreadableZnode."""
    with unreadable_as(UnreadableZnode, path, data):
        yield parse(data)


def topic_names(children: Iterable[str]) -> list[str]:
    """The znode names that are legal topic names, in order. Others were made by hand."""
    return sorted(filter(is_topic_name, children))


def numbers(names: Iterable[str]) -> list[int]:
    """The znode names that are numbers, of partitions for instance."""
    return [int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10]


def broker_ids(names: Iterable[str]) -> list[BrokerId]:
    """The znode names that are ids of brokers."""
    return [BrokerId(number) for number in numbers(names)]


def load_cluster_id(data: bytes) -> str:
    with unreadable_as(UnreadableZnode, CLUSTER_ID, data):
        found = text(data.decode())
        if not 0 < len(found) <= CLUSTER_ID_LENGTH_MAX or not found.isascii() or not found.isprintable():
            raise ValueError("it is no cluster's id")
        return found


def _port(raw: Any) -> int:
    return integer(raw, least=0, most=65_535)


def dump_registration(registration: Registration) -> bytes:
    end = registration.endpoint
    return dump(
        {
            "host": end.host,
            "port": end.port,
            "rack": end.rack,
            "external": end.external,
            "kafka": end.kafka,
            "kafka_external": end.kafka_external,
            "encrypted": end.encrypted,
            "replication": end.replication,
            "shutting_down": registration.shutting_down,
            "follower_fetch": registration.follower_fetch,
        }
    )


def _address(raw: Mapping[str, Any], name: str) -> tuple[str, int] | None:
    """An address that not every member has, such as `external`. Earlier versions wrote fewer of them."""
    found = raw.get(name)
    return None if found is None else (text(found[0]), _port(found[1]))


def load_registration(broker_id: int, data: bytes, czxid: int) -> Registration:
    with reading(broker(broker_id), data) as raw:
        endpoint = Endpoint(
            broker_id,
            text(raw["host"]),
            _port(raw["port"]),
            text(raw["rack"]),
            _address(raw, "external"),
            _address(raw, "kafka"),
            _address(raw, "kafka_external"),
            bool(raw.get("encrypted", False)),
            _address(raw, "replication"),
        )
        return Registration(
            endpoint,
            BrokerEpoch(czxid),
            bool(raw["shutting_down"]),
            follower_fetch=bool(raw.get("follower_fetch", False)),
        )


@dataclass(frozen=True, slots=True)
class TopicNode:
    """`/brokers/topics/[topic]`: the incarnation's id, the overridden config, the partition count.

    No partitions: the topic does not exist yet. Its creation takes more than one write, and this is
    the first of them; the last one writes the count. An addition of partitions that takes more than
    one write works alike: `growing` is the future count, and partitions beyond the count are
    invisible until all of them exist.
    """

    topic_id: TopicId
    partitions: int
    config: Mapping[str, str]
    growing: int = 0
    above_epoch: int = NO_EPOCH
    """All epochs of its leaders are higher: the last one that was taken before it was created. NO_EPOCH: an
    earlier version created it."""


def dump_topic(node: TopicNode) -> bytes:
    fields: dict[str, Any] = {
        "id": node.topic_id,
        "partitions": node.partitions,
        "config": dict(node.config),
    }
    if node.growing:
        fields["growing"] = node.growing
    if node.above_epoch != NO_EPOCH:
        fields["above_epoch"] = node.above_epoch
    return dump(fields)


def load_topic(name: str, data: bytes) -> TopicNode:
    with reading(topic(name), data) as raw:
        return TopicNode(
            TopicId(text(raw["id"])),
            integer(raw["partitions"], least=0, most=PARTITIONS_PER_TOPIC_MAX),
            {text(key): text(value) for key, value in raw["config"].items()},
            integer(raw.get("growing", 0), least=0, most=PARTITIONS_PER_TOPIC_MAX),
            integer(raw.get("above_epoch", NO_EPOCH), most=INT32_MAX),
        )


@dataclass(frozen=True, slots=True)
class Epochs:
    """`/epoch`: the last epoch taken is `base` plus the znode's version.

    `lost`: the first and last of the epochs that were given in a time that ZooKeeper does not know
    of, because it was set back; None if that never happened.
    """

    base: int = 0
    lost: tuple[int, int] | None = None


def dump_epochs(epochs: Epochs) -> bytes:
    """Empty as long as the version alone is the epoch."""
    if epochs == Epochs():
        return b""
    return dump({"base": epochs.base, "lost": epochs.lost})


def load_epochs(data: bytes) -> Epochs:
    if not data:
        return Epochs()
    with reading(EPOCH, data) as raw:
        lost = raw["lost"]
        base = integer(raw["base"], least=0, most=INT32_MAX)
        return Epochs(base, None if lost is None else (integer(lost[0]), integer(lost[1])))


def last_epoch(node: Znode) -> LeaderEpoch:
    """The last epoch that was taken, of the znode `/epoch`."""
    return LeaderEpoch(load_epochs(node.data).base + node.version)


def dump_replicas(assigned: Sequence[int]) -> bytes:
    return dump(list(assigned))


def load_replicas(name: str, number: int, data: bytes) -> tuple[BrokerId, ...]:
    with reading(replicas(name, number), data) as raw:
        return broker_numbers(raw)


def dump_leader(broker_id: BrokerId, broker_epoch: BrokerEpoch, leader_epoch: LeaderEpoch) -> bytes:
    return dump({"broker": broker_id, "broker_epoch": broker_epoch, "epoch": leader_epoch})


def dump_deletion(topic_id: TopicId) -> bytes:
    return dump({"id": topic_id})


def load_deletion(name: str, data: bytes) -> TopicId:
    with reading(delete_topic(name), data) as raw:
        return TopicId(text(raw["id"]))


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """`/controller`: the active controller and its fencing epoch (version of `/controller_epoch`)."""

    endpoint: Endpoint
    epoch: int


def dump_controller(node: ControllerNode) -> bytes:
    end = node.endpoint
    return dump(
        {
            "id": end.id,
            "host": end.host,
            "port": end.port,
            "external": end.external,
            "encrypted": end.encrypted,
            "epoch": node.epoch,
        }
    )


def load_controller(data: bytes) -> ControllerNode:
    with reading(CONTROLLER, data) as raw:
        endpoint = Endpoint(
            integer(raw["id"], most=INT32_MAX),
            text(raw["host"]),
            _port(raw["port"]),
            external=_address(raw, "external"),
            encrypted=bool(raw.get("encrypted", False)),
        )
        return ControllerNode(endpoint, integer(raw["epoch"]))
