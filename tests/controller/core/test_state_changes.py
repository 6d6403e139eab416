"""A stream of state changes: the records that it sends on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline.client.reading.records import ConsumerRecord
from strandline.controller.core.state_changes import ANSWER_BYTES_MAX, EventSelection, check, matches
from strandline.errors import InvalidRequest
from strandline.ids import BrokerId, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.admin import StateChangesQuery
from strandline.vocabulary.state_changes import RequestState, StateChangeEvent, event_value
from tests.integration.support.made_up_events import REQUESTED

EVENT = replace(REQUESTED, id="r", topic="orders")


def record(offset: int, event: StateChangeEvent | bytes | None, partition: int = 0) -> ConsumerRecord:
    value = event_value(event) if isinstance(event, StateChangeEvent) else event
    return ConsumerRecord("t", partition, offset, 0, None, value, ())


def test_of_one_identity_the_first_is_sent_and_other_states_are_others() -> None:
    """This also holds for a later reading of the same stream: a record may be repeated much later."""
    selection = EventSelection(StateChangesQuery())
    received = replace(EVENT, state=RequestState.RECEIVED)
    (answered,) = selection.answers([record(0, EVENT), record(1, received), record(2, EVENT)], (3,))
    assert answered.events == [event_value(EVENT), event_value(received)]
    assert list(selection.answers([record(3, received)], (4,))) == []


def test_the_record_is_returned_as_it_is_in_the_log() -> None:
    """With fields of a later version, which this one passes over."""
    value = event_value(EVENT)[:-1] + b',"later":[1]}'
    (answered,) = EventSelection(StateChangesQuery()).answers([record(0, value)], (1,))
    assert answered.events == [value]


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"\xff", b"[]", b"{}", b"null", b'{"id":"x"}', b"[" * 10_000),
        event_value(EVENT).replace(b'"epoch":10', b'"epoch":1e999'),
    ],
)
def test_records_that_are_no_state_changes_are_skipped_and_reported(value: bytes | None) -> None:
    selection = EventSelection(StateChangesQuery())
    (answered,) = selection.answers([record(7, value), record(8, EVENT)], (9,))
    assert answered.events == [event_value(EVENT)]
    ((passed, reason),) = selection.malformed
    assert passed.offset == 7 and reason
    assert list(selection.answers([], (9,))) == [] and selection.malformed == []


def test_an_answer_is_bounded_and_a_reader_that_continues_after_it_misses_nothing() -> None:
    size = ANSWER_BYTES_MAX // 3
    events = [replace(EVENT, id=str(number), reason="r" * size) for number in range(5)]
    answered = list(
        EventSelection(StateChangesQuery()).answers(
            [record(10 + number, event, partition=1) for number, event in enumerate(events)], (4, 15)
        )
    )
    assert [each.next_offsets for each in answered] == [(4, 12), (4, 14), (4, 15)]
    assert [len(each.events) for each in answered] == [2, 2, 1]
    assert [value for each in answered for value in each.events] == [event_value(event) for event in events]
    (large,) = EventSelection(StateChangesQuery()).answers(
        [record(0, replace(EVENT, reason="r" * 2 * size * 3))], (1,)
    )
    assert len(large.events) == 1


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, True),
        ({"brokers": (1,)}, True),
        ({"brokers": (2, 3)}, False),
        ({"topic": "orders"}, True),
        ({"topic": "order"}, False),
        ({"topic": "orders", "partition": 0}, True),
        ({"topic": "orders", "partition": 1}, False),
        ({"since_ms": 1_000}, True),
        ({"since_ms": 1_001}, False),
    ],
)
def test_filters(query: dict[str, Any], wanted: bool) -> None:
    """A broker's events are those about it: what it asked of others is about the others."""
    event = replace(
        EVENT, broker=BrokerId(1), requester=BrokerId(2), at_ms=1_000,
        key=PartitionKey(TopicId("ab" * 16), PartitionId(0)),
    )  # fmt: skip
    assert matches(event, StateChangesQuery(**query)) is wanted


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"partition": 0}, "partition = 0"),
        ({"topic": "t", "partition": -2}, "partition = -2"),
        ({"since_ms": -1}, "since_ms = -1"),
        ({"from_offsets": (3, -5)}, "-5"),
        ({"brokers": (-1,)}, "-1"),
        ({"brokers": (1,) * 10_001}, "10001"),
    ],
)
def test_a_nonsensical_query_is_refused_with_its_value(query: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        check(StateChangesQuery(**query))
