"""Messages of waiting commands: what they wait for, and why."""

from __future__ import annotations

import pytest

from strandline.cli.cluster.broker import still_leaving
from strandline.cli.cluster.settling import waiting_for
from strandline.cli.shell.waits import REPEAT_S, SHOW_AGAIN_S, Waits
from strandline.ids import TopicPartition
from strandline.vocabulary.admin import OngoingReassignment


def moving(*isr: int, reverting: bool = False, throttle: int = 0, partition: int = 0) -> OngoingReassignment:
    """From 1, 2 to 1, 4."""
    name = TopicPartition("t", partition)
    return OngoingReassignment(name, (1, 2), (1, 4), isr, throttle, reverting)


@pytest.mark.parametrize(
    ("moves", "alive", "leader", "said"),
    [
        (moving(1, 2), {1, 2}, 1, "waiting for broker 4, not alive: start it, name other replicas"),
        (moving(1, 2), {1, 2, 4}, 1, "waiting for broker 4 to have all records"),
        (moving(1, 2, throttle=9), {1, 2, 4}, 1, "have all records, at most 9 bytes a second"),
        (moving(1, 2, 4), {1, 2, 4}, 1, "waiting for broker 2 to close its replica"),
        (moving(1, 4), {1, 2, 4}, 1, "waiting for its leader, broker 1, to write the end"),
        (moving(2), {1, 4}, -1, "waiting for a leader: in sync were 2, not alive of these are 2"),
        (moving(1, 4, reverting=True), {1, 4}, 1, "waiting for broker 2, not alive"),
        (moving(1, 2, 4, reverting=True), {1, 2, 4}, 1, "waiting for broker 4 to close its replica"),
    ],
)
def test_a_reassignment_that_is_waited_for_says_for_whom(
    moves: OngoingReassignment, alive: set[int], leader: int, said: str
) -> None:
    assert waiting_for(moves, alive, leader).startswith("t-0: ")
    assert said in waiting_for(moves, alive, leader)


def test_a_reassignment_that_is_over_is_not_told_how_to_go_on() -> None:
    said = waiting_for(moving(1, 2), {1, 2}, 1, is_over=True)
    assert said == "t-0: waiting for broker 4, not alive"


def test_a_drain_that_is_taken_back_names_what_it_leaves_under_way() -> None:
    slow, other, back = moving(1, throttle=7, partition=3), moving(1), moving(1, reverting=True)
    said = still_leaving(2, [slow, other, back])
    assert said is not None
    assert said.startswith("t-3 and 1 more still moves away from broker 2")
    assert still_leaving(1, [slow, other]) is None
    assert still_leaving(2, [back]) is None


class Clock:
    now = 50.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here sleeps")


def test_a_wait_is_reported_after_a_while_and_the_same_one_seldom() -> None:
    said: list[str] = []
    clock = Clock()
    waits = Waits(said.append, clock)
    waits.show("a")
    assert said == []
    for what in ("a", "a", "b"):
        clock.now += SHOW_AGAIN_S
        assert waits.due
        waits.show(what)
    assert said == ["a", "b"]
    clock.now += REPEAT_S
    waits.show("b")
    assert said == ["a", "b", "b"]
