"""The number of replicas is that of the time, also if changes of it are read in another order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.console.core.timeline.lanes.counts import CHANGES_MAX, Counts

SEEN = st.dictionaries(st.integers(0, 100), st.integers(1, 5), max_size=12)


def counts_of(changes: list[int], seen: dict[int, int]) -> Counts:
    counts = Counts()
    for at_ms in changes:
        counts.changed(at_ms)
    for at_ms in sorted(seen):
        counts.saw(at_ms, seen[at_ms])
    return counts


@given(st.lists(st.integers(0, 100), max_size=8, unique=True), SEEN, st.integers(0, 100))
def test_what_is_known_does_not_depend_on_the_order_of_reading(
    changes: list[int], seen: dict[int, int], at_ms: int
) -> None:
    one, other = counts_of(sorted(changes), seen), counts_of([], seen)
    for each in reversed(changes):
        other.changed(each)
    assert one.at(at_ms) == other.at(at_ms)
    assert one.at(at_ms) in {None, *seen.values()}


def test_of_two_numbers_between_two_changes_the_one_that_was_seen_longer_counts() -> None:
    counts = counts_of([50, 90], {10: 2, 52: 2, 53: 3, 88: 3, 91: 3, 92: 2, 200: 2})
    assert [counts.at(each) for each in (0, 49, 50, 89, 90, 300)] == [2, 2, 3, 3, 2, 2]
    assert counts.now == 2


def test_a_number_that_was_not_seen_between_two_changes_is_not_known() -> None:
    counts = counts_of([50, 90], {10: 2, 20: 2, 100: 3})
    assert [counts.at(each) for each in (0, 60, 90)] == [2, None, 3]
    counts.trim(60)
    assert [counts.at(each) for each in (0, 60, 90)] == [None, None, 3]


def test_changes_are_bounded() -> None:
    counts = counts_of([], {-10: 2})
    for at_ms in range(CHANGES_MAX + 50):
        counts.changed(at_ms)
    counts.saw(1_000, 3)
    assert counts.at(-5) is None and counts.at(2_000) == 3
