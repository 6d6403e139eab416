"""Timers: none is lost, none is early, and moving one away costs the heap nothing."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strandline.broker.core.coordinators.timers import Timers
from strandline.broker.core.groups.timers import Timer, TimerKind

WHO = st.sampled_from([Timer(TimerKind.SESSION, "g", str(number)) for number in range(6)])


class TimersMachine(RuleBasedStateMachine):
    """Against a plain dict of deadlines."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: Timers[Timer] = Timers()
        self.model: dict[Timer, float] = {}
        self.now = 0.0

    @rule(timer=WHO, after=st.integers(0, 20))
    def set(self, timer: Timer, after: int) -> None:
        self.timers.set(timer, self.now + after)
        self.model[timer] = self.now + after

    @rule(timer=WHO)
    def cancel(self, timer: Timer) -> None:
        self.timers.cancel(timer)
        self.model.pop(timer, None)

    @rule(after=st.integers(0, 15))
    def time_passes(self, after: int) -> None:
        self.now += after
        popped: list[float] = []
        while (timer := self.timers.pop(self.now)) is not None:
            popped.append(self.model.pop(timer))
        assert popped == sorted(popped)
        assert all(at <= self.now for at in popped)
        assert all(at > self.now for at in self.model.values())

    @invariant()
    def the_next_deadline_is_the_least(self) -> None:
        assert self.timers.next_deadline() == min(self.model.values(), default=None)
        assert len(self.timers) == len(self.model)


TestTimersMachine = TimersMachine.TestCase


def test_a_thousand_heartbeats_leave_one_entry_in_the_heap() -> None:
    timers: Timers[Timer] = Timers()
    timer = Timer(TimerKind.SESSION, "g", "m")
    for second in range(1_000):
        timers.set(timer, second + 10.0)
    assert timers.entries == 1
    assert timers.pop(1_008.0) is None
    assert timers.pop(1_009.0) == timer
