"""For any description, a pipeline does the same as the operators on lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from strandline.streams.topology.records import Record
from strandline.streams.topology.serdes import INTEGER
from strandline.streams.topology.stores import KeyValueStore, Store
from strandline.streams.topology.stream import Stream
from strandline.streams.topology.topology import Topology
from tests.streams.topology.memory_state import only_task

Numbers = Stream[int, int]
OneRecord = tuple[int, int]


class Operator(NamedTuple):
    """An operation on key and value, by name; then the operators that get its outputs."""

    name: str
    number: int
    after: tuple[Any, ...]


def operators(depth: int) -> st.SearchStrategy[Operator]:
    names = st.sampled_from(["map", "filter", "flat_map", "process", "count"])
    after = st.just(()) if depth == 0 else st.lists(operators(depth - 1), max_size=3).map(tuple)
    return st.builds(Operator, names, st.integers(0, 3), after)


def describe(stream: Numbers, operator: Operator, path: str) -> None:
    """`operator` and all after it, each going to a topic of its own too, which has the name of its path."""
    n = operator.number

    def times(record: Record[int, int]) -> Iterator[Record[int, int]]:
        yield from (record.with_value(i) for i in range(n))

    def total(record: Record[int, int], store: KeyValueStore[int, int]) -> list[Record[int, int]]:
        key, value = record.key or 0, record.value or 0
        store.put(key, (store.get(key) or 0) + value)
        return [record.with_value(store.get(key))]

    match operator.name:
        case "map":
            out: Numbers = stream.map(lambda r: r.with_key((r.key or 0) + n).with_value((r.value or 0) * 2))
        case "filter":
            out = stream.filter(lambda r: (r.value or 0) % 4 >= n)
        case "flat_map":
            out = stream.flat_map(times)
        case "process":
            out = stream.process(total, store=Store(path, INTEGER, INTEGER))
        case _:
            out = stream.count(path, key=INTEGER)
    out.to(path, key=INTEGER, value=INTEGER)
    for number, child in enumerate(operator.after):
        describe(out, child, f"{path}.{number}")


def on_lists(operator: Operator, records: list[OneRecord], path: str) -> dict[str, list[OneRecord]]:
    """The records of each topic, computed one operator at a time."""
    n, totals, out = operator.number, Counter[int](), []
    for key, value in records:
        match operator.name:
            case "map":
                out.append((key + n, value * 2))
            case "filter":
                out += [(key, value)] * (value % 4 >= n)
            case "flat_map":
                out += [(key, i) for i in range(n)]
            case name:
                totals[key] += value if name == "process" else 1
                out.append((key, totals[key]))
    topics = {path: out}
    for number, child in enumerate(operator.after):
        topics |= on_lists(child, out, f"{path}.{number}")
    return topics


@given(operators(3), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=8))
def test_a_pipeline_computes_the_same_as_its_operators_on_lists(
    operator: Operator, records: list[OneRecord]
) -> None:
    topology = Topology()
    source = topology.source("in", key=INTEGER, value=INTEGER)
    source.to("raw", key=INTEGER, value=INTEGER)
    describe(source, operator, "t")
    task = only_task(topology)
    for key, value in records:
        task.send(INTEGER.encode(key), INTEGER.encode(value))
    written: dict[str, list[OneRecord]] = {}
    for topic, key_data, value_data in task.out:
        assert key_data is not None and value_data is not None
        written.setdefault(topic, []).append((INTEGER.decode(key_data), INTEGER.decode(value_data)))
    wanted: Mapping[str, list[OneRecord]] = {"raw": records, **on_lists(operator, records, "t")}
    assert written == {topic: rows for topic, rows in wanted.items() if rows}
