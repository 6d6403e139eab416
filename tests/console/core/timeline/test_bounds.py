"""The size of an answer follows from its rows and pixels, and not from what the window holds."""

from __future__ import annotations

from itertools import islice

import pytest

from strandline.console.core.timeline.drawing import draw
from strandline.console.core.timeline.gaps import Gaps
from strandline.console.core.timeline.journal import Record
from strandline.console.core.timeline.places import Source
from strandline.console.core.timeline.view import RowKind, View, matching
from strandline.console.core.window import Window
from strandline.ids import TopicId
from strandline.vocabulary.metadata import PartitionMetadata, TopicMetadata
from tests.console.core.timeline.events import AT
from tests.console.core.timeline.synthetic import state_changes

TOPICS, PARTITIONS = 1_000, 3
EVENTS = 20_000
KEPT = 12_000
WIDTH = 50
A_PIXEL = {"leader": 2, "isr": 2, "request": 1, "marks": 7}
"""The most items in one pixel of a lane. Marks: one of each kind."""


@pytest.fixture(scope="module")
def window() -> Window:
    """A large cluster after many events, some of which are not kept any longer."""
    window = Window(KEPT)
    partitions = tuple(PartitionMetadata(each, 1, 0, (1, 2, 3), (1, 2, 3)) for each in range(PARTITIONS))
    window.seen_topics(
        tuple(TopicMetadata(f"topic-{topic}", TopicId("t"), partitions) for topic in range(TOPICS)), AT
    )
    source = islice(state_changes(TOPICS, PARTITIONS, AT), EVENTS)
    records = [Record(offset, each.at_ms, each.value) for offset, each in enumerate(source)]
    window.read(Source.STATE, 0, records, records[-1].timestamp_ms)
    return window


@pytest.mark.parametrize(
    ("rows", "count"), [("partition", TOPICS * PARTITIONS), ("broker", 5), ("request", 1_000)]
)
def test_a_lane_has_a_few_items_a_pixel(window: Window, rows: RowKind, count: int) -> None:
    kept_from = window.kept_from(Source.STATE)
    assert kept_from is not None and window.count(Source.STATE) <= KEPT
    view = View(rows, kept_from, window.newest_ms + 1, WIDTH)
    found = [row for row in matching(window.rows, view) if row is not None]
    assert len(found) >= count
    gaps = Gaps(window.rows, view)
    lanes = [lane for row in found[:100] for lane in draw(row, view, gaps)["lanes"]]
    assert lanes
    for lane in lanes:
        assert len(lane["items"]) <= A_PIXEL[lane["kind"]] * (WIDTH + 1), lane["kind"]


def test_spans_stand_for_those_that_are_not_drawn(window: Window) -> None:
    view = View("broker", AT, window.newest_ms + 1, WIDTH)
    gaps = Gaps(window.rows, view)
    for broker in window.rows.brokers:
        lanes = draw(broker, view, gaps)["lanes"]
        (requests,) = (lane["items"] for lane in lanes if lane["kind"] == "request")
        drawn = sum(each.get("merged", 1) for each in requests)
        assert drawn == len(broker.requests) > 5 * len(requests)
