"""The bounds that conditions set for the position of rows."""

from __future__ import annotations

import operator
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from strandline.pipeline.core.pruning import EVERYTHING, Condition, Interval, Pruning, pruned, pruning
from strandline.pipeline.core.ranges import OffsetRange

COMPARE: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

ranges = [OffsetRange(topic, number, 3, 9, "id") for topic in ("a", "b") for number in range(3)]
rows = [(one.topic, one.partition, offset) for one in ranges for offset in range(one.start, one.end)]

numbers = st.integers(-2, 12)
conditions = st.lists(
    st.one_of(
        st.builds(
            lambda column, how, number: Condition(column, how, (number,)),
            st.sampled_from(["partition", "offset"]),
            st.sampled_from(sorted(COMPARE)),
            numbers,
        ),
        st.builds(
            lambda column, found: Condition(column, "=", tuple(found)),
            st.sampled_from(["partition", "offset"]),
            st.lists(numbers, min_size=1, max_size=3),
        ),
        st.builds(
            lambda found: Condition("topic", "=", tuple(found)),
            st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=2),
        ),
        st.just(Condition("value", "=", (b"x",))),
    ),
    max_size=4,
)


def holds(condition: Condition, row: tuple[str, int, int]) -> bool:
    value = dict(zip(("topic", "partition", "offset"), row, strict=True)).get(condition.column)
    if value is None:
        return True  # it is not Spark's whole answer: as if the condition were not there
    return any(COMPARE[condition.operator](value, other) for other in condition.values)  # type: ignore[arg-type]


@given(conditions)
def test_no_matching_row_is_pruned(asked: list[Condition]) -> None:
    left = {
        (one.topic, one.partition, offset)
        for one in pruned(ranges, pruning(asked))
        for offset in range(one.start, one.end)
    }
    assert {row for row in rows if all(holds(condition, row) for condition in asked)} <= left


@given(conditions)
def test_conditions_with_one_value_leave_only_matching_rows(asked: list[Condition]) -> None:
    asked = [one for one in asked if len(one.values) == 1]
    left = [
        (one.topic, one.partition, offset)
        for one in pruned(ranges, pruning(asked))
        for offset in range(one.start, one.end)
    ]
    assert left == [row for row in rows if all(holds(condition, row) for condition in asked)]


def test_an_unknown_condition_prunes_nothing() -> None:
    asked = [
        Condition("partition", "=", (1, None)),
        Condition("topic", "<", ("b",)),
        Condition("topic", "=", (None,)),
        Condition("timestamp", "=", (None,)),
    ]
    assert pruning(asked) == Pruning()


def test_times_are_bounded_from_both_sides() -> None:
    asked = [Condition("timestamp", ">", (5,)), Condition("timestamp", "<=", (9,))]
    assert pruning(asked).times_us == Interval(6, 9)
    assert 6 in Interval(6, 9)
    assert 10 not in Interval(6, 9)
    assert 10 in EVERYTHING
