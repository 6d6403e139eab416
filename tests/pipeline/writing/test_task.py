"""A task's rows before they are written: checked, kept, and dealt to their partitions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import (
    InvalidRecord,
    MessageTooLarge,
    OutcomeUnknown,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicPartition
from strandline.pipeline.core.sink_options import sink_options
from strandline.pipeline.errors import InvalidOption
from strandline.pipeline.writing.exactly_once import TopicFacts, cut, row_bytes
from strandline.pipeline.writing.record_columns import Gathering, RecordColumns
from strandline.pipeline.writing.row_buffer import Checks, RowBuffer, Rows, first_failure
from strandline.pipeline.writing.task import Piece, SinkClient, Writing, write_rows
from strandline.producer.core.partitioner import partition_for
from strandline.records import HEADER_BYTES, Codec, RecordFields, decode, pack

TOPICS = {"orders": TopicFacts(3, 2_000, False), "prices": TopicFacts(2, 1_000, True)}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIME = pa.timestamp("us", tz="UTC")


def find(topic: str) -> TopicFacts:
    if topic not in TOPICS:
        raise UnknownTopicOrPartition(f"topic {topic!r} does not exist")
    return TOPICS[topic]


def batch_of(rows: Sequence[dict[str, Any]], **types: Any) -> Any:
    schema = pa.schema([(name, types.get(name, pa.binary())) for name in rows[0]])
    return pa.RecordBatch.from_pylist(list(rows), schema)


# --- checks -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "types", "error", "said"),
    [
        ({"topic": None}, {"topic": pa.string()}, InvalidRecord, "has no topic"),
        ({"topic": "gone"}, {"topic": pa.string()}, UnknownTopicOrPartition, "'gone', which does not exist"),
        ({"topic": "__x"}, {"topic": pa.string()}, InvalidOption, "the system's own"),
        ({"partition": 3}, {"partition": pa.int32()}, UnknownTopicOrPartition, "has partitions 0 to 2"),
        ({"partition": -1}, {"partition": pa.int32()}, UnknownTopicOrPartition, "partition -1 of orders"),
        ({"timestamp": None}, {"timestamp": TIME}, InvalidRecord, "has no timestamp"),
        ({"timestamp": -1}, {"timestamp": TIME}, InvalidRecord, "before 1970, -1 ms"),
        ({"headers": [{"key": None, "value": b""}]}, {"headers": HEADERS}, InvalidRecord, "without a key"),
        ({"headers": [{"key": "k" * 1_950, "value": b""}]}, {"headers": HEADERS}, MessageTooLarge, "up to"),
        ({"value": b"x" * 1_950}, {}, MessageTooLarge, "max.message.bytes of orders is 2000"),
        ({"key": b"x" * 1_950}, {}, MessageTooLarge, "max.message.bytes of orders is 2000"),
    ],
)
def test_a_row_that_cannot_be_written_is_named_by_its_number_among_all_of_the_task(
    row: dict[str, Any], types: dict[str, Any], error: type[StrandlineError], said: str
) -> None:
    good: dict[str, Any] = {
        "value": b"v",
        "topic": "orders",
        "partition": 2,
        "timestamp": 5,
        "headers": None,
        "key": None,
    }
    names = {"value", *row}
    fine = {name: given for name, given in good.items() if name in names}
    checks = Checks(None if "topic" in row else "orders", find, "Spark partition 7 of batch 1")
    checks.check(batch_of([fine] * 5, **types))
    with pytest.raises(error) as refused:
        checks.check(batch_of([fine, {**fine, **row}], **types))
    assert "row 6 of Spark partition 7 of batch 1" in refused.value.message
    assert said in refused.value.message


def test_a_compacted_topic_needs_keys_and_another_does_not() -> None:
    types = {"topic": pa.string()}
    rows: list[dict[str, Any]] = [
        {"value": b"v", "topic": "orders", "key": None},
        {"value": b"v", "topic": "prices", "key": b""},
    ]
    checks = Checks(None, find, "it")
    checks.check(batch_of(rows, **types))
    assert checks.topics == TOPICS
    with pytest.raises(InvalidRecord, match="row 2 of it has no key, and topic prices is compacted"):
        checks.check(batch_of([{**rows[1], "key": None}], **types))
    with pytest.raises(InvalidRecord, match="row 0 of it has no key"):
        Checks("prices", find, "it").check(batch_of([{"value": b"v"}]))


def test_rows_before_one_that_cannot_be_written_are_not_sent() -> None:
    """(CORRECTNESS P4) No broker is there: an attempt to send them would end with another error."""
    options = sink_options({"bootstrap": "127.0.0.1:1", "topic": "orders"})
    good, bad = batch_of([{"value": b"v"}]), batch_of([{"value": b"x" * 1_950}])
    with pytest.raises(MessageTooLarge):
        write_rows(iter([good, good, bad]), options, TOPICS, Piece("q", 0, 0))


def test_a_row_that_just_fits_is_one_that_a_broker_takes() -> None:
    """The bound counts the most that a row may take, as the producer does: what passes is not too large."""
    size = 2_000 - HEADER_BYTES - row_bytes((None, b"", (), 0))
    Checks("orders", find, "it").check(batch_of([{"value": b"x" * size}]))
    assert pack([(None, b"x" * size, (), 1 << 41)]).size <= 2_000
    with pytest.raises(MessageTooLarge):
        Checks("orders", find, "it").check(batch_of([{"value": b"x" * (size + 1)}]))


def test_no_rows_are_written_without_a_look_at_any_cluster() -> None:
    options = sink_options({"bootstrap": "127.0.0.1:1", "topic": "orders"})
    assert write_rows(iter([]), options, {}, Piece("q", 0, 0)) == []
    empty = batch_of([{"value": b"v"}]).slice(0, 0)
    assert write_rows(iter([empty]), options, {}, Piece("q", 0, 0)) == []


# --- rows ---------------------------------------------------------------------------------------


def test_columns_become_records_text_as_utf8_times_in_milliseconds() -> None:
    rows: list[dict[str, Any]] = [
        {"key": "ä", "value": b"\x00", "timestamp": 1_999, "headers": [{"key": "h", "value": None}] * 2},
        {"key": None, "value": None, "timestamp": 2_000, "headers": None},
    ]
    batch = batch_of(rows, key=pa.string(), timestamp=TIME, headers=HEADERS)
    assert Rows(batch, "orders").columns(7).records() == [
        ("ä".encode(), b"\x00", (("h", None), ("h", None)), 1),
        (None, None, (), 2),
    ]
    assert Rows(batch_of([{"VALUE": "v"}], VALUE=pa.large_string()), "orders").columns(7).records() == [
        (None, b"v", (), 7)
    ]


def test_pieces_hold_the_rows_in_order_and_fit_but_for_rows_that_fit_nowhere() -> None:
    rows: list[RecordFields] = [
        (None, random.randbytes(random.choice([0, 10, 100, 900])), (("h", b"x"),), 1_000) for _ in range(500)
    ]
    pieces = cut(rows, 600)
    assert [row for piece in pieces for row in piece] == rows
    for piece in pieces:
        assert pack(piece).size <= 600 or len(piece) == 1
    assert max(len(piece) for piece in pieces) > 2
    assert cut([], 600) == []


short = st.none() | st.binary(max_size=40)
of_row = st.tuples(
    short, short, st.lists(st.tuples(st.text(max_size=3), short), max_size=2).map(tuple), st.integers(0, 99)
)


@given(
    st.lists(st.lists(of_row, max_size=30), min_size=1, max_size=5),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.sampled_from([Codec.NONE, Codec.GZIP]),
)
def test_columns_are_gathered_into_batches_that_fit_and_hold_each_record_in_order(
    batches: list[list[RecordFields]], kinds: tuple[bool, bool, bool], codec: Codec
) -> None:
    """For any columns, and any batches of rows."""
    keyed, headed, timed = kinds
    gathering, pieces = Gathering(200), []
    for rows in batches:
        columns = RecordColumns(
            [row[1] for row in rows],
            [row[0] for row in rows] if keyed else None,
            [row[2] for row in rows] if headed else None,
            [row[3] for row in rows] if timed else None,
            now_ms=7,
        )
        assert columns.sizes() == [row_bytes(row) for row in columns.records()]
        pieces += gathering.add(columns)
    if gathering:
        pieces.append(gathering.rest())
    packed = [piece.packed(codec, 200) for piece in pieces]
    assert all(batch.size <= 200 or batch.record_count == 1 for batch in packed)
    expected = [
        (key if keyed else None, value, headers if headed else (), time if timed else 7)
        for rows in batches
        for key, value, headers, time in rows
    ]
    decoded = [record for batch in packed for record in decode(batch.seal())]
    assert [(r.key, r.value, r.headers, r.timestamp) for r in decoded] == expected
    assert [row for piece in pieces for row in piece.records()] == expected


# --- the buffer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_bytes", [0, 100, 10_000_000])
def test_a_spool_gives_back_what_it_took_as_often_as_it_is_asked(memory_bytes: int) -> None:
    taken = [batch_of([{"value": b"%d" % n}] * n, value=pa.binary()) for n in range(1, 40)]
    with closing(RowBuffer(memory_bytes)) as row_buffer:
        for batch in taken:
            row_buffer.add(batch)
        assert row_buffer.rows == sum(range(40))
        for _ in range(2):
            assert [b.to_pydict() for b in row_buffer] == [b.to_pydict() for b in taken]


# --- dealing ------------------------------------------------------------------------------------


@contextmanager
def writing(topic: str | None, spark_partition: int) -> Iterator[Writing]:
    """One that is not started: it only deals."""
    given = {"bootstrap": "127.0.0.1:1"} | ({"topic": topic} if topic else {})
    options = sink_options(given)
    yield Writing(SinkClient(options), options, TOPICS, Piece("q", 0, spark_partition))


async def test_a_row_goes_where_it_says_else_by_its_key_else_all_of_the_task_go_together() -> None:
    rows: list[dict[str, Any]] = [
        {"value": b"0", "key": b"a", "topic": "orders", "partition": 1},
        {"value": b"1", "key": b"a", "topic": "orders", "partition": None},
        {"value": b"2", "key": None, "topic": "orders", "partition": None},
        {"value": b"3", "key": b"a", "topic": "prices", "partition": None},
        {"value": b"4", "key": None, "topic": "orders", "partition": None},
    ]
    batch = batch_of(rows, topic=pa.string(), partition=pa.int32())
    with writing(None, 5) as dealer:
        dealt = dealer.dealt(Rows(batch, None))
    expected: dict[TopicPartition, list[bytes]] = {}
    for name, value in [
        (TopicPartition("orders", 1), b"0"),
        (TopicPartition("orders", partition_for(b"a", 3)), b"1"),
        (TopicPartition("orders", 2), b"2"),
        (TopicPartition("prices", partition_for(b"a", 2)), b"3"),
        (TopicPartition("orders", 2), b"4"),
    ]:
        expected.setdefault(name, []).append(value)
    assert {name: columns.values for name, columns in dealt.items()} == expected
    with writing("prices", 3) as dealer:
        dealt = dealer.dealt(Rows(batch_of([{"value": b"0"}]), "prices"))
    assert list(dealt) == [TopicPartition("prices", 1)]


def test_among_several_failures_the_unexpected_one_is_reported() -> None:
    expected, bug = OutcomeUnknown("no answer"), ValueError("bug")
    assert first_failure(ExceptionGroup("", [expected, ExceptionGroup("", [bug])])) is bug
    assert first_failure(ExceptionGroup("", [ExceptionGroup("", [expected])])) is expected
