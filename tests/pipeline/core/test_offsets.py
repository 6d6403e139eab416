"""Offsets as JSON: what users write, and what a checkpoint keeps."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.ids import TopicPartition
from strandline.pipeline.core.offsets import EARLIEST, StreamOffset, as_json, listed, parse, parse_partitions
from strandline.pipeline.errors import InvalidOption

names = st.builds(TopicPartition, st.sampled_from(["a", "b.c", "Zz", "_x", "0"]), st.integers(0, 120))
offsets = st.dictionaries(names, st.integers(0, 2**62))


def test_offsets_are_read_as_kafka_writes_them() -> None:
    text = '{"orders": {"1": -2, "0": 12}, "tides": {"10": -1}}'
    assert parse("startingOffsets", text, least=EARLIEST) == {
        TopicPartition("orders", 0): 12,
        TopicPartition("orders", 1): -2,
        TopicPartition("tides", 10): -1,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "give an object by topic"),
        ("{}", "names no partition"),
        ('{"orders": {}}', "names no partition"),
        ('{"orders": 3}', "'orders' has 3"),
        ('{"or ders": {"0": 1}}', "no topic can have the name 'or ders'"),
        ('{"orders": {"one": 1}}', "partition 'one'"),
        ('{"orders": {"-1": 1}}', "partition '-1'"),
        ('{"orders": {"0": 5, "00": 7}}', "partition '00'"),
        ('{"orders": {"0": 5, "0": 7}}', "'0' twice"),
        ('{"orders": {"0": 5}, "orders": {"0": 7}}', "'orders' twice"),
        ('{"orders": {"0": -3}}', "partition 0 has -3: give a whole number from -2"),
        ('{"orders": {"0": 1.5}}', "has 1.5"),
        ('{"orders": {"0": true}}', "has True"),
        ('{"orders": {"0": "7"}}', "has '7'"),
        ('{"orders": {"0": 9223372036854775808}}', "has 9223372036854775808"),
    ],
)
def test_an_invalid_offset_is_refused_with_the_option_and_the_place(text: str, said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        parse("startingOffsets", text, least=EARLIEST)
    assert refused.value.message.startswith("startingOffsets")
    assert said in refused.value.message


def test_assigned_partitions_are_numbers_by_topic() -> None:
    found = parse_partitions("assign", '{"b": [1, 0, 1], "a": [7]}')
    assert found == [TopicPartition("a", 7), TopicPartition("b", 0), TopicPartition("b", 1)]


@pytest.mark.parametrize(
    "text", ['{"a": {"0": 1}}', '{"a": [-1]}', '{"a": [true]}', '{"a": ["0"]}', '{"a": []}']
)
def test_an_invalid_partition_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"^assign"):
        parse_partitions("assign", text)


@given(offsets)
def test_the_same_offsets_are_the_same_text_in_any_order_of_arrival(
    found: dict[TopicPartition, int],
) -> None:
    """Spark compares offsets as text: another order would be a batch without records, again and again."""
    turned = dict(reversed(list(found.items())))
    assert json.dumps(as_json(found)) == json.dumps(as_json(turned))


def test_partitions_stand_in_the_order_of_their_numbers() -> None:
    written = as_json({TopicPartition("a", 10): 0, TopicPartition("a", 9): 0})
    assert list(written["a"]) == ["9", "10"]


@given(offsets, st.none() | offsets, offsets)
def test_a_checkpoint_is_read_as_it_was_written(
    found: dict[TopicPartition, int],
    since: dict[TopicPartition, int] | None,
    any_epochs: dict[TopicPartition, int],
) -> None:
    epochs = {name: epoch for name, epoch in any_epochs.items() if name in found}
    ids = {name.topic: f"id of {name.topic}" for name in found}
    offset = StreamOffset(found, ids, since, epochs)
    written = json.dumps(offset.as_json())
    again = StreamOffset.from_json(json.loads(written))
    assert again == offset
    assert json.dumps(again.as_json()) == written


@pytest.mark.parametrize("written", [{"value": 1}, {"a": {"x": 1}}, {"a": {"0": None}}, {"@ids": 3}])
def test_a_checkpoint_of_something_else_is_refused(written: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match="which strandline did not write"):
        StreamOffset.from_json(written)


def test_a_message_names_a_bounded_number_of_partitions() -> None:
    many = [TopicPartition("a", number) for number in range(14)]
    assert listed(many, most=2) == "a-0, a-1 and 12 more"
    assert listed(many[:2]) == "a-0, a-1"
