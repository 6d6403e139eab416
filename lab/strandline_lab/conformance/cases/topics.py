"""Topics that are created, grown and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from strandline_lab.conformance.case import Call, Case, Topic, TopicId
from strandline_lab.conformance.cases.cluster import INVALID, LONG, NO_TOPIC, TOO_LONG

THERE: Final = Topic("topics.there", 2)
MS: Final = 20_000
NEWEST: Final = 7
"""Configs do not depend on the version."""


def _new(name: str, partitions: int = 1, replicas: int = 3, **more: Any) -> dict[str, Any]:
    return {"Name": name, "NumPartitions": partitions, "ReplicationFactor": replicas, **more}


def _placed(
    name: str, brokers: Mapping[int, Sequence[int]], partitions: int = -1, replicas: int = -1
) -> dict[str, Any]:
    assignments = [{"PartitionIndex": index, "BrokerIds": list(each)} for index, each in brokers.items()]
    return _new(name, partitions, replicas, Assignments=assignments)


def _create(name: str, *topics: Mapping[str, Any], since: int = 0, **more: Any) -> Case:
    body = {"Topics": list(topics), "timeoutMs": MS, **more}
    return Case(name, Call("CreateTopics", body, settled=False), topics=(THERE,), since=since)


def _configured(topic: str, config: str, value: str | None) -> Case:
    new = _new(f"topics.config.{topic}.{{v}}", Configs=[{"Name": config, "Value": value}])
    return _create(f"{config}={value!r}", new, since=NEWEST)


CONFIGS: Final[Mapping[str, Sequence[str | None]]] = {
    "cleanup.policy": (
        "compact",
        "delete",
        "compact,delete",
        "",
        "nothing",
        None,
    ),
    "compression.type": (
        "producer",
        "lz4",
        "uncompressed",
        "none",
        "fast",
    ),
    "delete.retention.ms": (
        "1000",
        "-1",
    ),
    "file.delete.delay.ms": ("1000",),
    "flush.messages": (
        "1",
        "0",
    ),
    "flush.ms": ("1000",),
    "index.interval.bytes": ("4096",),
    "max.compaction.lag.ms": ("100000",),
    "max.message.bytes": (
        "100000",
        "10485760",
        "0",
        "-1",
    ),
    "message.timestamp.after.max.ms": ("3600000",),
    "message.timestamp.before.max.ms": ("3600000",),
    "message.timestamp.type": (
        "CreateTime",
        "LogAppendTime",
        "Never",
    ),
    "min.cleanable.dirty.ratio": (
        "0.1",
        "1.5",
    ),
    "min.compaction.lag.ms": ("10",),
    "min.insync.replicas": (
        "1",
        "3",
        "4",
        "0",
        "x",
    ),
    "preallocate": (
        "true",
        "perhaps",
    ),
    "remote.storage.enable": ("true",),
    "retention.bytes": (
        "1000000",
        "-1",
        "-2",
    ),
    "retention.ms": (
        "60000",
        "-1",
        "-2",
        "1d",
        None,
    ),
    "segment.bytes": (
        "1048576",
        "10",
    ),
    "segment.index.bytes": ("1024",),
    "segment.jitter.ms": ("10",),
    "segment.ms": (
        "60000",
        "0",
    ),
    "unclean.leader.election.enable": (
        "true",
        "1",
    ),
    "unknown.config": ("1",),
    "": ("1",),
    "message.format.version": ("3.0",),
    "message.downconversion.enable": ("true",),
    "leader.replication.throttled.replicas": ("0:1",),
    "follower.replication.throttled.replicas": ("*",),
}


def _config(retention_ms: str) -> list[dict[str, Any]]:
    return [{"Name": "retention.ms", "Value": retention_ms}]


_CREATE: Final = (
    _create("one topic", _new("topics.new.{v}")),
    _create("three partitions", _new("topics.new3.{v}", 3, 2)),
    _create("the broker's choice", _new("topics.choice.{v}", -1, -1), since=4),
    _create("no topics"),
    _create("a topic that is there", _new(THERE.name)),
    _create("a topic that is there, and another", _new(THERE.name), _new("topics.with.{v}")),
    _create("a topic twice", _new("topics.twice.{v}"), _new("topics.twice.{v}")),
    _create("no partitions", _new("topics.zero.{v}", 0)),
    _create("partitions below -1", _new("topics.negative.{v}", -2)),
    _create("no replicas", _new("topics.zero.replicas.{v}", 1, 0)),
    _create("replicas below -1", _new("topics.negative.replicas.{v}", 1, -2)),
    _create("more replicas than brokers", _new("topics.many.replicas.{v}", 1, 4)),
    _create("only validated", _new("topics.validated.{v}"), validateOnly=True),
    _create("only validated, a topic that is there", _new(THERE.name), validateOnly=True),
    _create(
        "only validated, more replicas than brokers", _new("topics.validated.{v}", 1, 4), validateOnly=True
    ),
    _create("a timeout of 0", _new("topics.timeout.{v}", 1, 4), timeoutMs=0),
    _create("a long name", _new(LONG[:-3] + "-{v}")),
    _create("a name that is too long", _new(TOO_LONG)),
    *(_create(f"the invalid name {name!r}", _new(name)) for name in INVALID),
    _create("names that collide", _new("topics_there")),
    _create("names that collide within the request", _new("topics.a_b.{v}"), _new("topics.a.b.{v}")),
    _create("a name of the system", _new("__topics.{v}")),
    _create("the name of Kafka's offsets", _new("__consumer_offsets")),
    _create("placed", _placed("topics.placed.{v}", {0: (1, 2), 1: (2, 3)})),
    _create("placed, with partitions", _placed("topics.placed2.{v}", {0: (1, 2)}, 1)),
    _create("placed, with replicas", _placed("topics.placed3.{v}", {0: (1, 2)}, -1, 2)),
    _create("placed, a broker twice", _placed("topics.placed4.{v}", {0: (1, 1)})),
    _create("placed, an unknown broker", _placed("topics.placed5.{v}", {0: (1, 9)})),
    _create("placed, no brokers", _placed("topics.placed6.{v}", {0: ()})),
    _create("placed, not from 0", _placed("topics.placed7.{v}", {1: (1, 2)})),
    _create("placed, with a gap", _placed("topics.placed8.{v}", {0: (1, 2), 2: (1, 2)})),
    _create("placed, unequal numbers", _placed("topics.placed9.{v}", {0: (1, 2), 1: (1,)})),
    _create("placed, negative broker", _placed("topics.placed10.{v}", {0: (-1,)})),
    _create("a config twice", _new("topics.config.twice.{v}", Configs=[*_config("1"), *_config("2")])),
    *(
        _configured(f"{config or 'empty'}.{number}", config, value)
        for config, values in CONFIGS.items()
        for number, value in enumerate(values)
    ),
)


def _delete(name: str, *topics: Any, **more: Any) -> Case:
    """`topics` are names, or ids as dicts."""
    states = [{"Name": each} if isinstance(each, str) else each for each in topics]
    names = [each for each in topics if isinstance(each, str)]
    body = {"Topics": states, "TopicNames": names, "TimeoutMs": MS, **more}
    needed = [Topic(each) for each in names if "gone" in each]
    ids = any(not isinstance(each, str) for each in topics)
    return Case(
        name, Call("DeleteTopics", body, settled=False), topics=(THERE, *needed), since=6 if ids else 0
    )


def _by_id(topic: str) -> dict[str, Any]:
    return {"Name": None, "TopicId": TopicId(topic)}


def _delete_by(name: str, topic: Topic, *states: Mapping[str, Any]) -> Case:
    call = Call("DeleteTopics", {"Topics": list(states), "TimeoutMs": MS}, settled=False)
    return Case(name, call, topics=(topic,), since=6)


def _names(*topics: str) -> dict[str, Any]:
    return {"Topics": [{"Name": each} for each in topics], "TopicNames": list(topics), "TimeoutMs": MS}


_DELETE: Final = (
    _delete("one topic", "topics.gone.{v}"),
    _delete("two topics", "topics.gone1.{v}", "topics.gone2.{v}"),
    _delete("no topics"),
    _delete("an unknown topic", "topics.unknown"),
    _delete("one topic and an unknown one", "topics.gone3.{v}", "topics.unknown"),
    _delete("a topic twice", "topics.gone4.{v}", "topics.gone4.{v}"),
    _delete("an unknown topic twice", "topics.unknown", "topics.unknown"),
    *(_delete(f"the invalid name {name!r}", name) for name in INVALID),
    _delete("a topic of the system", "__consumer_offsets_that_are_not_there"),
    _delete("an unknown id", {"Name": None, "TopicId": NO_TOPIC}),
    _delete("no id and no name", {"Name": None}),
    _delete_by(
        "an id and a name",
        Topic("topics.gone8.{v}"),
        {"Name": "topics.gone8.{v}", "TopicId": TopicId("topics.gone8.{v}")},
    ),
    _delete("an unknown id twice", {"Name": None, "TopicId": NO_TOPIC}, {"Name": None, "TopicId": NO_TOPIC}),
    _delete_by("by its id", Topic("topics.gone5.{v}"), _by_id("topics.gone5.{v}")),
    _delete_by(
        "by its id and its name",
        Topic("topics.gone6.{v}"),
        {"Name": "topics.gone6.{v}"},
        _by_id("topics.gone6.{v}"),
    ),
    Case(
        "deleted before",
        Call("DeleteTopics", _names("topics.gone7.{v}")),
        topics=(Topic("topics.gone7.{v}"),),
        before=[Call("DeleteTopics", _names("topics.gone7.{v}"), version=5)],
    ),
)


def _grow(name: str, *topics: Mapping[str, Any], **more: Any) -> Case:
    body = {"Topics": list(topics), "TimeoutMs": MS, **more}
    needed = [Topic(each["Name"]) for each in topics if "grown" in each["Name"]]
    return Case(name, Call("CreatePartitions", body, settled=False), topics=(THERE, *needed))


def _more(name: str, count: int, *brokers: Sequence[int]) -> dict[str, Any]:
    assignments = [{"BrokerIds": list(each)} for each in brokers] if brokers else None
    return {"Name": name, "Count": count, "Assignments": assignments}


_GROW: Final = (
    _grow("one more", _more("topics.grown.{v}", 2)),
    _grow("placed", _more("topics.grown1.{v}", 3, (1, 2, 3), (2, 1, 3))),
    _grow("no topics"),
    _grow("an unknown topic", _more("topics.unknown", 2)),
    _grow("the same number", _more(THERE.name, 2)),
    _grow("fewer", _more(THERE.name, 1)),
    _grow("none", _more(THERE.name, 0)),
    _grow("a negative number", _more(THERE.name, -1)),
    _grow("a topic twice", _more("topics.grown2.{v}", 2), _more("topics.grown2.{v}", 3)),
    _grow("only validated", _more(THERE.name, 3), ValidateOnly=True),
    _grow("only validated, fewer", _more(THERE.name, 1), ValidateOnly=True),
    _grow("placed, too few", _more(THERE.name, 4, (1, 2, 3))),
    _grow("placed, too many", _more(THERE.name, 3, (1, 2, 3), (1, 2, 3))),
    _grow("placed, an unknown broker", _more(THERE.name, 3, (1, 2, 9))),
    _grow("placed, a broker twice", _more(THERE.name, 3, (1, 1, 2))),
    _grow("placed, other replicas", _more(THERE.name, 3, (1, 2))),
    _grow("placed, no brokers", _more(THERE.name, 3, ())),
    _grow("too many partitions", _more(THERE.name, 2_000_000), ValidateOnly=True),
    *(_grow(f"the invalid name {name!r}", _more(name, 2)) for name in INVALID),
)

CASES: Final = (*_CREATE, *_DELETE, *_GROW)
