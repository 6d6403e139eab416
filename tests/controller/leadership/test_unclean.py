"""Unclean elections on request, on a real ZooKeeper; the test answers in the place of brokers (CORRECTNESS
E18)."""

from __future__ import annotations

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.errors import InvalidRequest, UnknownTopicOrPartition
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, TopicId, TopicPartition
from strandline.ports import Coordination
from strandline.vocabulary.admin import ElectUnclean, NewTopic
from strandline.vocabulary.metadata import IsrMember, LogCondition, LogStatement, PartitionState
from tests.controller.support.running import Activate, Running

NAME = TopicPartition("t", 0)
EARLIER = IsrMember(BrokerId(1), BrokerEpoch(1))


async def made(session: Coordination, controller: Running, epoch: int) -> TopicId:
    """Topic "t" on broker 1, which led it in an earlier life, and is back without its log."""
    (outcome,) = await controller.admin.create_topics([NewTopic("t", 0, assignments=[(1,)])])
    assert outcome.error is None
    lacks = LogStatement(BrokerId(1), BrokerEpoch(epoch), LogCondition.ABSENT, -1, 0, 0, 0)
    state = PartitionState(NO_BROKER, LeaderEpoch(5), (EARLIER,), statements=(lacks,))
    await session.set(znodes.isr(*NAME), isr_znodes.dump_isr(state))
    return TopicId(outcome.topic_id)


async def test_no_leader_is_elected_in_a_topic_that_was_made_anew(active: Activate) -> None:
    """A plan was shown for the topic before: what it says of losses does not hold for this one."""
    async with active([1]) as (session, controller, epochs):
        elect = controller.admin.elect_unclean
        before = await made(session, controller, epochs[1])
        (plan,) = await elect(ElectUnclean([NAME], True))
        assert (plan.error, plan.broker, plan.topic_id) == (None, 1, before)
        for ids in ([before], [""]):
            assert await elect(ElectUnclean([NAME], True, ids)) == [plan]
        await controller.admin.delete_topics(["t"])
        after = await made(session, controller, epochs[1])
        (refused,) = await elect(ElectUnclean([NAME], topic_ids=[plan.topic_id]))
        assert isinstance(refused.error, UnknownTopicOrPartition)
        assert refused.error.message == f"topic 't' is another one by now: its id is {after}"
        assert await session.children(znodes.elections(1)) == []
        (plan,) = await elect(ElectUnclean([NAME], True, [after]))
        assert plan.error is None
        with pytest.raises(InvalidRequest):
            await elect(ElectUnclean([NAME], True, [after, after]))
