"""A history of a round's own clients has the form of `strandline verify`, so every check reads it."""

from __future__ import annotations

import io
import json

from strandline.adapters.system.clock import SystemClock
from strandline.auditing.history import (
    Acked,
    Assigned,
    Ended,
    Failed,
    Received,
    Sent,
    Watermark,
    read_lines,
)
from strandline.errors import Outcome
from strandline_lab.chaos.history_lines import HistoryLines


def test_each_event_is_read_as_it_was_written() -> None:
    out = io.StringIO()
    lines = HistoryLines("swell", out, SystemClock())
    lines.assigned([1, 0])
    lines.sent(0, b"key", b"k1-0")
    lines.acked(0, 1, 7)
    lines.sent(1, None, b"k1-1")
    lines.failed(1, -192, "_MSG_TIMED_OUT", Outcome.UNKNOWN, "Local: Message timed out")
    lines.received(1, 7, 1_000, None, b"k1-0")
    lines.watermark(1, 8, 8)
    lines.error(-150, "_FATAL", "it is over")
    lines.summary()
    assert list(read_lines("k1", out.getvalue().encode().splitlines(keepends=True))) == [
        Assigned(0, "swell", (0, 1)),
        Sent(1, "swell", 0, b"k1-0"),
        Acked(2, "swell", 0, 1, 7),
        Sent(3, "swell", 1, b"k1-1"),
        Failed(4, "swell", 1, Outcome.UNKNOWN),
        Received(5, "swell", 1, 7, b"k1-0"),
        Watermark(6, "swell", 1, 8, 8),
        Ended(7, "swell"),
        Ended(8, "swell"),
    ]
    last = json.loads(out.getvalue().splitlines()[-1])
    assert (last["sent"], last["acked"], last["failed"], last["received"]) == (2, 1, 1, 1)


def test_an_acknowledgement_without_an_offset_has_offset_minus_one() -> None:
    """librdkafka says −1001 if the broker knew the record already, and no longer its offset."""
    out = io.StringIO()
    HistoryLines("swell", out, SystemClock()).acked(0, 1, -1001)
    (event,) = read_lines("k1", [out.getvalue().encode()])
    assert event == Acked(0, "swell", 0, 1, -1)


def test_a_value_that_is_no_text_differs_from_every_text() -> None:
    out = io.StringIO()
    HistoryLines("swell", out, SystemClock()).received(0, 0, 0, None, b"\xff")
    (event,) = read_lines("k1", [out.getvalue().encode()])
    assert isinstance(event, Received)
    assert event.value == b"\\xff"
