"""Members end for a reason, and what they share stops for a reason."""

from __future__ import annotations

import pytest

from strandline_lab.simulation.judging.stops import STOPS_PER_CHANGE_MAX, Stop, Stops
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly


def test_a_stop_lasts_until_a_member_has_it_again() -> None:
    stops = Stops()
    stops.see(1.0, {"a": "one", "b": "one"})
    stops.see(2.0, {"b": "two"})
    stops.see(3.0, {"b": "two"})
    assert stops.standing == ["a"]
    stops.see(4.5, {"a": "one", "b": "two"})
    assert stops.over == [Stop("b", 2.0, 2.0, True), Stop("a", 2.0, 4.5, False)]
    assert (stops.moves, stops.longest_s, stops.standing) == (1, 2.5, [])


def test_what_stops_more_often_than_anything_changes_is_named() -> None:
    stops = Stops()
    for at_s in range(2 * STOPS_PER_CHANGE_MAX + 2):
        stops.see(at_s, {"a": "one"} if at_s % 2 else {"a": "two"})
    assert stops.most() == ("a", 2 * STOPS_PER_CHANGE_MAX + 1)
    assert stops.too_many(changes=3) == ""
    assert stops.too_many(changes=2).startswith("a stopped 5 times, with 2 changes")


@pytest.mark.parametrize("seed", [40, 44])
def test_a_stream_application_ends_for_no_reason_but_its_own(seed: int) -> None:
    """40: a controller dies while the application creates its topics. 44: a leader that was replaced, and
    does not know it, misses batches of a changelog."""
    outcome = run_quietly(Plan.drawn(seed, 12.0))
    assert outcome.problems == ()
    assert outcome.counts["lives"] > 0
    assert not any(name.startswith("ended by") for name in outcome.counts)
