"""Versions, brokers, topics and coordinators: what a client asks first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from strandline_lab.conformance.case import Call, Case, Topic, TopicId

READ: Final = Topic("cluster.read", 3)
CONFIGURED: Final = Topic("cluster.configured", 1, {"cleanup.policy": "compact"})
UNKNOWN: Final = "cluster.unknown"
NO_TOPIC: Final = UUID("7f4e0b6e-1111-4222-8333-a1b2c3d4e5f6")
ASKS: Final = 4
"""Older versions create each topic that they name."""
LONG: Final = "n" * 249
TOO_LONG: Final = "n" * 250
INVALID: Final = ("", ".", "..", "a b", "a/b", "ä", "a:b", "a\u0000b")


def _metadata(name: str, topics: list[Mapping[str, Any]] | None, since: int = 0, **more: Any) -> Case:
    body = {"Topics": topics, "AllowAutoTopicCreation": False, **more}
    return Case(name, Call("Metadata", body, settled=False), topics=(READ, CONFIGURED), since=since)


def _found(name: str, kind: int, key: str, since: int = 0, **more: Any) -> Case:
    body = {"Key": key, "KeyType": kind, "CoordinatorKeys": [key], **more}
    return Case(name, Call("FindCoordinator", body), since=since)


def _cluster(name: str, since: int = 0, **body: Any) -> Case:
    return Case(name, Call("DescribeCluster", body), since=since)


def _by_id(topic: str, name: str | None = None) -> dict[str, Any]:
    return {"Name": name, "TopicId": TopicId(topic)}


def _client(name: str, software: str, version: str = "1.0", since: int = 3, **more: Any) -> Case:
    body = {"ClientSoftwareName": software, "ClientSoftwareVersion": version, **more}
    return Case(name, Call("ApiVersions", body), since=since)


_VERSIONS: Final = (
    _client("a client", "client", since=0),
    _client("no name", ""),
    _client("no version", "client", ""),
    _client("a name with a space", "a b"),
    _client("a name with a hyphen at its end", "a-"),
    _client("another cluster", "client", since=5, ClusterId="other"),
    _client("another broker", "client", since=5, NodeId=99),
    _client("this broker", "client", since=5, NodeId=1),
)

_NAMES: Final = (
    _metadata("one topic", [{"Name": READ.name}]),
    _metadata("two topics", [{"Name": READ.name}, {"Name": CONFIGURED.name}]),
    _metadata("no topics", [], since=1),
    Case("all topics", Call("Metadata", {"Topics": None}), topics=(READ,), since=1, only=READ.name),
    _metadata("an unknown topic", [{"Name": UNKNOWN}], since=ASKS),
    _metadata("one topic and an unknown one", [{"Name": READ.name}, {"Name": UNKNOWN}], since=ASKS),
    _metadata("one topic twice", [{"Name": READ.name}, {"Name": READ.name}]),
    _metadata("an unknown topic twice", [{"Name": UNKNOWN}, {"Name": UNKNOWN}], since=ASKS),
    _metadata("a long name", [{"Name": LONG}], since=ASKS),
    _metadata("a name that is too long", [{"Name": TOO_LONG}]),
    *(_metadata(f"the invalid name {name!r}", [{"Name": name}]) for name in INVALID),
    *(
        _metadata(f"creation of {name!r}", [{"Name": name}], since=4, AllowAutoTopicCreation=True)
        for name in INVALID[:4]
    ),
    _metadata("rights on a topic", [{"Name": READ.name}], since=8, IncludeTopicAuthorizedOperations=True),
    _metadata("rights on the cluster", [], since=8, IncludeClusterAuthorizedOperations=True),
    _metadata("rights on an unknown topic", [{"Name": UNKNOWN}], 8, IncludeTopicAuthorizedOperations=True),
    Case("created on demand", Call("Metadata", {"Topics": [{"Name": "cluster.demand.{v}"}]}, settled=False)),
    Case(
        "created on demand before",
        Call("Metadata", {"Topics": [{"Name": "cluster.demand2.{v}"}]}),
        before=[Call("Metadata", {"Topics": [{"Name": "cluster.demand2.{v}"}]}, version=4)],
    ),
)

_IDS: Final = (
    _metadata("an id and a null name", [_by_id(READ.name)], since=10),
    _metadata("an id and an empty name", [_by_id(READ.name, "")], since=10),
    _metadata("an id and its name", [_by_id(READ.name, READ.name)], since=10),
    _metadata("an id and the name of another", [_by_id(READ.name, CONFIGURED.name)], since=10),
    _metadata("an unknown id", [{"Name": None, "TopicId": NO_TOPIC}], since=10),
    _metadata("an unknown id and a known name", [{"Name": READ.name, "TopicId": NO_TOPIC}], since=10),
    _metadata("no id and no name", [{"Name": None}], since=10),
    _metadata("ids of two topics", [_by_id(READ.name), _by_id(CONFIGURED.name)], since=12),
    _metadata("an id twice", [_by_id(READ.name), _by_id(READ.name)], since=12),
    _metadata("a name and an id", [{"Name": READ.name}, _by_id(CONFIGURED.name)], since=12),
)

_COORDINATORS: Final = (
    _found("a group", 0, "cluster.group"),
    _found("a group without a name", 0, ""),
    _found("a transactional id", 1, "cluster.transaction", since=1),
    _found("a transactional id without a name", 1, "", since=1),
    _found("a share partition", 2, "cluster.share:AAAAAAAAAAAAAAAAAAAAAA:0", since=1),
    _found("a share partition that is none", 2, "cluster.share", since=1),
    _found("a kind that is not there", 3, "cluster.group", since=1),
    _found("a negative kind", -1, "cluster.group", since=1),
    _found("no keys", 0, "", since=4, CoordinatorKeys=[]),
    _found("two groups", 0, "", since=4, CoordinatorKeys=["cluster.group", "cluster.group.2"]),
    _found("a group twice", 0, "", since=4, CoordinatorKeys=["cluster.group", "cluster.group"]),
    _found("a group and no name", 0, "", since=4, CoordinatorKeys=["cluster.group", ""]),
)

_CLUSTER: Final = (
    _cluster("brokers"),
    _cluster("authorized operations", IncludeClusterAuthorizedOperations=True),
    _cluster("controllers", since=1, EndpointType=2),
    _cluster("endpoints of no kind", since=1, EndpointType=0),
    _cluster("endpoints of an unknown kind", since=1, EndpointType=7),
    _cluster("fenced brokers", since=2, IncludeFencedBrokers=True),
)


def _partitions(name: str, *topics: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Case:
    body = {
        "Topics": [{"Name": each} for each in topics],
        "ResponsePartitionLimit": limit,
        "Cursor": cursor and {"TopicName": cursor[0], "PartitionIndex": cursor[1]},
    }
    return Case(name, Call("DescribeTopicPartitions", body), topics=(READ, CONFIGURED))


_PARTITIONS: Final = (
    _partitions("one topic", READ.name),
    _partitions("two topics", READ.name, CONFIGURED.name),
    _partitions("one topic twice", READ.name, READ.name),
    _partitions("an unknown topic", UNKNOWN),
    _partitions("an empty name", ""),
    _partitions("an invalid name", "a b"),
    _partitions("a limit", READ.name, CONFIGURED.name, limit=2),
    _partitions("a limit of none", READ.name, limit=0),
    _partitions("a negative limit", READ.name, limit=-1),
    _partitions("a cursor", READ.name, cursor=(READ.name, 1)),
    _partitions("a cursor at another topic", READ.name, cursor=("cluster.zzz", 0)),
    _partitions("a cursor beyond the partitions", READ.name, cursor=(READ.name, 9)),
    _partitions("a cursor at a negative partition", READ.name, cursor=(READ.name, -1)),
)


def _resources(name: str, types: list[int], since: int = 0) -> Case:
    return Case(name, Call("ListConfigResources", {"ResourceTypes": types}), since=since)


_RESOURCES: Final = (
    _resources("client metrics", [16]),
    _resources("brokers", [4], since=1),
    _resources("loggers", [8], since=1),
    _resources("groups", [32], since=1),
    _resources("an unknown type", [99], since=1),
    _resources("the type of none", [0], since=1),
    _resources("brokers twice", [4, 4], since=1),
)

CASES: Final = (*_VERSIONS, *_NAMES, *_IDS, *_COORDINATORS, *_CLUSTER, *_PARTITIONS, *_RESOURCES)
