"""The cost of a large group, in calls rather than in seconds: a heartbeat's does not depend on its size."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from strandline.vocabulary.groups import Joined
from tests.broker.core.groups.support.stage import LIMITS, Stage
from tests.support.costs import calls_of

MEMBERS = 1_000


def gathered(size: int) -> tuple[Stage, dict[str, str]]:
    stage = Stage(replace(LIMITS, group_initial_rebalance_delay_ms=1_000))
    tokens = {f"m{number}": stage.enter(f"m{number}") for number in range(size)}
    return stage, tokens


def settled(size: int) -> Stage:
    stage, tokens = gathered(size)
    stage.later(5)
    stage.sync_all(tokens)
    assert stage.state == "Stable"
    return stage


def test_a_heartbeat_costs_the_same_in_a_group_of_a_thousand() -> None:
    small, large = settled(10), settled(MEMBERS)
    for wait_ms in (0, 3_000):
        alone = calls_of(partial(small.heartbeat, "m5", 1, wait_ms))
        among = calls_of(partial(large.heartbeat, "m5", 1, wait_ms))
        assert among <= alone + 5


def test_a_join_into_the_barrier_costs_the_same_in_a_group_of_a_thousand() -> None:
    (small, _), (large, _) = gathered(10), gathered(MEMBERS)
    assert calls_of(lambda: large.enter("new")) <= calls_of(lambda: small.enter("new")) + 10
    small, large = settled(10), settled(MEMBERS)
    small.join("m0"), large.join("m0")
    assert calls_of(lambda: large.join("m5")) <= calls_of(lambda: small.join("m5")) + 10


def test_a_generation_is_announced_once_to_a_thousand_members_and_written_once() -> None:
    stage, tokens = gathered(MEMBERS)
    appends = len(stage.log)
    stage.later(5)
    answers = [stage.answer(token, Joined) for token in tokens.values()]
    assert {joined.generation for joined in answers} == {1}
    assert sum(bool(joined.members) for joined in answers) == 1
    assert len(stage.log) == appends + 1
