"""Where a reset goes: the choice of partitions, and the plan within the logs (USERS 22)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.client.resets.plan import Bounds, Chosen, Shift, Since, Target, chosen_partitions, plan
from strandline.errors import InvalidRequest, UnknownTopicOrPartition
from strandline.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_partitions_that_a_topic_does_not_have_are_named() -> None:
    assert chosen_partitions([Chosen("t", None), Chosen("t", (1,))], {"t": [0, 1]}) == [A, B]
    with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 1, there is no 7"):
        chosen_partitions([Chosen("t", (1, 7))], {"t": [0, 1]})


@pytest.mark.parametrize(
    ("to", "new", "note"),
    [
        ("earliest", 10, ""),
        ("latest", 90, ""),
        (50, 50, ""),
        (9, 10, "9 lies outside: the log starts at 10"),
        (91, 90, "91 lies outside: the log ends at 90"),
        (Shift(5), 45, ""),
        (Shift(-5), 35, ""),
        (Shift(-100), 10, "-60 lies outside: the log starts at 10"),
        (Shift(100), 90, "140 lies outside: the log ends at 90"),
    ],
)
def test_a_partition_goes_where_it_is_sent_within_its_log(to: Target, new: int, note: str) -> None:
    """An offset outside the log would be thrown away by the next consumer, for its own policy."""
    (reset,) = plan(to, {A: 40}, {A: Bounds(10, 90)})
    assert (reset.new, reset.note) == (new, note)
    assert reset.change == new - 40
    assert reset.lag == 90 - new


def test_a_time_is_the_first_record_not_older_and_the_end_where_none_is() -> None:
    found, none = plan(Since(1), {}, {A: Bounds(10, 90, at_time=33), B: Bounds(0, 7)})
    assert (found.new, found.note) == (33, "")
    assert (none.new, none.note) == (7, "no record is that young")
    assert found.change is None


def test_nothing_is_shifted_from_nowhere() -> None:
    """All or none: the partitions without a commit are named, and the others are not touched either."""
    with pytest.raises(InvalidRequest, match="nothing is committed for t-1"):
        plan(Shift(1), {A: 5}, {A: Bounds(0, 9), B: Bounds(0, 9)})


@given(
    to=st.one_of(
        st.sampled_from(["earliest", "latest"]), st.integers(0, 2**63 - 1), st.builds(Shift, st.integers())
    ),
    start=st.integers(0, 1000),
    size=st.integers(0, 1000),
    committed=st.integers(0, 3000),
)
def test_no_plan_leaves_the_log(to: Target, start: int, size: int, committed: int) -> None:
    """Bounds are clamped, and what was clamped says so."""
    (reset,) = plan(to, {A: committed}, {A: Bounds(start, start + size)})
    assert start <= reset.new <= start + size
    wanted = {"earliest": start, "latest": start + size}.get(str(to))
    if isinstance(to, Shift):
        wanted = committed + to.records
    elif isinstance(to, int):
        wanted = to
    assert bool(reset.note) == (reset.new != wanted)
