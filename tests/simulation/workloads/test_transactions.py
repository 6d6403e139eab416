"""Transactions in a simulated world: producers of each version fence each other, die and run out of time."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.vocabulary.transactions import EPOCH_MAX
from strandline_lab.simulation.faults.every import AIMED_AT_HARDER, AIMED_AT_TRANSACTIONS
from strandline_lab.simulation.faults.fault import Fault
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
from strandline_lab.simulation.workloads.assigned.group import Assigned
from strandline_lab.simulation.workloads.transactions.topic import Transactions


def transactions(**changes: Any) -> Transactions:
    return Transactions(
        name="transactions", partitions=2, producers=2, twins=2, pause_s=0.02, timeout_s=1.0, coordinators=2,
        synced=False, harder=True,
    ).model_copy(update=changes)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [{"harder": False}, {"compacted": True}, {"trims": True}, {"own": True}],
    ids=["plain", "compacted", "trims", "own"],
)
def test_without_faults_most_transactions_commit_and_each_input_counts_once(changes: dict[str, Any]) -> None:
    """CORRECTNESS C1–C7: twins fence each other, some die, and some leave their transactions open."""
    plan = Plan(seed=5, seconds=4.0, workloads=(transactions(**changes),), faults=())
    outcome = run_quietly(plan)
    assert outcome.problems == ()
    assert outcome.counts["transactions"] > outcome.counts["committed transactions"] > 20


def test_an_id_whose_epochs_are_used_up_gets_other_producer_ids() -> None:
    """One of KIP-98's that is hard to reach otherwise: an epoch has 15 bits."""
    young, old = (
        run_quietly(Plan(seed=5, seconds=4.0, workloads=(transactions(epoch=epoch),), faults=()))
        for epoch in (0, EPOCH_MAX - 3)
    )
    assert young.problems == old.problems == ()
    assert young.counts["producer ids"] + 2 <= old.counts["producer ids"]


@pytest.mark.parametrize("kind", (*AIMED_AT_TRANSACTIONS, *AIMED_AT_HARDER))
def test_a_fault_hits_between_two_steps_and_no_transaction_is_torn(kind: str) -> None:
    """CORRECTNESS C1, C3: coordinators and leaders are gone while a transaction ends."""
    faults = tuple(Fault(kind=kind, at_s=at_s, lasts_s=0.5, lot=2) for at_s in (1.0, 3.0))
    outcome = run_quietly(Plan(seed=1, seconds=6.0, workloads=(transactions(),), faults=faults))
    assert outcome.problems == (), "\n".join(outcome.steps)
    assert any("ms ago transactions" in step for step in outcome.steps), outcome.steps


@pytest.mark.slow
def test_no_replica_that_was_away_misses_a_marker_that_compaction_removes() -> None:
    """CORRECTNESS C8: a plan in which one misses it, and counts what was aborted as committed, if compaction
    does not wait for it."""
    plan = Plan.drawn(55, 12.0)
    (drawn,) = [each for each in plan.workloads if isinstance(each, Transactions)]
    assert drawn.compacted
    hasty = drawn.model_copy(update={"markers_ms": 0})
    workloads = tuple(hasty if each is drawn else each for each in plan.workloads)
    assert run_quietly(plan.model_copy(update={"workloads": workloads})).problems == ()


def test_only_seeds_with_transactions_meet_their_faults() -> None:
    plans = [Plan.drawn(seed, 12.0) for seed in range(60)]
    kinds = (Assigned, Transactions)  # their coordinators are hit by the same faults
    having = [plan for plan in plans if any(isinstance(each, kinds) for each in plan.workloads)]
    aimed = [plan for plan in plans if any(fault.kind in AIMED_AT_TRANSACTIONS for fault in plan.faults)]
    assert 0 < len(aimed) <= len(having) < len(plans) / 2
    assert all(plan in having for plan in aimed)
