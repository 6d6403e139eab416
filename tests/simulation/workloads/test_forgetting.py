"""A store is older than its changelog's tombstones, and a judge sees if it is restored all the same."""

from __future__ import annotations

import pytest

from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.proof.mutations.every import MUTATIONS
from strandline_lab.simulation.proof.seeing import look_again
from strandline_lab.simulation.run import Outcome, run_quietly
from strandline_lab.simulation.workloads.counting.forgetting import Forgetting, differences


def forgotten(seed: int) -> Outcome:
    """A few seconds of an application with two members, without other faults."""
    workload = Forgetting(name="forgetting", partitions=1, keys=10, pause_s=0.05, members=2, change_s=2.0)
    outcome = run_quietly(Plan(seed=seed, seconds=4.0, workloads=(workload,), faults=()))
    assert outcome.counts["deletions"] > 0
    return outcome


@pytest.mark.parametrize("seed", [0, 1])
def test_no_deleted_key_comes_back_with_an_old_store(seed: int) -> None:
    """CORRECTNESS S12."""
    assert forgotten(seed).problems == ()


@pytest.mark.slow
def test_a_seed_finds_stores_that_were_restored_without_the_tombstones() -> None:
    """CORRECTNESS S12: by the replay of the changelog."""
    (mutation,) = [each for each in MUTATIONS if each.row == "S12"]
    seen = look_again(mutation)
    assert "changelog-0: b" in seen.sentence and "is None there" in seen.sentence


def test_a_difference_names_what_is_missing_and_what_should_not_be_there() -> None:
    assert differences("here", {b"a": b"1", b"b": b"2"}, {b"b": b"2"}) == [
        "here: b'a' is b'1' there, and the store has None"
    ]
    assert differences("here", {}, {b"c": b"3"}) == ["here: b'c' is None there, and the store has b'3'"]
    assert differences("here", {b"a": b"1"}, {b"a": b"1"}) == []
