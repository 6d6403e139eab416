"""Records that are read, and offsets that are looked up."""

from __future__ import annotations

from typing import Any, Final

from strandline_lab.conformance.batches import Batch, Record
from strandline_lab.conformance.case import Call, Case, Taken, Target, Topic, TopicId
from strandline_lab.conformance.cases.cluster import NO_TOPIC

FILLED: Final = Topic(
    "fetch.filled",
    2,
    {},
    (
        Batch((Record(b"a", b"1"), Record(None, b"2", ((b"h", b"x"),))), at_ms=1_000),
        Batch((Record(b"b", b"3" * 200),) * 3, codec="gzip", at_ms=2_000),
        Batch((Record(b"c", b"4"),), at_ms=1_500),
    ),
)
"""Six records; the highest time is not that of the last one."""
EMPTY: Final = Topic("fetch.empty")
UNKNOWN: Final = "fetch.unknown"
WAIT_MS: Final = 100
BYTES: Final = 1 << 20
SESSION: Final = Taken("session")
EPOCH: Final = Taken("epoch")
TO_COME: Final = 1_000_000
"""An epoch that no leader has had yet."""
LED: Final = Call(
    "Metadata",
    {"Topics": [{"Name": FILLED.name}]},
    version=9,
    take={"epoch": "Topics.0.Partitions.0.LeaderEpoch"},
)


def _partition(index: int = 0, offset: int = 0, **more: Any) -> dict[str, Any]:
    return {"Partition": index, "FetchOffset": offset, "PartitionMaxBytes": BYTES, **more}


def _topic(name: str, *partitions: dict[str, Any]) -> dict[str, Any]:
    return {"Topic": name, "TopicId": TopicId(name), "Partitions": list(partitions)}


def _fetch(name: str, *topics: dict[str, Any], since: int = 0, to: Target = 1, **more: Any) -> Case:
    body = {"MaxWaitMs": WAIT_MS, "MinBytes": 1, "MaxBytes": BYTES, "Topics": list(topics), **more}
    call = Call("Fetch", body, to=to, settled=False)
    return Case(name, call, before=[LED], topics=(FILLED, EMPTY), since=since)


def _first(name: str, since: int = 0, to: Target = 1, **more: Any) -> Case:
    """Asks for the filled partition from its start, with other fields of the request."""
    return _fetch(name, _topic(FILLED.name, _partition()), since=since, to=to, **more)


def _at(name: str, index: int = 0, offset: int = 0, since: int = 0, **more: Any) -> Case:
    """Asks for one partition of the filled topic, with other fields of the partition."""
    return _fetch(name, _topic(FILLED.name, _partition(index, offset, **more)), since=since)


_FETCH: Final = (
    _first("from the start"),
    _at("within the first batch", offset=1),
    _at("the second batch", offset=2),
    _at("the end", offset=6),
    _at("beyond the end", offset=7),
    _at("a negative offset", offset=-1),
    _at("an empty partition", 1),
    _at("an unknown partition", 9),
    _at("a negative partition", -1),
    _at("no bytes of a partition", PartitionMaxBytes=0),
    _at("one byte of a partition", PartitionMaxBytes=1),
    _at("negative bytes of a partition", PartitionMaxBytes=-1),
    _at("the leader's epoch", since=9, CurrentLeaderEpoch=EPOCH),
    _at("an epoch to come", since=9, CurrentLeaderEpoch=TO_COME),
    _at("a last epoch to come", since=12, LastFetchedEpoch=TO_COME),
    _at("a log start offset", since=5, LogStartOffset=3),
    _first("no bytes", MaxBytes=0),
    _first("one byte", MaxBytes=1),
    _first("no wait", MaxWaitMs=0),
    _first("a negative wait", MaxWaitMs=-1),
    _first("no bytes at least", MinBytes=0),
    _first("more bytes than there are", MinBytes=1 << 19),
    _first("read committed", IsolationLevel=1),
    _first("isolation 2", IsolationLevel=2),
    _first("a rack", since=11, RackId="r"),
    _first("the client's cluster", since=12, ClusterId="other"),
    _first("another broker than the leader", to=2),
    _first("as a replica", ReplicaId=2, ReplicaState={"ReplicaId": 2, "ReplicaEpoch": 1}),
    _first("as a replica that is not there", ReplicaId=9, ReplicaState={"ReplicaId": 9, "ReplicaEpoch": 1}),
    _first("as a debugging consumer", ReplicaId=-2),
    _first("a new session", since=7, SessionId=0, SessionEpoch=0),
    _first("an unknown session", since=7, SessionId=12_345, SessionEpoch=1),
    _first("the end of an unknown session", since=7, SessionId=12_345, SessionEpoch=-1),
    _first("a session without an id", since=7, SessionId=0, SessionEpoch=1),
    _fetch("no topics"),
    _fetch("no partitions", _topic(FILLED.name)),
    _fetch("an unknown topic", {**_topic(UNKNOWN, _partition()), "TopicId": NO_TOPIC}),
    _fetch("an id of zero", _topic(UNKNOWN, _partition()), since=13),
    _fetch("an empty name", {**_topic("", _partition()), "TopicId": NO_TOPIC}),
    _fetch("an invalid name", {**_topic("a b", _partition()), "TopicId": NO_TOPIC}),
    _fetch("two topics", _topic(FILLED.name, _partition()), _topic(EMPTY.name, _partition())),
    _fetch("two partitions", _topic(FILLED.name, _partition(), _partition(1))),
    _fetch("a partition twice", _topic(FILLED.name, _partition(), _partition(0, 2))),
    _fetch("a topic twice", _topic(FILLED.name, _partition()), _topic(FILLED.name, _partition(1))),
    _fetch("a partition and an unknown one", _topic(FILLED.name, _partition(), _partition(9))),
    _fetch(
        "a partition and one beyond its end",
        _topic(EMPTY.name, _partition(0, 5)),
        _topic(FILLED.name, _partition()),
    ),
)


def _session(name: str, epoch: int, *topics: dict[str, Any], **more: Any) -> Case:
    """A request in a session that holds the filled partition."""
    opened = {
        "MaxWaitMs": WAIT_MS,
        "MinBytes": 1,
        "MaxBytes": BYTES,
        "SessionEpoch": 0,
        "Topics": [_topic(FILLED.name, _partition())],
    }
    body = opened | {"SessionId": SESSION, "SessionEpoch": epoch, "Topics": list(topics), **more}
    call = Call("Fetch", body, settled=False)
    before = [Call("Fetch", opened, version=12, take={"session": "SessionId"})]
    return Case(name, call, before=before, topics=(FILLED, EMPTY), since=7, until=12)


_FORGET: Final = [{"Topic": FILLED.name, "TopicId": TopicId(FILLED.name), "Partitions": [0]}]
_SESSIONS: Final = (
    _session("the next request of a session", 1),
    _session("the next request, with a partition more", 1, _topic(EMPTY.name, _partition())),
    _session("the next request, without a partition", 1, ForgottenTopicsData=_FORGET),
    _session("an epoch of a session to come", 5),
    _session("the end of a session", -1, _topic(FILLED.name, _partition())),
)

# --- offsets ----------------------------------------------------------------------------------


def _offsets(name: str, *topics: dict[str, Any], since: int = 0, to: Target = 1, **more: Any) -> Case:
    body = {"ReplicaId": -1, "TimeoutMs": 5_000, "Topics": list(topics), **more}
    call = Call("ListOffsets", body, to=to, settled=False)
    return Case(name, call, before=[LED], topics=(FILLED, EMPTY), since=since)


def _looked(topic: str, time: int, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"Name": topic, "Partitions": [{"PartitionIndex": index, "Timestamp": time, **more}]}


def _time(name: str, time: int, since: int = 0, topic: str = FILLED.name) -> Case:
    return _offsets(name, _looked(topic, time), since=since)


TIMES: Final = {
    "the end": -1,
    "the start": -2,
    "the highest time": -3,
    "the start of local records": -4,
    "the end of tiered records": -5,
    "the earliest pending upload": -6,
    "a time that is none": -7,
    "the time 0": 0,
    "the time 1": 1,
    "the last time of all": 2**63 - 1,
}

_TIMED: Final = (
    *(_time(name, time) for name, time in TIMES.items()),
    *(_time(f"{name}, empty", time, topic=EMPTY.name) for name, time in TIMES.items()),
)

_OFFSETS: Final = (
    _offsets("read committed", _looked(FILLED.name, -1), since=2, IsolationLevel=1),
    _offsets("isolation 2", _looked(FILLED.name, -1), since=2, IsolationLevel=2),
    _offsets("the leader's epoch", _looked(FILLED.name, -1, CurrentLeaderEpoch=EPOCH), since=4),
    _offsets("an epoch to come", _looked(FILLED.name, -1, CurrentLeaderEpoch=TO_COME), since=4),
    _offsets("an unknown topic", _looked(UNKNOWN, -1)),
    _offsets("an unknown partition", _looked(FILLED.name, -1, 9)),
    _offsets("a negative partition", _looked(FILLED.name, -1, -1)),
    _offsets("an empty name", _looked("", -1)),
    _offsets("an invalid name", _looked("a b", -1)),
    _offsets("no topics"),
    _offsets("no partitions", {"Name": FILLED.name, "Partitions": []}),
    _offsets("two topics", _looked(FILLED.name, -1), _looked(EMPTY.name, -1)),
    _offsets("a topic twice", _looked(FILLED.name, -1), _looked(FILLED.name, -2)),
    _offsets("a topic and an unknown one", _looked(FILLED.name, -1), _looked(UNKNOWN, -1)),
    _offsets("another broker than the leader", _looked(FILLED.name, -1), to=2),
    _offsets("as a debugging consumer", _looked(FILLED.name, -1), to=2, ReplicaId=-2),
    _offsets("a timeout of 0", _looked(FILLED.name, -1), since=10, TimeoutMs=0),
)


def _epoch(name: str, *topics: dict[str, Any], to: Target = 1, replica: int = -1) -> Case:
    body = {"ReplicaId": replica, "Topics": list(topics)}
    call = Call("OffsetForLeaderEpoch", body, to=to, settled=False)
    return Case(name, call, before=[LED], topics=(FILLED, EMPTY))


def _asked(topic: str, epoch: Any, index: int = 0, current: int = -1) -> dict[str, Any]:
    partition = {"Partition": index, "LeaderEpoch": epoch, "CurrentLeaderEpoch": current}
    return {"Topic": topic, "Partitions": [partition]}


_EPOCHS: Final = (
    _epoch("an epoch to come", _asked(FILLED.name, TO_COME)),
    _epoch("the leader's epoch", _asked(FILLED.name, EPOCH)),
    _epoch("a negative epoch", _asked(FILLED.name, -1)),
    _epoch("an empty partition", _asked(EMPTY.name, EPOCH)),
    _epoch("a current epoch to come", _asked(FILLED.name, EPOCH, 0, TO_COME)),
    _epoch("an unknown topic", _asked(UNKNOWN, 0)),
    _epoch("an unknown partition", _asked(FILLED.name, EPOCH, 9)),
    _epoch("an invalid name", _asked("a b", 0)),
    _epoch("no topics"),
    _epoch("a topic twice", _asked(FILLED.name, EPOCH), _asked(FILLED.name, EPOCH)),
    _epoch("another broker than the leader", _asked(FILLED.name, EPOCH), to=2),
    _epoch("as a replica", _asked(FILLED.name, EPOCH), replica=2),
)


def _records(topic: str, index: int, offset: int, ms: int = 5_000) -> dict[str, Any]:
    partitions = [{"PartitionIndex": index, "Offset": offset}]
    return {"Topics": [{"Name": topic, "Partitions": partitions}], "TimeoutMs": ms}


def _deleted(name: str, offset: int, index: int = 0, topic: str = "") -> Case:
    own = Topic(f"fetch.deleted.{name.replace(' ', '-')}", 1, {}, FILLED.batches)
    return Case(
        name, Call("DeleteRecords", _records(topic or own.name, index, offset), settled=False), topics=(own,)
    )


_DELETED: Final = (
    _deleted("two records", 2),
    _deleted("within a batch", 3),
    _deleted("all records", -1),
    _deleted("no records", 0),
    _deleted("the end", 6),
    _deleted("beyond the end", 7),
    _deleted("an offset of -2", -2),
    _deleted("an unknown partition", 0, 9),
    _deleted("an unknown topic", 0, 0, UNKNOWN),
    _deleted("an invalid name", 0, 0, "a b"),
    _deleted("a topic of the system", 0, 0, "__consumer_offsets"),
    Case("no topics", Call("DeleteRecords", {"Topics": [], "TimeoutMs": 1_000})),
    Case(
        "another broker than the leader",
        Call("DeleteRecords", _records(FILLED.name, 0, 0), to=2, settled=False),
        topics=(FILLED,),
    ),
    Case(
        "a compacted topic",
        Call("DeleteRecords", _records("fetch.compacted", 0, 0), settled=False),
        topics=(Topic("fetch.compacted", 1, {"cleanup.policy": "compact"}),),
    ),
)

_WRITTEN: Final = Topic("fetch.written", 1, {}, (Batch(producer=4_711, epoch=3, sequence=0),))


def _producers(name: str, *topics: dict[str, Any], to: Target = 1) -> Case:
    body = {"Topics": list(topics)}
    return Case(name, Call("DescribeProducers", body, to=to, settled=False), topics=(_WRITTEN, EMPTY))


def _written(topic: str, *indexes: int) -> dict[str, Any]:
    return {"Name": topic, "PartitionIndexes": list(indexes)}


_PRODUCERS: Final = (
    _producers("one producer", _written(_WRITTEN.name, 0)),
    _producers("no producer", _written(EMPTY.name, 0)),
    _producers("an unknown topic", _written(UNKNOWN, 0)),
    _producers("an unknown partition", _written(EMPTY.name, 9)),
    _producers("an invalid name", _written("a b", 0)),
    _producers("no topics"),
    _producers("no partitions", _written(EMPTY.name)),
    _producers("a partition twice", _written(_WRITTEN.name, 0, 0)),
    _producers("on a follower", _written(_WRITTEN.name, 0), to=2),
)

CASES: Final = (*_FETCH, *_SESSIONS, *_TIMED, *_OFFSETS, *_EPOCHS, *_DELETED, *_PRODUCERS)
