"""The options of the source: what they mean, and what is said of those that are wrong."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from strandline.ids import TopicPartition
from strandline.pipeline.core.offsets import EARLIEST, LATEST
from strandline.pipeline.core.options import Bound, Selection, SourceOptions, source_options
from strandline.pipeline.errors import InvalidOption


def options_of(given: Mapping[str, str], *, stream: bool) -> SourceOptions:
    """With where brokers are, and a topic; what is "-" is left out."""
    options = {"bootstrap": "127.0.0.1:9092", "subscribe": "orders", **given}
    return source_options({name: text for name, text in options.items() if text != "-"}, stream=stream)


def batch(**given: str) -> SourceOptions:
    return options_of(given, stream=False)


def stream(**given: str) -> SourceOptions:
    return options_of(given, stream=True)


def test_a_batch_is_everything_and_a_stream_what_comes() -> None:
    found = batch()
    assert (found.starting, found.ending) == (Bound(edge=EARLIEST), Bound(edge=LATEST))
    assert stream().starting == Bound(edge=LATEST)
    assert found.fail_on_data_loss
    assert not found.include_headers
    assert (found.poll_timeout_ms, found.retries, found.retry_interval_ms) == (120_000, None, 1_000)


def test_names_have_any_case_and_kafkas_name_of_the_bootstrap_is_known() -> None:
    options = source_options(
        {"KAFKA.BOOTSTRAP.SERVERS": "b:1", "SubScribe": "b, a", "INCLUDEHEADERS": "True"}, stream=False
    )
    assert options.connection.bootstrap == "b:1"
    assert options.selection == Selection(topics=("a", "b"))
    assert options.include_headers


def test_the_isolation_level_is_kafkas() -> None:
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "tides"}
    assert source_options(given, stream=False).isolation == "read_uncommitted"
    given["Kafka.Isolation.Level"] = "READ_COMMITTED"
    assert source_options(given, stream=True).isolation == "read_committed"
    with pytest.raises(InvalidOption, match="give read_uncommitted or read_committed"):
        source_options(given | {"Kafka.Isolation.Level": "snapshot"}, stream=False)


def test_groups_are_accepted_where_kafka_accepts_them() -> None:
    batch(**{"kafka.group.id": "g", "groupIdPrefix": "p"})
    assert stream(commitGroup="g").commit_group == "g"


def test_partitions_can_be_assigned() -> None:
    options = batch(subscribe="-", assign='{"orders": [1, 0]}')
    assert options.selection.partitions == (TopicPartition("orders", 0), TopicPartition("orders", 1))


def test_a_pattern_matches_whole_names_and_internal_topics_only_explicitly() -> None:
    names = ["orders", "orders-eu", "old.orders", "__state_changes"]
    assert Selection(pattern="orders.*").matching(names) == ["orders", "orders-eu"]
    assert Selection(pattern=".*").matching(names) == ["old.orders", "orders", "orders-eu"]
    assert Selection(pattern="__state.*").matching(names) == ["__state_changes"]


def test_a_time_for_all_goes_before_times_for_each_and_these_before_offsets() -> None:
    each, offsets = '{"orders": {"0": 5}}', '{"orders": {"0": 7}}'
    assert batch(startingOffsets=offsets).starting.offsets == {TopicPartition("orders", 0): 7}
    by_time = batch(startingOffsets=offsets, startingOffsetsByTimestamp=each)
    assert by_time.starting == Bound(times_ms={TopicPartition("orders", 0): 5})
    for_all = batch(startingOffsets=offsets, startingOffsetsByTimestamp=each, startingTimestamp="9")
    assert for_all.starting == Bound(time_ms=9)
    assert batch(endingTimestamp="0").ending == Bound(time_ms=0)


def test_how_long_a_trigger_may_be_put_off_has_a_unit() -> None:
    assert stream().max_trigger_delay_ms == 15 * 60_000
    assert stream(minOffsetsPerTrigger="5", maxTriggerDelay="90s").max_trigger_delay_ms == 90_000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bootstrap": "-"}, "bootstrap is missing: say where brokers are"),
        ({"bootstrap": " "}, "bootstrap is empty"),
        ({"kafka.bootstrap.servers": "b:1"}, "give one of them"),
        ({"subscribe": "-"}, "none of them is given"),
        ({"subscribePattern": "o.*"}, "subscribe and subscribePattern are given"),
        ({"subscribe": "orders,"}, "no topic can have the name ''"),
        (
            {
                "subscribe": "-",
                "subscribePattern": "o(",
            },
            "subscribePattern = 'o(' is no regular expression",
        ),
        ({"subscribe": "-", "assign": "orders"}, "assign = 'orders' is not JSON"),
        ({"startingOffsets": "latest"}, "nothing would be read"),
        ({"startingOffsets": "first"}, "startingOffsets = 'first': give earliest, or offsets as JSON"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "orders-0 has -1, which is latest"),
        ({"endingOffsets": "earliest"}, "nothing would be read; give latest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "orders-0 has -2, which is earliest"),
        ({"startingTimestamp": "-1"}, "startingTimestamp = '-1': give a whole number from 0"),
        ({"startingTimestamp": "yesterday"}, "give a whole number from 0"),
        ({"startingOffsetsByTimestampStrategy": "first"}, "give error or latest"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss = 'no': give true or false"),
        ({"minPartitions": "0"}, "minPartitions = '0': give a whole number from 1"),
        ({"minPartitions": "1_0"}, "minPartitions = '1_0': give a whole number from 1"),
        ({"maxRecordsPerPartition": "1e3"}, "give a whole number from 1"),
        ({"pollTimeoutMs": "9223372036854775808"}, "give a whole number from 1"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger = '5': it is for streams"),
        ({"startingOfsets": "earliest"}, "'startingofsets': did you mean startingOffsets?"),
        ({"kafka.max.poll.records": "5"}, "settings of Kafka's clients mean nothing here"),
        ({"colour": "red"}, "known are assign, bootstrap"),
    ],
)
def test_an_invalid_option_is_named_with_a_remedy(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        options_of(given, stream=False)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets = 'latest': a stream has no end"),
        ({"endingTimestamp": "5"}, "a stream has no end"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is more than maxOffsetsPerTrigger"),
        ({"maxTriggerDelay": "15"}, "give a number with one of ms, s, m"),
        ({"maxTriggerDelay": "1 week"}, "give a number with one of ms, s, m"),
    ],
)
def test_an_option_that_is_invalid_for_a_stream_is_named_too(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        options_of(given, stream=True)
    assert said in refused.value.message


def test_options_that_spark_adds_are_accepted() -> None:
    batch(path="anywhere")
