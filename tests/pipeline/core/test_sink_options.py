"""The options of the sink, and its refusals."""

from __future__ import annotations

import pytest

from strandline.pipeline.core.connection import Connection
from strandline.pipeline.core.sink_options import HEADERS_TYPE, SinkOptions, check_columns, sink_options
from strandline.pipeline.errors import InvalidOption, InvalidSchema
from strandline.records import Codec

LEAST = {"bootstrap": "127.0.0.1:9092"}
NO_TOPIC = sink_options(LEAST)
TO_ORDERS = sink_options({**LEAST, "topic": "orders"})


def test_omitted_options_have_their_defaults() -> None:
    assert (
        SinkOptions(Connection("127.0.0.1:9092"), "orders", Codec.NONE, 512 * 1024, 120_000, 10_000)
        == TO_ORDERS
    )


def test_keys_have_any_case_and_kafkas_name_of_the_bootstrap_is_known() -> None:
    given = {
        "KAFKA.bootstrap.servers": "b:1", "Topic": "t", "COMPRESSION": "ZSTD", "batchbytes": "2048",
        "deliveryTimeoutMs": "5", "requesttimeoutms": "6", "checkpointLocation": "/x", "path": "/y",
    }  # fmt: skip
    assert sink_options(given) == SinkOptions(Connection("b:1"), "t", Codec.ZSTD, 2048, 5, 6)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bootstrap": ""}, "bootstrap is empty"),
        ({**LEAST, "topc": "t"}, "did you mean topic"),
        ({**LEAST, "kafka.acks": "1"}, "settings of Kafka's clients mean nothing here"),
        ({**LEAST, "topic": "a b"}, "topic = 'a b': no topic can have this name"),
        ({**LEAST, "topic": ""}, "no topic can have this name"),
        ({**LEAST, "topic": "__group_events"}, "the system's own"),
        ({**LEAST, "compression": "brotli"}, "give one of none, gzip, snappy, lz4, zstd"),
        ({**LEAST, "batchBytes": "1000"}, "batchBytes = '1000': give a whole number from 1024 to"),
        ({**LEAST, "deliveryTimeoutMs": "soon"}, "deliveryTimeoutMs = 'soon': give a whole number from 1"),
    ],
)
def test_each_refusal_names_the_option_its_value_and_what_to_give(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        sink_options(given)
    assert said in refused.value.message


def test_all_columns_of_the_source_can_be_written() -> None:
    check_columns(
        [
            ("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "int"),
            ("offset", "bigint"), ("timestamp", "timestamp"), ("timestampType", "int"),
            ("headers", HEADERS_TYPE),
        ],
        NO_TOPIC,
    )  # fmt: skip
    check_columns([("VALUE", "string")], TO_ORDERS)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([("key", "binary")], "no column value"),
        ([("value", "int")], "column value is int: cast it to binary or string"),
        ([("value", "binary"), ("timestamp", "bigint")], "column timestamp is bigint: cast it to timestamp"),
        ([("value", "binary"), ("partition", "bigint")], "cast it to int"),
        ([("value", "binary"), ("headers", "map<string,binary>")], f"cast it to {HEADERS_TYPE}"),
        ([("value", "binary"), ("price", "int")], "no column 'price': select key, value, topic"),
        ([("value", "binary"), ("Value", "binary")], "two columns 'Value'"),
    ],
)
def test_columns_that_are_not_the_sinks_are_refused(columns: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        check_columns(columns, TO_ORDERS)
    assert said in refused.value.message


def test_rows_without_a_topic_need_one_for_all() -> None:
    with pytest.raises(InvalidOption, match="give the option topic, or a column topic"):
        check_columns([("value", "binary")], NO_TOPIC)
