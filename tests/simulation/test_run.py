"""Faults from a seed: what was acknowledged is there, everything heals, and the plan decides all of it."""

from __future__ import annotations

import logging

import pytest
import structlog

from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run, run_quietly


@pytest.mark.parametrize("seed", range(100, 106))
def test_under_faults_nothing_that_was_acknowledged_is_lost(seed: int) -> None:
    outcome = run(Plan.drawn(seed, 5.0))
    assert outcome.problems == (), "\n".join(outcome.steps)
    assert any(outcome.counts.values())


def test_a_seed_decides_everything() -> None:
    first, again, other = (run(Plan.drawn(seed, 3.0)) for seed in (107, 107, 108))
    assert first == again
    assert first.steps
    assert first.trace != other.trace


def test_a_plan_goes_to_json_and_back() -> None:
    plan = Plan.drawn(109)
    assert plan.faults
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_a_plan_without_a_fault_does_the_others_as_before() -> None:
    plan = Plan.drawn(107, 3.0)
    without = plan.model_copy(update={"faults": plan.faults[:-1]})
    assert set(run(without).steps[:-1]) <= set(run(plan).steps)


def test_a_quiet_run_logs_nothing_and_leaves_logging_as_it_was(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    before = structlog.get_config()
    assert run_quietly(Plan.drawn(107, 1.0)).problems == ()
    assert capsys.readouterr().out == ""
    assert structlog.get_config() == before
    logging.getLogger("some.library").warning("it says so")
    assert caplog.messages == ["it says so"]
