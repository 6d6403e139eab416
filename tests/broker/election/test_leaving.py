"""Which place in the ISR a leader keeps when it resigns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from strandline.ids import BrokerId
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.election.handover_bench import FIRST, THIRD, HandoverBench, handover_bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[HandoverBench]:
    async with handover_bench(tmp_path) as bench:
        yield bench


@pytest.mark.parametrize(("min_insync", "isr"), [(1, (1, 3)), (2, (1, 3)), (3, (1, 2, 3))])
async def test_a_broker_that_shuts_down_leaves_the_isr_if_enough_others_are_in_it(
    bench: HandoverBench, min_insync: int, isr: tuple[int, ...]
) -> None:
    """CORRECTNESS H5: no commit waits for a broker that is about to end; below min.insync.replicas there
    would be no commits at all."""
    replica = bench.lead(1).replica
    replica.config = TopicConfig(min_insync_replicas=min_insync)
    await bench.handover.leave_all()
    assert set(bench.record(1).isr_ids) == set(isr)


@pytest.mark.parametrize(("fetching", "isr"), [((), (1, 2, 3)), ((THIRD,), (1, 3))])
async def test_a_leader_stays_in_sync_while_no_other_member_has_shown_its_log(
    bench: HandoverBench, fetching: tuple[BrokerId, ...], isr: tuple[int, ...]
) -> None:
    """CORRECTNESS E18: the members of a new topic may have no logs yet. A log that begins in the next life
    of such a member counts for no place in the ISR, so without this leader none could lead."""
    bench.lead(1, fetching=fetching)
    await bench.handover.leave_all()
    assert set(bench.record(1).isr_ids) == set(isr)


@pytest.mark.parametrize(("committed", "isr"), [(False, (1, 2, 3)), (True, (1, 3))])
async def test_a_leader_whose_log_failed_leaves_what_others_are_known_to_have(
    bench: HandoverBench, committed: bool, isr: tuple[int, ...]
) -> None:
    """CORRECTNESS E14, E18: what was committed is in the logs of all members, and they need not wait for
    this one."""
    leadership = bench.lead(1, fetching=())
    if committed:
        bench.produce(leadership)
        bench.fetched(leadership, FIRST, THIRD)
    leadership.step_down(None)
    await bench.handover.resign(bench.replica(leadership), leadership.epoch, reason="its log failed")
    assert set(bench.record(1).isr_ids) == set(isr)
