"""Elections with a loss cut a log, which grows again, and none of its readers takes it for the old one."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_lab.simulation.faults.fault import Fault
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import Outcome, run_quietly
from strandline_lab.simulation.workloads.unsteady.cutting import Cutting


def cut(seed: int, *readers: str, kind: str = "cut a log", seconds: float = 9.0, **given: Any) -> Outcome:
    """A few seconds with this fault alone."""
    workload = Cutting.model_validate(
        {
            "name": "cutting", "partitions": 1, "writers": ["unreplicated"], "readers": readers,
            "pause_s": 0.1, "change_s": 2.0, "synced": False, "by_hand": seed % 2 == 0, "protocol": "eager",
            **given,
        }
    )  # fmt: skip
    faults = (Fault(kind=kind, at_s=0.5, lasts_s=1.0, lot=seed),)
    outcome = run_quietly(Plan(seed=seed, seconds=seconds, workloads=(workload,), faults=faults))
    assert outcome.counts["logs cut"] > 0
    assert outcome.counts["records"] > 0
    return outcome


@pytest.mark.parametrize("seed", [5, 6])
def test_a_consumer_goes_back_to_where_the_log_parted(seed: int) -> None:
    """CORRECTNESS G19: also if the log has grown beyond its position before it hears of that."""
    assert cut(seed, "alone").problems == ()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_consumer_follows_a_log_that_is_again_as_it_was(seed: int) -> None:
    """CORRECTNESS G19: the replicas that were ahead lead again, and know nothing of what came meanwhile."""
    outcome = cut(seed, "alone", kind="cut a log, and back", seconds=12.0)
    assert outcome.problems == ()
    assert outcome.counts["logs cut"] > 1


@pytest.mark.parametrize("seed", [3, 4])
def test_commits_of_what_the_log_has_lost_lead_members_to_where_it_parted(seed: int) -> None:
    """CORRECTNESS G19: a commit has the epoch of the record before it."""
    assert cut(seed, "member", "member").problems == ()


def test_a_group_that_keeps_the_offsets_of_a_consumer_by_assignment_knows_their_epochs() -> None:
    assert cut(3, "keeping").problems == ()


@pytest.mark.parametrize("reader", ["kafka", "kafka member"])
def test_kafka_clients_ask_where_an_epoch_ends(reader: str) -> None:
    assert cut(3, reader).problems == ()


@pytest.mark.parametrize("writer", ["idempotent", "kafka"])
def test_producers_go_on_in_a_log_that_has_lost_their_last_batches(writer: str) -> None:
    """KIP-360: the next sequence is not the one after the last that the log has."""
    assert cut(1, "alone", writers=[writer]).problems == ()


def test_a_producer_hears_of_a_loss_with_the_first_batch_behind_it_alone() -> None:
    """Also if it has written only to the other partition since the loss."""
    assert cut(1, "alone", writers=["idempotent"], partitions=2).problems == ()
