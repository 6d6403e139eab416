"""Every metric in the alarms of docs/run/operations.md exists."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

from checks.doc_tables import METRICS
from checks.docs import OPERATIONS
from strandline.adapters.telemetry.metrics import Kind

ROOT = Path(__file__).parents[2]
SUFFIXES = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count")}


def test_every_name_in_an_alarm_is_a_metric() -> None:
    """A misspelt one would be silent forever."""
    _, _, alarms = (ROOT / OPERATIONS).read_text().partition("## What to alarm on")
    alarms, _, _ = alarms.partition("\n## ")
    expressions = re.findall(r"^\| `([^`]+)` \|", alarms, re.MULTILINE)
    assert len(expressions) > 10
    series = {
        metric.name + suffix
        for metric in chain.from_iterable(METRICS.values())
        for suffix in SUFFIXES.get(metric.kind, ("",))
    }
    named = set(re.findall(r"\b(?:kafka|strandline)_\w+", " ".join(expressions)))
    assert named - series == set()
