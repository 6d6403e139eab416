"""A topic is deleted and created again under its name, and none of its clients takes it for the old one."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import Outcome, run_quietly
from strandline_lab.simulation.workloads.unsteady.replacing import Replacing


def replaced(seed: int, writer: str, *readers: str, by_hand: bool = False, **given: Any) -> Outcome:
    """A few seconds in which a topic is replaced a few times, without other faults."""
    workload = Replacing.model_validate(
        {
            "name": "replacing", "partitions": 1, "writers": [writer], "readers": readers, "pause_s": 0.2,
            "replaced_s": 2.0, "change_s": 2.0, "synced": False, "by_hand": by_hand, "protocol": "eager",
            **given,
        }
    )  # fmt: skip
    outcome = run_quietly(Plan(seed=seed, seconds=4.0, workloads=(workload,), faults=()))
    assert outcome.counts["topics replaced"] > 0
    assert outcome.counts["records"] > 0
    return outcome


@pytest.mark.parametrize("seed", [0, 2, 3, 7])
def test_a_consumer_starts_at_the_first_record_of_the_new_topic(seed: int) -> None:
    assert replaced(seed, "idempotent", "alone", by_hand=seed % 2 == 0).problems == ()


@pytest.mark.parametrize("seed", [2, 6])
def test_a_group_that_keeps_the_offsets_of_a_consumer_by_assignment_forgets_them(seed: int) -> None:
    assert replaced(seed, "plain", "keeping", by_hand=True).problems == ()


@pytest.mark.parametrize("seed", [2, 3, 6])
def test_commits_of_the_old_topic_are_as_if_absent_for_the_members_of_a_group(seed: int) -> None:
    assert replaced(seed, "idempotent", "member", "member", by_hand=seed % 2 == 0).problems == ()


def test_a_producer_splits_batches_that_the_new_topic_finds_too_large() -> None:
    assert replaced(1, "idempotent", "member", "member").problems == ()


@pytest.mark.parametrize("seed", [0, 5])
def test_a_topic_that_knows_no_producer_takes_any_first_sequence(seed: int) -> None:
    """As brokers of Kafka do since 2.5 (KIP-360): its producers number their batches on."""
    assert replaced(seed, "kafka", "kafka", by_hand=seed % 2 == 0).problems == ()


@pytest.mark.parametrize("reader", ["kafka", "kafka member"])
def test_kafka_clients_find_out_by_the_leader_epochs(reader: str) -> None:
    assert replaced(3, "plain", reader).problems == ()
