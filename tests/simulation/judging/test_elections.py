"""The judge of elections, and what a run counts as a defect of its own parts."""

from __future__ import annotations

import pytest

from strandline.ids import NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from strandline.simulation.engine.zookeeper.isr_history import IsrWrite
from strandline.vocabulary.metadata import IsrMember, PartitionState
from strandline_lab.simulation.judging.elections import transition
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
from strandline_lab.simulation.stage import Stage


def state(leader: int, epoch: int, *isr: int, lossy_epoch: int = NO_EPOCH) -> PartitionState:
    members = tuple(IsrMember(BrokerId(broker), BrokerEpoch(broker)) for broker in isr)
    return PartitionState(BrokerId(leader), LeaderEpoch(epoch), members, lossy_epoch=LeaderEpoch(lossy_epoch))


def begins_lossy(before: PartitionState, after: PartitionState) -> bool:
    return IsrWrite(TopicPartition("t", 0), 7, before, after, ()).begins_lossy


def test_an_unclean_election_is_one_from_its_first_write_only() -> None:
    before = state(1, 5, 1)
    assert begins_lossy(before, state(2, 6, 2, lossy_epoch=6))
    assert not begins_lossy(before, state(1, 6, 1))
    assert not begins_lossy(state(2, 6, 2, lossy_epoch=6), state(2, 6, 2, 3, lossy_epoch=6))
    assert not begins_lossy(state(2, 6, 2, lossy_epoch=6), state(2, 7, 2, lossy_epoch=6))


def test_a_clean_election_keeps_to_the_isr() -> None:
    assert list(transition(state(1, 5, 1, 2), state(2, 6, 2))) == []
    assert list(transition(state(1, 5, 1), state(2, 6, 2, lossy_epoch=6))) == []
    (said,) = transition(state(1, 5, 1), state(2, 6, 2))
    assert said.startswith("a clean election adds members to the ISR: ")


@pytest.mark.parametrize("of_a_client", [True, False])
def test_a_callback_that_raises_is_a_defect(of_a_client: bool) -> None:
    """What judges record in callbacks of clients would be missing without a word."""

    def watch(stage: Stage) -> None:
        def fails() -> None:
            raise LookupError("a judge's own")

        context = stage.client("a client").life.context if of_a_client else None
        stage.world.loop.call_later(1.0, fails, context=context)

    plan = Plan.drawn(3, 2.0)
    (problem,) = run_quietly(plan, watch).problems
    assert problem.check == "defect" and "LookupError" in problem.sentence
