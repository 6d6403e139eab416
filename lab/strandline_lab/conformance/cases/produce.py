"""Batches that are appended, right ones and broken ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from strandline_lab.conformance.batches import CONTROL, TRANSACTIONAL, Batch, Record
from strandline_lab.conformance.case import Call, Case, Taken, Topic, TopicId
from strandline_lab.conformance.cases.cluster import NO_TOPIC

MS: Final = 5_000
REAL: Final = 3
"""Kafka advertises 0 to 2 for the sake of one client, and closes the connection."""
NEW_PRODUCER: Final = Call(
    "InitProducerId",
    {"TransactionalId": None, "TransactionTimeoutMs": 60_000},
    version=4,
    take={"producer id": "ProducerId", "producer epoch": "ProducerEpoch"},
)
PRODUCER: Final = "producer id"
HOUR_MS: Final = 3_600_000
"""A run begins an hour after the time 0 of batches."""

Partition = tuple[int, Any]


def produced(topic: str, *partitions: Partition, acks: int = -1, **more: Any) -> dict[str, Any]:
    data = [{"Index": index, "Records": records} for index, records in partitions]
    topics = [{"Name": topic, "TopicId": TopicId(topic), "PartitionData": data}]
    return {"Acks": acks, "TimeoutMs": MS, "TopicData": topics, **more}


def _case(
    name: str,
    *batches: Any,
    before: Sequence[Any] = (),
    configs: Mapping[str, str] | None = None,
    since: int = REAL,
    **more: Any,
) -> Case:
    """A case with a topic of its own. `before` has batches that are appended first by a new producer."""
    topic = Topic(f"produce.{name.replace(' ', '-').replace(',', '')}", 1, configs or {})
    records = list(batches) if len(batches) > 1 else batches[0]
    known = any(isinstance(each, Batch) and each.producer == PRODUCER for each in batches)
    first = [Call("Produce", produced(topic.name, (0, each)), version=9) for each in before]
    return Case(
        name,
        Call("Produce", produced(topic.name, (0, records), **more)),
        before=([NEW_PRODUCER] if known else []) + first,
        topics=(topic,),
        since=since,
    )


def _idempotent(sequence: int, epoch: int = 0, count: int = 1, **more: Any) -> Batch:
    records = (Record(),) * count
    return Batch(records, producer=PRODUCER, epoch=epoch, sequence=sequence, **more)


_RIGHT: Final = (
    _case("one record", Batch()),
    _case("three records", Batch((Record(b"a", b"1"), Record(None, b"2"), Record(b"c", None)))),
    _case("gzip", Batch((Record(b"a", b"1" * 100),) * 5, codec="gzip")),
    _case("headers", Batch((Record(headers=((b"h", b"1"), (b"h", None), (b"", b""))),))),
    _case("acks of the leader", Batch(), acks=1),
    _case("an old time", Batch(at_ms=-1_000_000_000), configs={"retention.ms": "-1"}),
    _case("an attribute bit that is not used", Batch(attributes=0x80)),
    _case("compacted, with keys", Batch((Record(b"k"),)), configs={"cleanup.policy": "compact"}),
)

_WRONG: Final = (
    _case("null records", None),
    _case("no records at all", b""),
    _case("a few bytes", b"\0" * 10),
    _case("a header without records", Batch(cut=8)),
    _case("two batches", Batch(), Batch()),
    _case("bytes after the batch", Batch(trailing=b"abc")),
    _case("magic 0", Batch(magic=0)),
    _case("magic 1", Batch(magic=1)),
    _case("magic 3", Batch(magic=3)),
    _case("a wrong checksum", Batch(crc_off_by=1)),
    _case("a count that is too high", Batch(count_off_by=1)),
    _case("a count that is too low", Batch((Record(), Record()), count_off_by=-1)),
    _case("a last offset that is too high", Batch(last_offset_off_by=1)),
    _case("a base offset", Batch(base_offset=5)),
    _case("a wrong highest time", Batch(max_time_off_by=5_000)),
    _case("an empty batch", Batch(())),
    _case("a header with a null key", Batch((Record(headers=((None, b"1"),)),))),
    _case("the second header with a null key", Batch((Record(), Record(headers=((None, b"1"),))))),
    _case("a time an hour and more ahead", Batch(at_ms=3 * HOUR_MS)),
    _case("a time of microseconds", Batch(at_ms=1_000_000_000_000_000)),
    _case("a time of -1", Batch(at_ms=-10_000_000_000_000)),
    _case("codec 5", Batch(attributes=5)),
    _case("codec 7", Batch(attributes=7)),
    _case("snappy that is none", Batch(codec="snappy")),
    _case("compacted, without a key", Batch(), configs={"cleanup.policy": "compact"}),
    _case("a control batch", Batch(attributes=CONTROL)),
    _case("a transactional batch without an id", _idempotent(0, attributes=TRANSACTIONAL)),
    _case("acks 2", Batch(), acks=2),
    _case("acks -2", Batch(), acks=-2),
    _case(
        "a record that is too large",
        Batch((Record(None, b"v" * 2_000),)),
        configs={"max.message.bytes": "1100"},
    ),
)

_SEQUENCES: Final = (
    _case("a first sequence", _idempotent(0)),
    _case("a first sequence above 0", _idempotent(5)),
    _case("a second batch", _idempotent(1), before=[_idempotent(0)]),
    _case("a duplicate", _idempotent(0), before=[_idempotent(0)]),
    _case(
        "a duplicate of three",
        _idempotent(3, count=3),
        before=[_idempotent(0, count=3), _idempotent(3, count=3)],
    ),
    _case("a part of a duplicate", _idempotent(0, count=2), before=[_idempotent(0, count=3)]),
    _case(
        "a duplicate of an older batch",
        _idempotent(0),
        before=[_idempotent(0), _idempotent(1), _idempotent(2)],
    ),
    _case("a duplicate of six batches ago", _idempotent(0), before=[_idempotent(each) for each in range(7)]),
    _case("a gap", _idempotent(5), before=[_idempotent(0)]),
    _case("a higher epoch from 0", _idempotent(0, epoch=1), before=[_idempotent(0)]),
    _case("a higher epoch not from 0", _idempotent(1, epoch=1), before=[_idempotent(0)]),
    _case("a lower epoch", _idempotent(1, epoch=0), before=[_idempotent(0, epoch=2)]),
    _case("a producer without a sequence", Batch(producer=PRODUCER, epoch=0)),
    _case("a sequence without a producer", Batch(sequence=3)),
    _case("two batches of a producer", _idempotent(0), _idempotent(1)),
)

THERE: Final = Topic("produce.there", 2)


def _plain(name: str, body: Mapping[str, Any], since: int = REAL) -> Case:
    """A request that no partition takes."""
    return Case(name, Call("Produce", body, settled=False), topics=(THERE,), since=since)


def _placed(name: str, *partitions: Partition, **more: Any) -> Case:
    """A request to a topic of its own, of two partitions."""
    topic = Topic(f"produce.placed.{name.replace(' ', '-')}", 2)
    call = Call("Produce", produced(topic.name, *partitions, **more), settled=False)
    return Case(name, call, topics=(topic,), since=REAL)


def _without_id(name: str) -> dict[str, Any]:
    topic = {"Name": name, "TopicId": NO_TOPIC, "PartitionData": [{"Index": 0, "Records": Batch()}]}
    return {"Acks": -1, "TimeoutMs": MS, "TopicData": [topic]}


_PLACES: Final = (
    _plain("no topics", {"Acks": -1, "TimeoutMs": MS, "TopicData": []}),
    _plain("no partitions", produced(THERE.name)),
    _plain("an unknown topic", _without_id("produce.unknown")),
    _plain("an invalid name", _without_id("a b")),
    _plain("an empty name", _without_id("")),
    _plain("an id of zero", produced("produce.no.id", (0, Batch())), since=13),
    _plain("a topic of the system", produced("__consumer_offsets", (0, Batch()))),
    _plain("an unknown partition", produced(THERE.name, (7, Batch()))),
    _plain("a negative partition", produced(THERE.name, (-1, Batch()))),
    _placed("two partitions", (0, Batch()), (1, Batch())),
    _placed("a partition and an unknown one", (0, Batch()), (9, Batch())),
    _placed("a partition twice", (0, Batch()), (0, Batch())),
    _placed("a timeout of 0", (0, Batch()), TimeoutMs=0, acks=1),
    _plain(
        "a transactional id and a plain batch",
        produced(THERE.name, (0, Batch()), TransactionalId="produce.x"),
    ),
    Case(
        "another broker than the leader",
        Call("Produce", produced(THERE.name, (0, Batch())), to=2, settled=False),
        topics=(THERE,),
        since=REAL,
    ),
)


def _producer(name: str, since: int = 0, before: Sequence[Call] = (), **body: Any) -> Case:
    whole = {"TransactionalId": None, "TransactionTimeoutMs": 60_000, **body}
    return Case(name, Call("InitProducerId", whole), before=before, since=since)


_PRODUCERS: Final = (
    _producer("a producer"),
    _producer("a timeout of 0", TransactionTimeoutMs=0),
    _producer("a negative timeout", TransactionTimeoutMs=-1),
    _producer("an empty transactional id", TransactionalId=""),
    _producer(
        "the next epoch",
        since=3,
        before=[NEW_PRODUCER],
        ProducerId=Taken("producer id"),
        ProducerEpoch=Taken("producer epoch"),
    ),
    _producer("an id without an epoch", since=3, ProducerId=5),
    _producer("an epoch without an id", since=3, ProducerEpoch=5),
    _producer("an unknown id", since=3, ProducerId=987_654_321, ProducerEpoch=3),
    _producer("the last epoch", since=3, ProducerId=987_654_321, ProducerEpoch=32_767),
)

CASES: Final = (*_RIGHT, *_WRONG, *_SEQUENCES, *_PLACES, *_PRODUCERS)
