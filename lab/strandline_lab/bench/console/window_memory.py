"""`python -m strandline_lab.bench.console.window_memory EVENTS`: what a console takes after many events.

Prints a JSON object: the memory of a process that has a console's libraries, the longest turn, and more.
Times are of the processor, so a busy machine has the same.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from time import process_time
from typing import Final

from strandline.adapters.system.clock import SystemClock
from strandline.config.console import ConsoleSettings
from strandline.config.load import load
from strandline.console.core.timeline.drawing import draw
from strandline.console.core.timeline.gaps import Gaps
from strandline.console.core.timeline.journal import Record
from strandline.console.core.timeline.places import Source
from strandline.console.core.timeline.view import View, matching
from strandline.console.core.window import Window
from strandline.console.feeds.event_topic import AT_ONCE
from strandline.console.process import serve
from strandline_lab.bench.console.synthetic import state_changes
from strandline_lab.bench.report import resident_mib

TOPICS: Final = 1_000
PARTITIONS: Final = 3
SHOWN_ROWS: Final = 100


def main(events: int) -> None:
    """Fills a window, draws a view of it, and prints the figures."""
    assert serve is not None  # what a console has in memory besides: the libraries of the web
    clock = SystemClock()
    window = Window(load(ConsoleSettings).events_kept)
    from_ms = clock.wall_ms()
    source = state_changes(TOPICS, PARTITIONS, from_ms)
    read, longest_s, all_s, until_ms = 0, 0.0, 0.0, from_ms
    while read < events:
        batch = [Record(read + n, each.at_ms, each.value) for n, each in enumerate(islice(source, AT_ONCE))]
        began = process_time()
        until_ms = batch[-1].timestamp_ms
        window.read(Source.STATE, 0, batch, until_ms)
        took_s = process_time() - began
        read, longest_s, all_s = read + len(batch), max(longest_s, took_s), all_s + took_s
    kept_from = window.kept_from(Source.STATE)
    assert kept_from is not None
    view = View("partition", kept_from, until_ms, 1_500)
    began = process_time()
    rows = [row for row in matching(window.rows, view) if row is not None]
    gaps = Gaps(window.rows, view)
    drawn = [draw(row, view, gaps) for row in rows[:SHOWN_ROWS]]
    print(
        json.dumps(
            {
                "process_mib": resident_mib(os.getpid()),
                "kept": window.count(Source.STATE),
                "event_us": all_s * 1e6 / read,
                "longest_turn_ms": longest_s * 1e3,
                "view_ms": (process_time() - began) * 1e3,
                "rows": len(rows),
                "items": sum(len(lane.get("items", ())) for row in drawn for lane in row["lanes"]),
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
