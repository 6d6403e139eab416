"""Which reassignments are overdue, and what their events say they wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.core.survey import SurveyedPartition
from strandline.controller.core.upkeep.census import take_census
from strandline.controller.core.upkeep.deadlines import deadline_of, explained, overdue, waits_for
from strandline.ids import NO_BROKER
from strandline.vocabulary.admin import NO_DEADLINE
from strandline.vocabulary.metadata import Deadline
from tests.controller.core.support.surveys import partition, survey


def due(number: int, deadline: Deadline | None, *, reverting: bool = False) -> SurveyedPartition:
    found = partition(number, [1, 2], to=[1, 3], reverting=reverting)
    assert found.reassignment is not None
    return replace(found, reassignment=replace(found.reassignment, deadline=deadline))


@pytest.mark.parametrize(
    ("timeout_ms", "default_ms", "at_ms"),
    [(0, 50, 150), (20, 50, 120), (20, 0, 120), (0, 0, None), (NO_DEADLINE, 50, None)],
)
def test_a_request_has_its_own_deadline_or_that_of_the_controller(
    timeout_ms: int, default_ms: int, at_ms: int | None
) -> None:
    found = deadline_of(timeout_ms, default_ms, 100, cancels=True)
    assert found == (None if at_ms is None else Deadline(at_ms, cancels=True))


def test_a_deadline_passes_once_and_a_move_to_take_back_is_found_until_it_is_taken_back() -> None:
    partitions = (
        due(0, Deadline(100)),
        due(1, Deadline(101)),
        due(2, Deadline(100, passed=True)),
        due(3, Deadline(100, cancels=True, passed=True)),
        due(4, Deadline(100, cancels=True), reverting=True),
        due(5, None),
        partition(6, [1, 2]),
    )
    cluster = survey(*partitions)
    assert [each.key.partition for each in overdue(cluster, 100)] == [0, 3]
    assert take_census(cluster).overdue == 2, "those that are marked"


@pytest.mark.parametrize(
    ("isr", "leader", "live", "why"),
    [
        ([1, 2], 1, [1, 2], "not alive: broker 3"),
        ([1, 2], 1, [1, 2, 3], "not in sync: broker 3"),
        ([1, 2, 3], 1, [1, 2, 3], "not closed: broker 2"),
        ([1, 3], 1, [1, 2, 3], "its leader, broker 1, has not written the end"),
        ([1, 2], NO_BROKER, [3], "it has no leader; in sync were broker 1, 2"),
        ([1], 1, [2, 3], "it has no leader; in sync was broker 1"),
    ],
)
def test_what_it_waits_for_is_named(isr: list[int], leader: int, live: list[int], why: str) -> None:
    moving = partition(0, [1, 2], isr, leader=leader, to=[1, 3])
    assert waits_for(survey(moving, live=live), moving) == why


def test_the_event_says_after_which_time_and_what_follows() -> None:
    wanted = due(0, Deadline(1_500)).reassignment
    assert wanted is not None
    assert (
        explained(wanted, "not alive: broker 3")
        == "not complete after 1.5 s: not alive: broker 3; it goes on"
    )
    taken_back = replace(wanted, deadline=Deadline(1_500, cancels=True))
    assert explained(taken_back, "x").endswith("; it is taken back")
