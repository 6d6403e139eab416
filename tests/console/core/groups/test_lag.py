"""Samples of lag: their bounds, the pace, and the picture."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.console.core.groups.lag import (
    AGE_MS_MAX,
    GAP_MS_MIN,
    GROUPS_MAX,
    SAMPLES_MAX,
    LagHistory,
    Pace,
    Sample,
    chart,
    figures,
    pace,
    peak,
    sample,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset
from tests.consumer.described_groups import described, viewed

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_sample_has_sums_only_if_every_partition_is_known() -> None:
    """An unknown partition would make a lag look smaller than it is."""
    whole = viewed(described(), {A: CommittedOffset(7), B: CommittedOffset(4)}, {A: 10, B: 10})
    assert sample(whole, 5) == Sample(5, 9, 11, 20, 2)
    part = viewed(described(), {A: CommittedOffset(7), B: CommittedOffset(4)}, {A: 10})
    assert sample(part, 5) == Sample(5, None, partitions=2)


def test_recent_samples_stay_whole_and_older_ones_are_thinned_out() -> None:
    history = LagHistory()
    for second in range(2_000):
        history.add("g", Sample(second * 1_000, second))
    kept = [each.lag or 0 for each in history.of("g")]
    assert len(kept) <= SAMPLES_MAX
    assert kept[0] == 0
    assert kept[-SAMPLES_MAX // 4 :] == list(range(2_000 - SAMPLES_MAX // 4, 2_000))


def test_a_history_forgets_old_samples_groups_beyond_its_bound_and_what_is_not_later() -> None:
    history = LagHistory()
    history.add("g", Sample(0, 1))
    history.add("g", Sample(0, 2))
    assert history.of("g") == (Sample(0, 1),)
    history.add("g", Sample(AGE_MS_MAX + 1, 3))
    assert history.of("g") == (Sample(AGE_MS_MAX + 1, 3),)
    for number in range(GROUPS_MAX):
        history.add(f"other-{number}", Sample(1, 1))
    assert history.of("g") == ()
    history.forget("other-5")
    assert history.of("other-5") == ()


def test_the_pace_says_how_long_the_lag_lasts() -> None:
    """100 records a second are read, 60 are written: of 400 nothing is left in 10 s."""
    samples = [Sample(0, 800, 0, 800, 1), Sample(10_000, 400, 1_000, 1_400, 1)]
    assert pace(samples) == Pace(100.0, 60.0, 10_000)


def test_a_lag_that_grows_or_is_not_known_has_no_end() -> None:
    grows = [Sample(0, 0, 0, 0, 1), Sample(1_000, 50, 50, 100, 1)]
    assert pace(grows) == Pace(50.0, 100.0, None)
    assert pace([]) is None
    assert pace(grows[:1]) is None
    assert pace([Sample(0, None), grows[1]]) is None
    assert pace([grows[0], Sample(1_000, None)]) is None
    assert pace([Sample(0, 9, 9, 18, 1), grows[1]]) == Pace(41.0, 82.0, None)


def test_a_reset_and_other_partitions_are_no_pace() -> None:
    """Records that were read again were not read backwards."""
    assert pace([Sample(0, 0, 90, 90, 1), Sample(1_000, 90, 0, 90, 1)]) is None
    assert pace([Sample(0, 0, 10, 10, 1), Sample(1_000, 20, 10, 30, 2)]) is None


def test_the_chart_has_its_highest_lag_at_the_top_and_a_gap_where_nothing_was_sampled() -> None:
    later = GAP_MS_MIN * 3
    samples = [Sample(0, 0), Sample(1_000, 50), Sample(later, 100), Sample(later + 1_000, 25)]
    found = chart(samples, width=100, height=10)
    assert found is not None
    assert found.lag_max == 100
    assert len(found.lines) == 2
    assert found.lines[0].startswith("0.0,10.0 ")
    assert found.lines[1].endswith("100.0,7.5")
    assert found.lines[1].partition(" ")[0].endswith(",0.0")


def test_an_unknown_lag_breaks_the_line_and_too_few_samples_are_no_chart() -> None:
    broken = chart([Sample(0, 1), Sample(1, 1), Sample(2, None), Sample(3, 1), Sample(4, 1)])
    assert broken is not None
    assert len(broken.lines) == 2
    assert chart([]) is None
    assert chart([Sample(0, 1), Sample(1, None)]) is None


@given(st.lists(st.tuples(st.integers(1, 10**7), st.none() | st.integers(0, 2**62)), max_size=400))
def test_every_point_is_within_the_picture(steps: list[tuple[int, int | None]]) -> None:
    at, samples = 0, []
    for step, lag in steps:
        at += step
        samples.append(Sample(at, lag))
    found = chart(samples, width=300, height=80)
    for line in () if found is None else found.lines:
        for point in line.split(" "):
            x, y = map(float, point.split(","))
            assert 0 <= x <= 300
            assert 0 <= y <= 80


def test_the_figures_are_spread_over_the_time_with_the_newest_first() -> None:
    samples = [Sample(second * 1_000, second) for second in range(100)]
    shown = figures(samples, 5)
    assert [each.lag for each in shown] == [99, 98, 74, 49, 24]
    assert figures(samples[:3], 5) == tuple(reversed(samples[:3]))


def test_the_peak_is_the_newest_of_the_highest() -> None:
    assert peak([Sample(0, 5), Sample(1, None), Sample(2, 5), Sample(3, 1)]) == Sample(2, 5)
    assert peak([Sample(0, None)]) is None
