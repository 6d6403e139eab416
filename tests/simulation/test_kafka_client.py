"""The Kafka client of the simulation: it speaks both kinds of versions, and it works."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.errors import ErrorCode
from strandline_lab.simulation.kafka import messages
from strandline_lab.simulation.kafka.messages import Api
from strandline_lab.simulation.kafka.producer import is_passing
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
from strandline_lab.simulation.workloads.kafka import Kafka

SPOKEN = [api for api in vars(messages).values() if isinstance(api, Api)]


@pytest.mark.parametrize("api", SPOKEN, ids=lambda api: api.wire.name)
def test_each_api_is_spoken_in_a_plain_and_in_a_flexible_version(api: Api[Any, Any]) -> None:
    assert {api.plain, api.flexible} <= set(api.wire.versions)
    assert (api.wire.flexible(api.plain), api.wire.flexible(api.flexible)) == (False, True)


@pytest.mark.parametrize("seed", [1, 2])
def test_it_writes_and_reads_under_faults(seed: int) -> None:
    """CORRECTNESS K1, K2: in both kinds of versions."""
    plan = Plan.drawn(seed, 4.0)
    kafka = Kafka(name="kafka", partitions=2, writers=2, pause_s=0.1, synced=True, flexible=bool(seed % 2))
    outcome = run_quietly(plan.model_copy(update={"workloads": (kafka,)}))
    assert outcome.problems == ()
    assert outcome.counts["records"] > 100


def test_only_a_batch_behind_a_failed_one_may_have_a_gap_before_it() -> None:
    """CORRECTNESS K2: no broker forgets a producer within a run, also if it has refused its first batch."""
    gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (is_passing(gap, after_error=True), is_passing(gap, after_error=False)) == (True, False)
    assert not is_passing(ErrorCode.UNKNOWN_PRODUCER_ID, after_error=True)
