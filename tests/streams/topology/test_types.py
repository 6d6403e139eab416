"""A type checker sees what goes through a topology: what is ignored here is an error that it has to find."""

from __future__ import annotations

from typing import Any, assert_type

from strandline.streams.topology.records import Record
from strandline.streams.topology.serdes import INTEGER, JSON, STRING, Serde
from strandline.streams.topology.stores import KeyValueStore, Store
from strandline.streams.topology.stream import Stream
from strandline.streams.topology.topology import Topology


def add(record: Record[str, int], store: KeyValueStore[str, int]) -> list[Record[str, float]]:
    return [record.with_value(0.5), Record(record.key, None, record.timestamp_ms)]


def forget(record: Record[str, int], store: KeyValueStore[str, int]) -> None:
    store.delete(record.key or "")


def test_a_stream_knows_its_keys_and_values() -> None:
    topology = Topology()
    assert_type(topology.source("a"), Stream[bytes, bytes])
    assert_type(topology.source("b", key=STRING), Stream[str, bytes])
    assert_type(topology.source("c", value=INTEGER), Stream[bytes, int])
    numbers = topology.source("d", key=STRING, value=INTEGER)
    assert_type(numbers, Stream[str, int])
    assert_type(numbers.filter(lambda record: record.value == 1), Stream[str, int])
    assert_type(numbers.map(lambda record: record.with_key(record.value)), Stream[int, int])
    assert_type(numbers.flat_map(lambda record: [record.with_value("v")]), Stream[str, str])
    assert_type(numbers.process(add, store=Store("sums", STRING, INTEGER)), Stream[str, float])
    assert_type(numbers.repartition("r", key=STRING, value=INTEGER, partitions=2), Stream[str, int])
    assert_type(numbers.map(lambda record: record.with_key(1)).count("n", key=INTEGER), Stream[int, int])
    numbers.process(forget, store=Store("sums", STRING, INTEGER))
    decoded: Stream[str, Any] = topology.source("e", key=STRING, value=JSON)
    decoded.to("f", key=STRING, value=JSON)
    serde: Serde[int] = INTEGER
    assert serde.decode(serde.encode(5)) == 5


def test_a_mismatch_is_a_type_error() -> None:
    topology = Topology()
    numbers = topology.source("numbers", key=STRING, value=INTEGER)
    numbers.to("a", key=STRING, value=STRING)  # type: ignore[arg-type]
    numbers.repartition("r", key=INTEGER, value=INTEGER)  # type: ignore[arg-type]
    numbers.process(add, store=Store("sums", STRING, STRING))  # type: ignore[arg-type]
    numbers.map(lambda record: record.value)  # type: ignore[arg-type, return-value]
    numbers.count("n", key=INTEGER)  # type: ignore[arg-type]
    numbers.filter(lambda record: record.nothing)  # type: ignore[attr-defined]
