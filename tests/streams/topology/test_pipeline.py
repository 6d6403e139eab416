"""A record's path: decoded, handed from operator to operator, encoded, emitted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import pytest

from strandline.streams.topology.errors import RecordRefused
from strandline.streams.topology.records import Record
from strandline.streams.topology.serdes import BYTES, INTEGER, JSON, STRING
from strandline.streams.topology.stores import KeyValueStore, Store
from strandline.streams.topology.stream import Stream
from strandline.streams.topology.topology import Topology
from tests.streams.topology.memory_state import Emitted, Task, only_task

COUNTS = Store("counts", STRING, INTEGER)


def text(topology: Topology) -> Stream[str, str]:
    return topology.source("lines", key=STRING, value=STRING)


def ended(topology: Topology, stream: Stream[str, str]) -> Task:
    """A task of a topology whose one stream goes to "out"."""
    stream.to("out", key=STRING, value=STRING)
    return only_task(topology)


# --- source and sink ----------------------------------------------------------------------------


def test_a_record_goes_through_with_its_time_and_headers() -> None:
    topology = Topology()
    topology.source("in").to("out", key=BYTES, value=BYTES)
    task = only_task(topology)
    task.send(b"k", b"\xff", 123, (("trace", b"1"), ("empty", None)))
    assert task.emitted == [Emitted("out", b"k", b"\xff", 123, (("trace", b"1"), ("empty", None)))]


@pytest.mark.parametrize("serde", [BYTES, STRING, INTEGER, JSON])
def test_no_serde_is_asked_about_a_key_or_a_value_that_is_not_there(serde: Any) -> None:
    topology = Topology()
    topology.source("in", key=serde, value=serde).to("out", key=serde, value=serde)
    task = only_task(topology)
    task.send(None, None)
    assert task.out == [("out", None, None)]


def test_key_and_value_are_decoded_by_their_own_serdes() -> None:
    topology = Topology()
    seen: list[object] = []

    def look(record: Record[int, Any]) -> Record[int, Any]:
        seen.append(record)
        return record

    topology.source("in", key=INTEGER, value=JSON).map(look).to("out", key=INTEGER, value=JSON)
    task = only_task(topology)
    task.send(INTEGER.encode(-4), b'{ "b" : 1, "a": null }')
    assert seen == [Record(-4, {"b": 1, "a": None}, 7)]
    assert task.out == [("out", INTEGER.encode(-4), b'{"a":null,"b":1}')]


def test_bytes_on_one_side_leave_the_other_to_its_serde() -> None:
    topology = Topology()
    topology.source("of-keys", key=INTEGER).to("keys", key=INTEGER, value=BYTES)
    topology.source("of-values", value=INTEGER).to("values", key=BYTES, value=INTEGER)
    of_keys, of_values = map(Task, topology.build("app"))
    of_keys.send(INTEGER.encode(1), b"v")
    of_values.send(b"k", INTEGER.encode(2))
    assert of_keys.out == [("keys", INTEGER.encode(1), b"v")]
    assert of_values.out == [("values", b"k", INTEGER.encode(2))]


def test_a_decoding_error_names_the_part_and_the_source() -> None:
    topology = Topology()
    task = ended(topology, text(topology))
    with pytest.raises(UnicodeDecodeError) as of_key:
        task.send(b"\xff", b"")
    with pytest.raises(UnicodeDecodeError) as of_value:
        task.send(b"", b"\xff")
    assert of_key.value.__notes__ == ["while decoding the key of a record of source('lines')"]
    assert of_value.value.__notes__ == ["while decoding the value of a record of source('lines')"]


def test_an_encoding_error_names_the_topic() -> None:
    topology = Topology()
    topology.source("in").map(lambda record: record.with_value(1 << 63)).to("out", key=BYTES, value=INTEGER)
    with pytest.raises(OverflowError) as raised:
        only_task(topology).send(b"k", b"v")
    assert raised.value.__notes__ == ["while encoding the value of a record for topic 'out'"]


# --- operators without state --------------------------------------------------------------------


def test_filter_keeps_records_for_which_it_is_true() -> None:
    topology = Topology()
    task = ended(topology, text(topology).filter(lambda record: record.key == "a"))
    for key in b"a", b"b", None, b"a":
        task.send(key, b"1")
    assert task.out == [("out", b"a", b"1")] * 2


def test_filter_takes_true_and_false_as_python_does() -> None:
    topology = Topology()
    length: Any = lambda record: len(record.value)  # noqa: E731
    task = ended(topology, text(topology).filter(length))
    task.send(b"k", b"")
    task.send(b"k", b"word")
    assert task.out == [("out", b"k", b"word")]


def test_map_may_change_all_of_a_record_and_its_key_moves_it_nowhere() -> None:
    topology = Topology()
    changed = text(topology).map(lambda record: Record("new", record.value, 9, (("h", b""),)))
    task = ended(topology, changed)
    task.send(b"old", b"v")
    assert task.emitted == [Emitted("out", b"new", b"v", 9, (("h", b""),))]


def test_with_key_and_with_value_leave_the_rest() -> None:
    record = Record("k", "v", 5, (("h", b"1"),))
    assert record.with_key(1) == Record(1, "v", 5, (("h", b"1"),))
    assert record.with_value(None) == Record("k", None, 5, (("h", b"1"),))


def test_flat_map_gives_any_number_in_order() -> None:
    topology = Topology()

    def words(record: Record[str, str]) -> Iterator[Record[str, str]]:
        for word in (record.value or "").split():
            yield record.with_key(word)

    task = ended(topology, text(topology).flat_map(words))
    task.send(None, b"the cat")
    task.send(None, b"")
    task.send(None, b"the end")
    assert [key for _, key, _ in task.out] == [b"the", b"cat", b"the", b"end"]


def test_branches_get_a_record_in_the_order_of_their_declaration() -> None:
    topology = Topology()
    lines = text(topology)
    lines.to("first", key=STRING, value=STRING)
    upper = lines.map(lambda record: record.with_value((record.value or "").upper()))
    upper.to("second", key=STRING, value=STRING)
    upper.filter(lambda record: False).to("never", key=STRING, value=STRING)
    lines.to("third", key=STRING, value=STRING)
    task = only_task(topology)
    task.send(b"k", b"v")
    assert task.out == [("first", b"k", b"v"), ("second", b"k", b"V"), ("third", b"k", b"v")]


# --- what functions may not return --------------------------------------------------------------


async def later(*_: object) -> list[Record[str, str]]:
    return []


@pytest.mark.parametrize("wrong", [None, ("k", "v", 7, ()), [Record("k", "v", 7)]])
def test_map_returns_a_record_and_nothing_else(wrong: Any) -> None:
    topology = Topology()
    task = ended(topology, text(topology).map(lambda _: wrong))
    with pytest.raises(
        RecordRefused, match=r"map\(.*lambda.*\) returned .*filter or flat_map leave records out"
    ):
        task.send(b"k", b"v")
    assert not task.out


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (Record("k", "v", 7), r"as \[record\]"),
        (5, "an iterable"),
        (["k"], "nothing but records"),
        (None, "iterable"),
    ],
)
def test_flat_map_returns_records_and_nothing_else(wrong: Any, says: str) -> None:
    topology = Topology()
    task = ended(topology, text(topology).flat_map(lambda _: wrong))
    with pytest.raises(RecordRefused, match=says):
        task.send(b"k", b"v")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [(Record("k", "v", 7), r"as \[record\]"), (True, "an iterable"), ({"k": 1}, "nothing but records")],
)
def test_process_returns_records_or_nothing(wrong: Any, says: str) -> None:
    topology = Topology()
    processor: Any = lambda _, store: wrong  # noqa: E731
    text(topology).process(processor, store=COUNTS)
    with pytest.raises(RecordRefused, match=says):
        only_task(topology).send(b"k", b"v")


@pytest.mark.filterwarnings("ignore:coroutine 'later' was never awaited")
@pytest.mark.parametrize("operator", ["filter", "map", "flat_map", "process"])
def test_a_coroutine_that_a_plain_function_returns_is_refused(operator: str) -> None:
    """As a condition it would be true of every record."""
    topology = Topology()
    stream: Any = text(topology)
    stores = {"store": COUNTS} if operator == "process" else {}
    hidden: Any = lambda *_: later()  # noqa: E731
    made = getattr(stream, operator)(hidden, **stores)
    task = ended(topology, made)
    with pytest.raises(RecordRefused, match=rf"^{operator}\(.*coroutine"):
        task.send(b"k", b"v")
    assert not task.out


# --- state --------------------------------------------------------------------------------------


def test_the_result_of_a_processor_continues_and_its_state_stays() -> None:
    topology = Topology()

    def totals(record: Record[str, str], store: KeyValueStore[str, int]) -> list[Record[str, int]]:
        assert record.key is not None
        total = (store.get(record.key) or 0) + int(record.value or 0)
        store.put(record.key, total)
        return [record.with_value(total)]

    sums = text(topology).process(totals, store=COUNTS)
    assert_type(sums, Stream[str, int])
    sums.to("out", key=STRING, value=INTEGER)
    task = only_task(topology)
    for key, value in ((b"a", b"1"), (b"b", b"5"), (b"a", b"2")):
        task.send(key, value)
    assert task.out == [
        ("out", b"a", INTEGER.encode(1)),
        ("out", b"b", INTEGER.encode(5)),
        ("out", b"a", INTEGER.encode(3)),
    ]
    assert task.state.data == {("counts", b"a"): INTEGER.encode(3), ("counts", b"b"): INTEGER.encode(5)}


def test_a_processor_that_yields_runs_to_its_end_though_nothing_comes_after_it() -> None:
    topology = Topology()

    def remember(record: Record[str, str], store: KeyValueStore[str, int]) -> Iterator[Record[str, str]]:
        yield record
        store.put(record.key or "", 1)

    text(topology).process(remember, store=COUNTS)
    task = only_task(topology)
    task.send(b"k", b"v")
    assert task.state.get("counts", b"k") == INTEGER.encode(1)


def test_processors_of_one_subtopology_may_share_a_store() -> None:
    topology = Topology()
    lines = text(topology)
    lines.count("counts")

    def report(record: Record[str, str], store: KeyValueStore[str, int]) -> Iterator[Record[str, int]]:
        yield record.with_value(store.get(record.key or ""))

    lines.process(report, store=Store("counts", STRING, INTEGER)).to("out", key=STRING, value=INTEGER)
    task = only_task(topology)
    task.send(b"k", b"v")
    assert task.out == [("out", b"k", INTEGER.encode(1))]


def test_an_error_of_a_processor_is_raised() -> None:
    topology = Topology()

    def fail(record: Record[str, str], store: KeyValueStore[str, int]) -> None:
        raise LookupError(record.value)

    text(topology).process(fail, store=COUNTS)
    with pytest.raises(LookupError, match="v"):
        only_task(topology).send(b"k", b"v")


def test_count_gives_the_new_count_of_the_key_each_time() -> None:
    topology = Topology()
    counted = text(topology).count("counts")
    assert_type(counted, Stream[str, int])
    counted.to("out", key=STRING, value=INTEGER)
    task = only_task(topology)
    for timestamp_ms, (key, value) in enumerate([(b"a", b"x"), (b"b", None), (b"a", None)]):
        task.send(key, value, timestamp_ms, (("h", b"1"),))
    assert task.emitted == [
        Emitted("out", b"a", INTEGER.encode(1), 0, (("h", b"1"),)),
        Emitted("out", b"b", INTEGER.encode(1), 1, (("h", b"1"),)),
        Emitted("out", b"a", INTEGER.encode(2), 2, (("h", b"1"),)),
    ]


def test_count_refuses_a_record_without_a_key_and_says_what_to_do() -> None:
    topology = Topology()
    text(topology).count("counts")
    task = only_task(topology)
    with pytest.raises(RecordRefused, match=r"^count\('counts'\): a record without a key; .* filter\("):
        task.send(None, b"v")
    assert not task.state.data


def test_repartition_refuses_a_record_without_a_key_and_says_what_to_do() -> None:
    topology = Topology()
    text(topology).repartition("by-key", key=STRING, value=STRING).count("counts")
    task = Task(topology.build("app")[0])
    with pytest.raises(RecordRefused, match=r"^repartition\('by-key'\): a record without a key; .* filter\("):
        task.send(None, b"v")
    assert not task.out


def test_the_next_subtopology_reads_the_repartition_topic() -> None:
    topology = Topology()
    words = text(topology).map(
        lambda record: Record(len(record.value or ""), record.value, record.timestamp_ms)
    )
    by_length = words.repartition("lengths", key=INTEGER, value=STRING)
    by_length.count("counts").to("out", key=INTEGER, value=INTEGER)
    before, after = map(Task, topology.build("app"))
    for word in b"cat", b"horse", b"dog":
        before.send(None, word)
    for topic, key, value, timestamp_ms, headers in before.emitted:
        assert topic == "app-lengths-repartition"
        after.send(key, value, timestamp_ms, tuple(headers))
    three, five = INTEGER.encode(3), INTEGER.encode(5)
    assert after.out == [
        ("out", three, INTEGER.encode(1)),
        ("out", five, INTEGER.encode(1)),
        ("out", three, INTEGER.encode(2)),
    ]


def test_each_task_has_its_own_state() -> None:
    topology = Topology()
    text(topology).count("counts").to("out", key=STRING, value=INTEGER)
    (part,) = topology.build("app")
    one, other = Task(part), Task(part)
    one.send(b"k", b"v")
    other.send(b"k", b"v")
    assert one.out == other.out == [("out", b"k", INTEGER.encode(1))]
