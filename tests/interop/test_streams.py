"""What Kafka Streams counted is held against what was written."""

from __future__ import annotations

from collections import Counter

import pytest

from strandline_lab.interop.outcome import Status
from strandline_lab.interop.suites.streams import judged

WRITTEN = Counter({"a": 3, "b": 1})
GOOD, BAD = Status.PASSED, Status.FAILED


@pytest.mark.parametrize(
    ("counts", "last", "each"),
    [
        ({"a": [1, 2, 3], "b": [1]}, GOOD, GOOD),
        ({"a": [1, 2, 2, 3], "b": [1]}, GOOD, BAD),
        ({"a": [1, 2, 3]}, BAD, GOOD),
        ({"a": [1, 2, 3, 4], "b": [1]}, BAD, GOOD),
        ({"a": [1, 3], "b": [1]}, GOOD, BAD),
    ],
    ids=["exact", "repeated", "lost", "counted twice", "a count that is missing"],
)
def test_counts_are_exact_and_each_is_there_once(
    counts: dict[str, list[int]], last: Status, each: Status
) -> None:
    assert [outcome.status for outcome in judged(WRITTEN, counts)] == [last, each]
