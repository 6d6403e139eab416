"""Requests, replicas and their requesters, as one machine, at random.

The controller, the sessions of brokers with their queues, elections, leaderships and reassignments are real;
ZooKeeper, disks, the network and time are models (tests/simulation/state_changes). A walk with one rule
removed finds a violation, which shows that the walk would notice.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.simulation.state_changes.rules import Rule
from tests.simulation.state_changes.truth import Violation
from tests.simulation.state_changes.walk import Walk, walk
from tests.simulation.state_changes.world import World

WALKS = 50
STEPS = 600
WALKS_TO_NOTICE_MAX = 200
RARE = {Rule.INCARNATION: 46, Rule.END_BY_COMPARE_AND_SET: 73}
"""Rules that a walk seldom needs, and a seed whose walk needs it: that one is walked first."""


@pytest.mark.timeout(300)
def test_every_request_ends_once_and_all_heals(record_property: Callable[[str, object], None]) -> None:
    """CORRECTNESS Q1, Q2, Q3, Q6, Q7, E5, E7, E16.

    Topics come, go and come again under their names, grow and move; brokers and controllers die with requests
    under way, and live again; sessions expire; answers, events and records are lost. Then all heals:
    each request has one recorded end, queues are empty, disks hold what is assigned, and everything is led.
    """
    requests = elections = 0
    for seed in range(WALKS):
        try:
            world = walk(seed, STEPS)
        except Violation as violation:
            raise AssertionError(f"walk {seed}: {violation}") from violation
        requests += len(world.truth.requested)
        elections += len(world.truth.elections)
    for name, value in (("requests", requests), ("elections", elections)):
        record_property(name, value)
    assert requests > 20 * WALKS
    assert elections > 4 * WALKS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("broken", [pytest.param(rule, id=rule.name) for rule in Rule])
def test_a_walk_without_a_rule_finds_a_violation(broken: Rule) -> None:
    """CONTRIBUTING 11: a rule that is never broken on purpose is not known to be tested."""
    with pytest.raises(Violation):
        for seed in (RARE.get(broken, 0), *range(WALKS_TO_NOTICE_MAX)):
            walk(seed, STEPS, broken)


class StateChanges(RuleBasedStateMachine):
    """The same, with each step chosen by Hypothesis, so that what it finds becomes short."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self._opened = self.world.opened()
        self._opened.__enter__()
        self.random = Random(0)
        self.walk = Walk(self.world, self.random)
        self.walk.begin()

    @rule(chance=st.integers(0, 1 << 16), times=st.integers(1, 12))
    def goes_on(self, chance: int, times: int) -> None:
        self.random.seed(chance)
        for _ in range(times):
            self.random.choice((self.walk.answer, self.walk.take_turns, self.walk.fetch, self.walk.record))()
        self.walk.pass_time()

    @rule(chance=st.integers(0, 1 << 16))
    @precondition(lambda self: any(controller.active for controller in self.world.controllers.values()))
    def is_asked_for(self, chance: int) -> None:
        self.random.seed(chance)
        walk = self.walk
        self.random.choice(
            (walk.create, walk.delete, walk.grow, walk.reassign, walk.take_back, walk.elect_preferred)
        )()

    @rule(chance=st.integers(0, 1 << 16))
    def goes_wrong(self, chance: int) -> None:
        self.random.seed(chance)
        walk = self.walk
        self.random.choice(
            (
                walk.broker_dies, walk.controller_dies, walk.expire_living, walk.expire_dead,
                walk.disconnect, walk.lose_event, walk.drop_record,
            )
        )()  # fmt: skip

    @rule(chance=st.integers(0, 1 << 16))
    def comes_back(self, chance: int) -> None:
        self.random.seed(chance)
        self.random.choice((self.walk.start, self.walk.connect))()

    def teardown(self) -> None:
        try:
            self.world.heal()
        finally:
            self._opened.__exit__(None, None, None)


TestStateChanges = pytest.mark.timeout(300)(StateChanges.TestCase)
StateChanges.TestCase.settings = settings(
    max_examples=10,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
