"""Names of tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.streams.core.task import TaskId

tasks = st.builds(TaskId, st.text(min_size=1, max_size=8), st.integers(0, 2**31 - 1))


@given(tasks)
def test_a_task_is_read_back_from_its_name(task: TaskId) -> None:
    assert TaskId.parse(str(task)) == task


def test_a_subtopology_may_have_hyphens() -> None:
    assert TaskId.parse("word-counts-3") == TaskId("word-counts", 3)


@pytest.mark.parametrize(
    "text", ["", "counts", "counts-", "-3", "counts-x", "counts-03", "counts-+3", "counts-³"]
)
def test_an_invalid_task_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names no task"):
        TaskId.parse(text)


def test_tasks_are_in_the_order_of_their_numbers_not_of_their_names() -> None:
    assert sorted([TaskId("b", 2), TaskId("a", 10), TaskId("a", 9)]) == [("a", 9), ("a", 10), ("b", 2)]
