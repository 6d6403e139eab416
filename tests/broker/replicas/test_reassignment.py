"""A reassignment with a real leadership and a ZooKeeper in memory: what is written, at once or not at all,
and what a leader makes of a write whose outcome it does not know.

Broker 1 leads; the original AR is (1, 2, 3).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes, reassignment_znodes
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.replicas.replica import Replica
from strandline.errors import NotLeaderOrFollower
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.ports import Create, Delete, SetData
from strandline.vocabulary.metadata import IsrMember, PartitionState, Reassignment
from strandline.vocabulary.state_changes import ChangeKind, Command, RequestState, StateChange
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import ASSIGNED, KEY, LIVE, NAME, Led, leading, open_replica, subscribe
from tests.waiting import eventually
from tests.znode_tree import ZnodeTree

AR, MOVING = znodes.replicas(*NAME), znodes.reassigned(*NAME)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in brokers)


@dataclass(slots=True)
class Moving:
    """A leadership under reassignment, and the tree that has both."""

    tree: ZnodeTree
    led: Led
    replica: Replica

    def report(self, *followers: int, subscription: int = 1, end: int | None = None) -> None:
        """These have everything, or all below `end`."""
        for broker in followers:
            self.led.leadership.fetched(
                BrokerId(broker),
                LIVE[BrokerId(broker)].epoch,
                self.replica.log.log_end_offset if end is None else end,
                subscription=subscription,
            )
            self.led.leadership.turn()

    def close(self, *followers: int) -> None:
        for broker in followers:
            self.led.leadership.stopped_fetching(
                BrokerId(broker), LIVE[BrokerId(broker)].epoch, subscription=1
            )
            self.led.leadership.turn()

    @property
    def record(self) -> PartitionState:
        return isr_znodes.load_isr(*NAME, self.tree.nodes[znodes.isr(*NAME)].data)

    @property
    def assigned(self) -> tuple[BrokerId, ...]:
        return znodes.load_replicas(*NAME, self.tree.nodes[AR].data)

    def queued(self, broker: int) -> list[Command]:
        return [change.command for change in self.requests(broker)]

    def requests(self, broker: int) -> list[StateChange]:
        prefix = znodes.state_entry_prefix(BrokerId(broker))
        return [
            change
            for path in sorted(self.tree.nodes)
            if path.startswith(prefix)
            for change in queue_znodes.load_state_changes(self.tree.nodes[path].data)
        ]

    def ask_for(self, wanted: Reassignment) -> None:
        """As a controller does while another one stands."""
        self.tree.apply(SetData(MOVING, reassignment_znodes.dump_reassignment(wanted), -1), owner=0)
        added = tuple(b for b in wanted.replicas if b not in self.assigned)
        if added:
            self.tree.apply(SetData(AR, znodes.dump_replicas(self.assigned + added), -1), owner=0)


@asynccontextmanager
async def moving(
    *wanted: int, isr: tuple[int, ...] = (1, 2, 3), config: TopicConfig | None = None, **given: Any
) -> AsyncIterator[Moving]:
    """Asked for, and known to the leader."""
    tree, replica = ZnodeTree(), open_replica(config)
    session = tree.open_session()
    asked = Reassignment(KEY.topic_id, ids(*wanted), ASSIGNED, request_id="moves", at_ms=12)
    for path in (AR, MOVING, znodes.STATE, znodes.elections(BrokerId(2)), znodes.elections(BrokerId(3))):
        await session.ensure_path(path)
    await session.set(AR, znodes.dump_replicas(asked.grown))
    await session.set(MOVING, reassignment_znodes.dump_reassignment(asked))
    await session.create(znodes.leader(*NAME), ephemeral=True)
    replica.assignment = PartitionAssignment(asked.grown, 1, asked, 1, tree.nodes[MOVING].mzxid)
    async with leading(replica, 5, isr=isr, tree=tree, **given) as led:
        yield Moving(tree, led, replica)


def without_trail(state: PartitionState) -> PartitionState:
    return replace(state, trail=())


async def test_a_leader_that_stays_writes_all_in_one_multi_and_continues() -> None:
    """Kafka's design V3, completePartitionReassignment: ISR, AR, the reassignment; and the requests to the
    brokers concerned."""
    async with moving(1, 3) as it:
        it.report(2, 3)
        await eventually(lambda: it.queued(2) == [Command.CLOSE_REPLICA])
        assert it.requests(2)[0].reason == "its replacements are all in sync"
        assert it.assigned == ASSIGNED
        it.close(2)
        await eventually(lambda: it.assigned == (1, 3))
        members = (IsrMember(BrokerId(1), BrokerEpoch(10)), IsrMember(BrokerId(3), BrokerEpoch(30)))
        assert without_trail(it.record) == PartitionState(BrokerId(1), LeaderEpoch(5), members)
        assert MOVING not in it.tree.nodes
        assert it.queued(2) == [Command.CLOSE_REPLICA, Command.DELETE_REPLICA]
        assert it.queued(3) == [Command.START_REPLICA]
        assert it.queued(1) == []
        await eventually(lambda: znodes.reassigned_topic(NAME.topic) not in it.tree.nodes)
        await eventually(lambda: it.replica.assignment == PartitionAssignment(ids(1, 3), 2))
        assert not it.led.leadership.ended()
        it.led.produce("a")
        it.report(3)
        assert len(it.led.outcomes) == 1


async def test_a_leader_that_leaves_names_the_preferred_one_and_gets_a_request_to_delete() -> None:
    """Kafka's design V3, stopCommitThread: the same `multi` removes the leader and leaves a notice for the
    next one."""
    async with moving(3, 2) as it:
        it.report(2, 3)
        await eventually(lambda: it.led.handed_over == [3])
        assert it.led.leadership.ended()
        assert (it.record.leader, it.record.leader_epoch, it.record.isr_ids) == (NO_BROKER, 5, (3, 2))
        assert znodes.leader(*NAME) not in it.tree.nodes
        assert it.queued(1) == [Command.DELETE_REPLICA]
        (path,) = [p for p in it.tree.nodes if p.startswith(znodes.election_notice_prefix(BrokerId(3)))]
        (notice,) = queue_znodes.load_notices(it.tree.nodes[path].data)
        assert (notice.key, notice.leader_epoch, notice.reason) == (KEY, 5, "reassignment")
        assert it.led.stepped_down == []


async def test_a_replica_that_continues_to_fetch_is_left_out_and_its_flow_ends() -> None:
    """Kafka's design V3: wait until closed, or time out and raise error. The error names the replica and the
    reason."""
    async with moving(1, 3, reassignment_close_ms=50) as it:
        link = it.led.link(2)
        link.subscribe(subscribe(5, 0, -1))
        it.report(3)
        await eventually(lambda: it.assigned == (1, 3))
        assert it.record.isr_ids == (1, 3)
        recorded = [(event.command, event.state, event.reason) for event in it.led.recorded.events]
        why = "broker 2 did not close within 0.05 s"
        assert (ChangeKind.CHANGE_ISR, RequestState.COMPLETED, why) in recorded
        assert (ChangeKind.REASSIGN, RequestState.COMPLETED, why) in recorded
        assert it.queued(2) == [Command.CLOSE_REPLICA, Command.DELETE_REPLICA]
        for sub_id in (1, 2):
            _, pushes = await link.next_message()
            (end,) = [push for push in pushes if push.error is not None]
            assert (end.subscription_id, type(end.error)) == (sub_id, NotLeaderOrFollower)
            link.acknowledge(sub_id)
            link.subscribe(subscribe(5, 0, -1, sub_id=2))
        it.led.produce("a")
        it.report(3)
        assert len(it.led.outcomes) == 1


async def test_the_events_are_in_the_znode_of_the_change() -> None:
    """The trail of that very write has the reassignment's whole life, and the reason for the resignation."""
    async with moving(3, 2) as it:
        it.report(2, 3)
        await eventually(lambda: it.led.handed_over == [3])
        recorded = [(event.id, event.command, event.state) for event in it.record.trail]
        assert recorded[-3:] == [
            ("moves", ChangeKind.REASSIGN, RequestState.REQUESTED),
            ("moves", ChangeKind.REASSIGN, RequestState.COMPLETED),
            (f"resign-{KEY.topic_id}-0-5", ChangeKind.RESIGN_LEADER, RequestState.COMPLETED),
        ]
        asked, done, resigned = it.record.trail[-3:]
        assert (asked.at_ms, asked.replicas, done.replicas, done.isr) == (12, (3, 2), (3, 2), (3, 2))
        assert (resigned.broker, resigned.left, resigned.reason) == (1, (1,), "reassignment")
        requests = {request.request_id for broker in (1, 2, 3) for request in it.requests(broker)}
        assert requests <= {event.id for event in it.led.recorded.events}


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
async def test_a_completion_whose_reply_is_lost_is_found_or_made_again(applied: bool) -> None:
    """CORRECTNESS I4, E7: it takes effect once, with either outcome."""
    async with moving(3, 2) as it:
        it.led.session.lose(applied=applied)
        it.report(2, 3)
        await eventually(lambda: it.led.handed_over == [3])
        assert it.assigned == (3, 2)
        assert it.queued(1) == [Command.DELETE_REPLICA]


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
async def test_a_completion_of_a_leader_that_stays_and_does_not_know(applied: bool) -> None:
    async with moving(1, 3, 2) as it:
        it.led.session.lose(applied=applied)
        it.report(2, 3)
        await eventually(lambda: it.replica.assignment == PartitionAssignment(ids(1, 3, 2), 2))
        assert it.record.isr_ids == (1, 3, 2)
        assert not it.led.leadership.ended()
        assert it.queued(3) == [Command.START_REPLICA]


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
async def test_a_request_to_close_whose_reply_is_lost_is_sent_again(applied: bool) -> None:
    """A repetition does no harm; a missing request would wait forever."""
    async with moving(1, 3) as it:
        it.led.session.lose(applied=applied)
        it.report(2, 3)
        await eventually(lambda: it.queued(2) == [Command.CLOSE_REPLICA] * (1 + applied))
        it.close(2)
        await eventually(lambda: it.assigned == (1, 3))


async def test_a_decision_for_one_target_is_not_written_for_another() -> None:
    """CORRECTNESS E16, Q7: a reassignment that was replaced on the way is left alone, and read."""
    async with moving(1, 3) as it:
        second = Reassignment(KEY.topic_id, ids(1, 2), ASSIGNED, request_id="moves")
        it.ask_for(second)
        it.report(2, 3)
        await eventually(lambda: it.replica.reassignment == second)
        await eventually(lambda: it.queued(3) == [Command.CLOSE_REPLICA])
        assert it.queued(2) == []
        it.close(3)
        await eventually(lambda: it.assigned == (1, 2))
        assert it.queued(3) == [Command.CLOSE_REPLICA, Command.DELETE_REPLICA]


async def test_a_completion_is_not_written_over_a_target_that_came_meanwhile() -> None:
    """CORRECTNESS E16: also if the leader has heard of it before its own write went out."""
    async with moving(1, 3, 2) as it:
        second = Reassignment(KEY.topic_id, ids(2, 1), ASSIGNED, request_id="moves")
        asked = it.replica.assignment
        it.ask_for(second)
        it.report(2, 3)  # decided on the first one, and on its way
        node = it.tree.nodes[MOVING]
        it.replica.assignment = replace(
            asked,
            reassignment=second,
            reassignment_version=node.version,
            reassignment_mzxid=node.mzxid,
        )
        it.led.leadership.reconfigured()
        await eventually(lambda: it.queued(3) == [Command.CLOSE_REPLICA])
        it.close(3)
        await eventually(lambda: it.led.handed_over == [2])
        assert it.assigned == (2, 1)


async def test_a_deposed_leader_completes_nothing() -> None:
    """CORRECTNESS I3, E5: the completion is a compare-and-set on `isr` as every change of it is."""
    async with moving(3, 2) as it:
        state = PartitionState(BrokerId(2), LeaderEpoch(6), (IsrMember(BrokerId(2), BrokerEpoch(20)),))
        it.tree.apply(SetData(znodes.isr(*NAME), isr_znodes.dump_isr(state)), owner=0)
        it.report(2, 3)
        await eventually(lambda: it.led.stepped_down == [state])
        assert it.assigned == ASSIGNED
        assert znodes.state_queue(1) not in it.tree.nodes, "broker 1 may have been forgotten by then"


async def test_a_leadership_that_is_being_resigned_accepts_nothing() -> None:
    """Clients are redirected to the next leader; nothing is appended that might be lost."""
    async with moving(3, 2) as it:
        taken, go_on = it.led.session.hold(None)
        it.report(2, 3)
        await taken.wait()
        with pytest.raises(NotLeaderOrFollower):
            it.led.produce("late")
        assert it.replica.log.log_end_offset == 0
        go_on.set()
        await eventually(lambda: it.led.handed_over == [3])


async def test_a_record_that_waits_for_a_sync_is_committed_before_the_leadership_is_resigned() -> None:
    """It was acknowledged with acks=1, and is in no commit queue; the next leader does not have it yet."""
    async with moving(3, 2, config=TopicConfig(flush_messages=1)) as it:
        it.led.produce("acknowledged", acks=1)
        assert it.led.leadership.core.log_end_offset == 0
        it.report(2, 3, end=0)
        await eventually(lambda: it.led.leadership.core.log_end_offset == 1)
        assert it.led.handed_over == []
        it.report(2, 3)
        await eventually(lambda: it.led.handed_over == [3])


async def test_another_partition_of_the_topic_keeps_its_reassignment() -> None:
    """Only an empty folder of reassignments goes."""
    async with moving(1, 3, 2) as it:
        other = znodes.reassigned(NAME.topic, 7)
        it.tree.apply(Create(other, it.tree.nodes[MOVING].data), owner=0)
        it.report(2, 3)
        await eventually(lambda: it.replica.assignment == PartitionAssignment(ids(1, 3, 2), 2))
        it.led.produce("a")
        it.report(2, 3)
        await eventually(lambda: len(it.led.outcomes) == 1)
        assert other in it.tree.nodes
        it.tree.apply(Delete(other), owner=0)


async def test_a_cancelled_reassignment_ends_as_superseded() -> None:
    """Its events say that it was cancelled, and where the replicas are."""
    async with moving(1, 3) as it:
        back = Reassignment(KEY.topic_id, ids(1, 3), ASSIGNED, 0, reverting=True, request_id="moves")
        it.ask_for(back)
        it.report(2, 3)
        await eventually(lambda: MOVING not in it.tree.nodes)
        assert it.queued(2) == [Command.START_REPLICA]  # and was never asked to close for what is over
        assert it.assigned == ASSIGNED
        ended = next(e for e in reversed(it.record.trail) if e.command is ChangeKind.REASSIGN)
        assert (ended.state, ended.reason, ended.replicas) == (RequestState.SUPERSEDED, "cancelled", ASSIGNED)
