"""Steps: what held when, drawn within bounds."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.console.core.timeline.lanes.steps import ALWAYS, Step, Steps
from strandline.console.core.timeline.places import NO_REF

EVENTS = st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 5)), max_size=60)


def steps_of(events: list[tuple[int, int]]) -> Steps[int]:
    steps: Steps[int] = Steps()
    for ref, (at_ms, value) in enumerate(events):
        steps.add(at_ms, value, ref)
    return steps


def held(events: list[tuple[int, int]], at_ms: int) -> int | None:
    """The naive model: the last event until then, of equal times the last that was added."""
    before = [(at, number) for number, (at, _) in enumerate(events) if at <= at_ms]
    return events[max(before)[1]][1] if before else None


@given(EVENTS, st.integers(-1, 1_001))
def test_the_last_event_before_a_time_says_what_held_then(events: list[tuple[int, int]], at_ms: int) -> None:
    assert steps_of(events).value_at(at_ms) == held(events, at_ms)


@given(EVENTS, st.integers(0, 500), st.integers(1, 600), st.integers(1, 40))
def test_what_is_drawn_is_bounded_by_the_width_and_says_what_held(
    events: list[tuple[int, int]], from_ms: int, span_ms: int, width: int
) -> None:
    until_ms, pixel_ms = from_ms + span_ms, span_ms / width
    drawn = list(steps_of(events).drawn(from_ms, until_ms, pixel_ms, parts_max=len(events)))
    assert len(drawn) <= 2 * width + 1
    for one, following in pairwise(drawn):
        assert one.until_ms == following.at_ms, "there are no gaps"
    for each in drawn:
        assert each.at_ms < until_ms
        if each.merged == 1:
            assert each.value == held(events, max(each.at_ms, from_ms))
            assert events[each.ref][0] == each.at_ms, "it began when its event says, also before the view"
        else:
            assert each.ref == NO_REF and each.until_ms is not None
            assert each.until_ms - each.at_ms <= pixel_ms
            assert len(each.parts) == each.merged and each.parts[-1].at_ms == each.last_ms
            assert [events[part.ref][0] for part in each.parts] == [part.at_ms for part in each.parts]


@given(EVENTS, st.integers(0, 1_000))
def test_what_held_at_the_floor_stays(events: list[tuple[int, int]], floor_ms: int) -> None:
    steps = steps_of(events)
    steps.trim(floor_ms)
    for at_ms in (floor_ms, floor_ms + 1, 1_001):
        assert steps.value_at(at_ms) == held(events, at_ms)
    assert len(steps) <= 1 + sum(at > floor_ms for at, _ in events)


def test_the_order_of_epochs_counts_more_than_clocks() -> None:
    steps: Steps[int] = Steps()
    steps.add(100, 1, 0, order=6)
    steps.add(90, 2, 1, order=7)
    assert [(step.at_ms, step.value) for step in steps.drawn(0, 1_000, 1)] == [(100, 2)]
    steps.add(200, 3, 2, order=8)
    assert steps.value_at(150) == 2 and steps.value_at(200) == 3


def test_what_was_seen_holds_always_until_an_event_says_more() -> None:
    steps: Steps[int] = Steps()
    steps.see(500, 1, order=6)
    assert list(steps.drawn(100, 1_000, 1)) == [Step(ALWAYS, None, 1, NO_REF, 6)]
    steps.add(600, 2, 9, order=7)
    assert [(step.at_ms, step.value) for step in steps.drawn(100, 1_000, 1)] == [
        (ALWAYS, 1),
        (600, 2),
    ]
    steps.add(300, 1, 8, order=6)
    assert [(step.at_ms, step.value) for step in steps.drawn(100, 1_000, 1)] == [(300, 1), (600, 2)]


@pytest.mark.parametrize("seen_ms", [195, 200, 205])
def test_an_event_takes_the_place_of_what_was_seen_of_it(seen_ms: int) -> None:
    steps: Steps[int] = Steps()
    steps.add(100, 1, 0, order=6)
    steps.see(seen_ms, 2, order=7)
    steps.add(200, 2, 1, order=7)
    assert [(step.at_ms, step.value, step.ref) for step in steps.drawn(0, 300, 1)] == [
        (100, 1, 0),
        (200, 2, 1),
    ]


def test_an_equal_step_of_the_same_time_is_there_once() -> None:
    steps = steps_of([(100, 1), (100, 1)])
    assert len(steps) == 1


@pytest.mark.parametrize("first", [0, 1])
def test_after_an_end_nothing_holds_until_the_next_step(first: int) -> None:
    steps: Steps[int] = Steps()
    for number in (first, 1 - first):  # whichever is read first
        steps.add(100 + 200 * number, number, number, order=number)
    steps.end(200, 7, order=0)
    assert bars(steps) == [(100, 200, 0), (300, None, 1)]
    assert bars(steps, 250) == [(100, 200, 0)] and list(steps.drawn(210, 290, 1)) == []
    assert (steps.value_at(199), steps.value_at(200), steps.value_at(300)) == (0, None, 1)
    assert steps.before(1) is None, "nothing held just before it"
    assert steps.since(lambda value: value >= 0) == Step(300, None, 1, 1, 1)
    steps.end(400, 8, order=1)
    assert (steps.last, steps.ended, steps.since(lambda value: True)) == (None, True, None)
    steps.trim(350)
    assert bars(steps) == [(300, 400, 1)], "what ended is still ended"


@pytest.mark.parametrize(("end_ms", "until_ms"), [(50, 100), (200, 200), (350, 300)])
def test_the_order_of_an_end_counts_more_than_clocks(end_ms: int, until_ms: int) -> None:
    steps: Steps[int] = Steps()
    steps.add(100, 1, 0, order=6)
    steps.add(300, 2, 1, order=9)
    steps.end(end_ms, 7, order=6)
    assert bars(steps) == [(100, until_ms, 1), (300, None, 2)]
    assert not steps.ended and steps.before(1) is None


def test_an_end_that_was_seen_gives_way_to_its_event_and_to_a_second_look() -> None:
    steps: Steps[int] = Steps()
    steps.add(100, 1, 0, order=6)
    steps.end(250, NO_REF, order=6)
    steps.end(300, NO_REF, order=6)
    assert bars(steps) == [(100, 250, 1)], "the first look counts"
    steps.end(200, 7, order=6)
    assert bars(steps) == [(100, 200, 1)]
    steps.see(400, 2, order=9)
    assert bars(steps) == [(100, 200, 1), (400, None, 2)]
    steps.end(500, NO_REF, order=9)
    assert steps.ended
    steps.see(600, 2, order=9)
    assert bars(steps)[-1] == (400, None, 2), "that broker's answer was old"


def test_what_is_there_now_was_not_there_before_an_end() -> None:
    steps: Steps[int] = Steps()
    steps.see(500, 2, order=9)
    steps.end(300, 7, order=-1)
    assert bars(steps) == [(500, None, 2)]
    steps.add(100, 1, 0, order=6)
    steps.end(300, 7, order=6)
    steps.add(400, 2, 1, order=9)
    assert bars(steps) == [(100, 300, 1), (400, None, 2)]
    gone: Steps[int] = Steps()
    gone.see(500, 2, order=9)
    gone.end(499, 7, order=9)  # by a clock that is behind
    assert bars(gone) == [(ALWAYS, 499, 2)]


def bars(steps: Steps[int], until_ms: int = 1_000) -> list[tuple[int, int | None, int]]:
    return [(step.at_ms, step.until_ms, step.value) for step in steps.drawn(0, until_ms, 1)]
