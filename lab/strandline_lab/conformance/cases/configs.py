"""Configs of topics, brokers and other resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strandline_lab.conformance.case import Call, Case, Topic

THERE: Final = Topic("configs.there", 1, {"retention.ms": "1000000"})
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
UNKNOWN: Final = "configs.unknown"


def _described(
    name: str, *resources: tuple[int, str, Sequence[str] | None], since: int = 0, **more: Any
) -> Case:
    each = [
        {"ResourceType": kind, "ResourceName": which, "ConfigurationKeys": names and list(names)}
        for kind, which, names in resources
    ]
    return Case(name, Call("DescribeConfigs", {"Resources": each, **more}), topics=(THERE,), since=since)


_FEW: Final = ("retention.ms", "cleanup.policy")
_NONE: Sequence[str] = []

_DESCRIBE: Final = (
    _described("a topic", (TOPIC, THERE.name, None)),
    _described("two configs of a topic", (TOPIC, THERE.name, _FEW)),
    _described("no configs of a topic", (TOPIC, THERE.name, _NONE)),
    _described("an unknown config", (TOPIC, THERE.name, ["unknown.config"])),
    _described("a config twice", (TOPIC, THERE.name, ["retention.ms", "retention.ms"])),
    _described("synonyms", (TOPIC, THERE.name, _FEW), IncludeSynonyms=True),
    _described("documentation", (TOPIC, THERE.name, _FEW), since=3, IncludeDocumentation=True),
    _described("an unknown topic", (TOPIC, UNKNOWN, None)),
    _described("an empty topic", (TOPIC, "", None)),
    _described("an invalid topic", (TOPIC, "a b", None)),
    _described("a topic twice", (TOPIC, THERE.name, _FEW), (TOPIC, THERE.name, _FEW)),
    _described("a topic and an unknown one", (TOPIC, THERE.name, _FEW), (TOPIC, UNKNOWN, _FEW)),
    _described("a topic of the system", (TOPIC, "__consumer_offsets", ["cleanup.policy"])),
    _described("no resources"),
    _described("a broker's num.partitions", (BROKER, "1", ["num.partitions"])),
    _described("a broker's log.retention.hours", (BROKER, "1", ["log.retention.hours"])),
    _described("a broker's synonyms", (BROKER, "1", ["log.cleanup.policy"]), IncludeSynonyms=True),
    _described("an unknown broker", (BROKER, "9", ["num.partitions"])),
    _described("another broker", (BROKER, "2", ["num.partitions"])),
    _described("a broker that is no number", (BROKER, "x", ["num.partitions"])),
    _described("all brokers", (BROKER, "", ["num.partitions"])),
    _described("loggers", (LOGGER, "1", ["kafka"])),
    _described("loggers of an unknown broker", (LOGGER, "9", ["kafka"])),
    _described("client metrics", (METRICS, "m", None)),
    _described("a group", (GROUP, "configs.group", None)),
    _described("a group without a name", (GROUP, "", None)),
    _described("an unknown type", (77, "x", None)),
    _described("the type of none", (0, "x", None)),
)


def _altered(name: str, *resources: tuple[int, str, Sequence[tuple[str, str | None]]], **more: Any) -> Case:
    each = [
        {
            "ResourceType": kind,
            "ResourceName": which,
            "Configs": [{"Name": config, "Value": value} for config, value in configs],
        }
        for kind, which, configs in resources
    ]
    body = {"Resources": each, "ValidateOnly": False, **more}
    return Case(name, Call("AlterConfigs", body), topics=(THERE, Topic("configs.altered")))


_OWN: Final = "configs.altered"
_HOUR: Final = ("retention.ms", "3600000")

_ALTER: Final = (
    _altered("one config", (TOPIC, _OWN, [_HOUR])),
    _altered("no configs", (TOPIC, _OWN, [])),
    _altered("no resources"),
    _altered("a null value", (TOPIC, _OWN, [("retention.ms", None)])),
    _altered("a wrong value", (TOPIC, _OWN, [("retention.ms", "x")])),
    _altered("an unknown config", (TOPIC, _OWN, [("unknown.config", "1")])),
    _altered("a config twice", (TOPIC, _OWN, [_HOUR, _HOUR])),
    _altered("a topic twice", (TOPIC, _OWN, [_HOUR]), (TOPIC, _OWN, [_HOUR])),
    _altered("only validated", (TOPIC, _OWN, [_HOUR]), ValidateOnly=True),
    _altered("only validated, a wrong value", (TOPIC, _OWN, [("retention.ms", "x")]), ValidateOnly=True),
    _altered("an unknown topic", (TOPIC, UNKNOWN, [_HOUR])),
    _altered("an invalid topic", (TOPIC, "a b", [_HOUR])),
    _altered("an empty topic", (TOPIC, "", [_HOUR])),
    _altered("a topic and an unknown one", (TOPIC, _OWN, [_HOUR]), (TOPIC, UNKNOWN, [_HOUR])),
    _altered("an unknown broker", (BROKER, "9", [("log.retention.ms", "1")])),
    _altered("a broker's config that is fixed", (BROKER, "1", [("node.id", "7")])),
    _altered("a group's session", (GROUP, "g.altered", [("consumer.session.timeout.ms", "50000")])),
    _altered("a group's session of null", (GROUP, "g.altered", [("consumer.session.timeout.ms", None)])),
    _altered("a group's wrong session", (GROUP, "g.altered", [("consumer.session.timeout.ms", "1")])),
    _altered("an unknown config of a group", (GROUP, "g.altered", [("unknown.config", "1")])),
    _altered("no configs of a group", (GROUP, "g.altered", [])),
    _altered("a group without a name", (GROUP, "", [("consumer.session.timeout.ms", "50000")])),
    _altered("an unknown type", (77, "x", [_HOUR])),
    _altered("the type of none", (0, "x", [_HOUR])),
)

Change = tuple[str, int, str | None]


def _changed(name: str, *resources: tuple[int, str, Sequence[Change]], **more: Any) -> Case:
    each = [
        {
            "ResourceType": kind,
            "ResourceName": which,
            "Configs": [
                {"Name": config, "ConfigOperation": operation, "Value": value}
                for config, operation, value in configs
            ],
        }
        for kind, which, configs in resources
    ]
    body = {"Resources": each, "ValidateOnly": False, **more}
    topics = (THERE, Topic("configs.changed"))
    return Case(name, Call("IncrementalAlterConfigs", body), topics=topics)


def _one(name: str, config: str, operation: int, value: str | None, **more: Any) -> Case:
    """One change of a config of a topic."""
    return _changed(name, (TOPIC, "configs.changed", [(config, operation, value)]), **more)


def _broker(name: str, config: str, operation: int, value: str | None, broker: str = "1") -> Case:
    return _changed(name, (BROKER, broker, [(config, operation, value)]))


_SESSION: Final = "consumer.session.timeout.ms"
_INTERVAL: Final = "consumer.heartbeat.interval.ms"


def _of_group(name: str, config: str, operation: int, value: str | None) -> Case:
    """One change of a config of a group."""
    return _changed(name, (GROUP, "g.changed", [(config, operation, value)]))


_SET_HOUR: Final = ("retention.ms", SET, "3600000")
_RATE: Final = "replication.throttled.rate"

_CHANGE: Final = (
    _one("set", "retention.ms", SET, "3600000"),
    _one("set to null", "retention.ms", SET, None),
    _one("set to a wrong value", "retention.ms", SET, "x"),
    _one("set, only validated", "retention.ms", SET, "3600000", ValidateOnly=True),
    _one("delete", "retention.ms", DELETE, None),
    _one("delete, with a value", "retention.ms", DELETE, "1"),
    _one("delete what is not set", "segment.ms", DELETE, None),
    _one("delete an unknown config", "unknown.config", DELETE, None),
    _one("delete a config of newer brokers", "errors.deadletterqueue.group.enable", DELETE, None),
    _one("delete a level of compression", "compression.gzip.level", DELETE, None),
    _one("delete a throttle", "leader.replication.throttled.replicas", DELETE, None),
    _one("append", "cleanup.policy", APPEND, "compact"),
    _one("append what is there", "cleanup.policy", APPEND, "delete"),
    _one("append a wrong value", "cleanup.policy", APPEND, "nothing"),
    _one("append to what is no list", "retention.ms", APPEND, "1"),
    _one("append null", "cleanup.policy", APPEND, None),
    _one("subtract", "cleanup.policy", SUBTRACT, "compact"),
    _one("subtract the last one", "cleanup.policy", SUBTRACT, "compact,delete"),
    _one("subtract what is not there", "cleanup.policy", SUBTRACT, "compact"),
    _one("subtract from what is no list", "retention.ms", SUBTRACT, "1"),
    _one("set an unknown config", "unknown.config", SET, "1"),
    _one("an unknown operation", "retention.ms", 9, "1"),
    _one("a negative operation", "retention.ms", -1, "1"),
    _one("an empty name", "", SET, "1"),
    _one("max.message.bytes of 10 MiB", "max.message.bytes", SET, "10485760"),
    _one("compression by the broker", "compression.type", SET, "lz4"),
    _changed("no configs", (TOPIC, "configs.changed", [])),
    _changed("no resources"),
    _changed("a config twice", (TOPIC, "configs.changed", [_SET_HOUR, _SET_HOUR])),
    _changed(
        "a topic twice", (TOPIC, "configs.changed", [_SET_HOUR]), (TOPIC, "configs.changed", [_SET_HOUR])
    ),
    _changed("an unknown topic", (TOPIC, UNKNOWN, [_SET_HOUR])),
    _changed("an invalid topic", (TOPIC, "a b", [_SET_HOUR])),
    _changed("an empty topic", (TOPIC, "", [_SET_HOUR])),
    _changed(
        "a topic and an unknown one", (TOPIC, "configs.changed", [_SET_HOUR]), (TOPIC, UNKNOWN, [_SET_HOUR])
    ),
    _changed(
        "one right and one wrong config", (TOPIC, "configs.changed", [_SET_HOUR, ("segment.ms", SET, "x")])
    ),
    _changed("an unknown type", (77, "x", [_SET_HOUR])),
    _changed("the type of none", (0, "x", [_SET_HOUR])),
    _broker("clear the leaders' throttle", f"leader.{_RATE}", DELETE, None),
    _broker("clear the followers' throttle", f"follower.{_RATE}", DELETE, None),
    _broker("clear the throttle of moves", "replica.alter.log.dirs.io.max.bytes.per.second", DELETE, None),
    _broker("clear a throttle of all brokers", f"leader.{_RATE}", DELETE, None, ""),
    _broker("set a throttle", f"leader.{_RATE}", SET, "1000000"),
    _broker("set a config that is fixed", "node.id", SET, "7"),
    _broker("set an unknown config of a broker", "unknown.config", SET, "7"),
    _broker("an unknown broker", f"leader.{_RATE}", DELETE, None, "9"),
    _broker("a broker that is no number", f"leader.{_RATE}", DELETE, None, "x"),
    _changed("a group's session", (GROUP, "configs.group", [("consumer.session.timeout.ms", SET, "50000")])),
    _changed("an unknown config of a group", (GROUP, "configs.group", [("unknown.config", SET, "1")])),
    _changed("a group without a name", (GROUP, "", [(_SESSION, SET, "50000")])),
    _changed("a group twice", (GROUP, "g.twice", []), (GROUP, "g.twice", [])),
    _changed(
        "a group's config twice", (GROUP, "g.two", [(_SESSION, SET, "50000"), (_SESSION, SET, "50000")])
    ),
    _changed("a group, only validated", (GROUP, "g.valid", [(_SESSION, SET, "50000")]), ValidateOnly=True),
    _changed("a group, only validated, wrong", (GROUP, "g.valid", [(_SESSION, SET, "1")]), ValidateOnly=True),
    _changed("a group without changes", (GROUP, "g.none", [])),
    _of_group("a session that is too short", _SESSION, SET, "44999"),
    _of_group("a session that is too long", _SESSION, SET, "60001"),
    _of_group("a session that is no number", _SESSION, SET, "x"),
    _of_group("a session of null", _SESSION, SET, None),
    _of_group("a session with spaces", _SESSION, SET, " 50000 "),
    _of_group("a session of 64 bits", _SESSION, SET, "4294967296"),
    _of_group("an interval", _INTERVAL, SET, "6000"),
    _of_group("an interval that is too short", _INTERVAL, SET, "1"),
    _of_group("an interval that is too long", _INTERVAL, SET, "15001"),
    _of_group("targets at once", "consumer.assignment.interval.ms", SET, "0"),
    _of_group("targets each half second", "consumer.assignment.interval.ms", SET, "500"),
    _of_group("targets too seldom", "consumer.assignment.interval.ms", SET, "15001"),
    _of_group("targets in a thread", "consumer.assignor.offload.enable", SET, "true"),
    _of_group("targets perhaps in a thread", "consumer.assignor.offload.enable", SET, "perhaps"),
    _of_group("a share group's session", "share.session.timeout.ms", SET, "50000"),
    _of_group("a streams group's session", "streams.session.timeout.ms", SET, "50000"),
    _of_group("delete a group's config that is not set", _INTERVAL, DELETE, None),
    _of_group("delete an unknown config of a group", "unknown.config", DELETE, None),
    _of_group("append to a group's session", _SESSION, APPEND, "1"),
    _of_group("an unknown operation on a group", _SESSION, 9, "1"),
    _changed("client metrics", (METRICS, "m", [("interval.ms", SET, "1000")])),
    _changed("a logger", (LOGGER, "1", [("kafka.nothing", SET, "INFO")])),
    _changed("a wrong level of a logger", (LOGGER, "1", [("kafka", SET, "LOUD")])),
)


def _own(name: str, call: Call, *more: Change, since: int = 0, only: str = "") -> Case:
    """Of a group that has a session of its own, once the broker knows of it."""
    changes = [(_SESSION, SET, "50000"), *more]
    of = {"ResourceType": GROUP, "ResourceName": _CONFIGURED}
    configs = [{"Name": each, "ConfigOperation": how, "Value": value} for each, how, value in changes]
    body = {"Resources": [{**of, "Configs": configs}], "ValidateOnly": False}
    wanted = {"Resources": [{**of, "ConfigurationKeys": [_SESSION]}]}
    known = Call("DescribeConfigs", wanted, version=4, until="Results.0.Configs.0.Value", value="50000")
    before = (Call("IncrementalAlterConfigs", body, version=1), known)
    return Case(name, call, before, since=since, only=only)


_CONFIGURED: Final = "g.own{v}"
_OF_GROUPS: Final = (
    _own(
        "a group with a session of its own",
        Call(
            "DescribeConfigs",
            {
                "Resources": [
                    {"ResourceType": GROUP, "ResourceName": _CONFIGURED, "ConfigurationKeys": [_SESSION]}
                ],
                "IncludeSynonyms": True,
            },
        ),
    ),
    _own(
        "a group with two configs of its own",
        Call(
            "DescribeConfigs",
            {
                "Resources": [
                    {"ResourceType": GROUP, "ResourceName": _CONFIGURED, "ConfigurationKeys": None}
                ],
            },
        ),
        (_INTERVAL, SET, "6000"),
    ),
    _own(
        "groups with configs",
        Call("ListConfigResources", {"ResourceTypes": [GROUP]}),
        since=1,
        only="g.own",
    ),
)

CASES: Final = (*_DESCRIBE, *_ALTER, *_CHANGE, *_OF_GROUPS)
