"""One leadership with a real log and a ZooKeeper in memory: every request gets one answer, and a true one."""

from __future__ import annotations

import asyncio
import errno
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.core.replication.produce_ticket import Produced
from strandline.errors import (
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutcomeUnknown,
    RequestTimedOut,
    StorageFailed,
    UnexpectedOffset,
)
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.ports import Delete, SetData
from strandline.records import BatchHeader
from strandline.vocabulary.metadata import IsrMember, PartitionState
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import CLOCK, KEY, LIVE, NAME, Led, batch, leading, open_replica, values
from tests.waiting import eventually
from tests.znode_tree import ZnodeTree

ISR = znodes.isr(NAME.topic, NAME.partition)
SECOND, THIRD = BrokerId(2), BrokerId(3)


def has(leader: Led, broker: BrokerId, end: int) -> None:
    """A follower has reported this position."""
    leader.leadership.fetched(broker, LIVE[broker].epoch, end, subscription=1)
    leader.leadership.turn()


def written(tree: ZnodeTree) -> PartitionState:
    return isr_znodes.load_isr(NAME.topic, NAME.partition, tree.nodes[ISR].data)


def deposed(tree: ZnodeTree) -> PartitionState:
    """Broker 3 takes over in epoch 6; what `isr` says then."""
    state = PartitionState(THIRD, LeaderEpoch(6), (IsrMember(THIRD, BrokerEpoch(30)),))
    tree.apply(SetData(ISR, isr_znodes.dump_isr(state)), owner=0)
    return state


def expecting(leader: Led, offset: int, records: str | bytes, *, acks: int = -1) -> None:
    """Produce a record, or a batch, with this expected offset."""
    leader.leadership.produce(
        batch(records) if isinstance(records, str) else records,
        acks=acks,
        timeout_ms=60_000,
        done=leader.outcomes.append,
        expected_offset=offset,
    )


# --- one answer for each request ----------------------------------------------------------------------


async def test_requests_that_wait_when_a_leadership_ends_have_an_unknown_outcome() -> None:
    """CORRECTNESS H6: it is answered once, and no later position or HW makes it a success."""
    async with leading(open_replica(), 5) as leader:
        leader.produce("a")
        leader.produce("b")
        has(leader, SECOND, 1)
        has(leader, THIRD, 1)
        leader.leadership.end()
        has(leader, SECOND, 2)
        has(leader, THIRD, 2)
        leader.leadership.end()
        first, second = leader.outcomes
        assert first == Produced(0, 0)
        assert isinstance(second, OutcomeUnknown)


async def test_a_leader_that_ended_takes_nothing_more() -> None:
    """CORRECTNESS H6: nothing is written behind its end."""
    replica = open_replica()
    async with leading(replica, 5) as leader:
        leader.leadership.end()
        with pytest.raises(NotLeaderOrFollower):
            leader.produce("late")
        assert values(replica) == []


async def test_a_request_that_waited_too_long_is_answered_once() -> None:
    """CORRECTNESS H6: its outcome is unknown; a later commit is not reported."""
    async with leading(open_replica(), 5, isr=(1, 2)) as leader:
        leader.produce("a", timeout_ms=1)
        await eventually(lambda: leader.outcomes)
        has(leader, SECOND, 1)
        assert leader.replica.high_watermark == 1
        assert [type(outcome) for outcome in leader.outcomes] == [RequestTimedOut]


async def test_below_min_in_sync_nothing_is_written() -> None:
    """CORRECTNESS H5: refused at once, and retriable."""
    replica = open_replica()
    async with leading(replica, 5, isr=(1,)) as leader:
        with pytest.raises(NotEnoughReplicas) as refused:
            leader.produce("a")
        assert refused.value.limit == 2
        assert refused.value.retriable
        assert values(replica) == []


async def test_an_expected_offset_is_compared_with_the_end_of_the_log_not_with_the_watermark() -> None:
    """CORRECTNESS S8: the tail that is not committed yet is as much in the way as the rest."""
    async with leading(open_replica(), 5) as leader:
        expecting(leader, 0, "a")
        with pytest.raises(UnexpectedOffset):
            expecting(leader, 0, "another's")
        expecting(leader, 1, "b")
        assert (leader.replica.high_watermark, leader.outcomes) == (0, [])
        for broker in (SECOND, THIRD):
            has(leader, broker, 2)
        assert leader.outcomes == [Produced(0, 0), Produced(1, 0)]
        assert values(leader.replica) == ["a", "b"]


async def test_a_repeat_of_an_uncommitted_batch_waits_with_it() -> None:
    """Its expected offset is the end of the log no longer; the answer says where it is."""
    async with leading(open_replica(), 5) as leader:
        repeated = batch("a", producer=(7, 0))
        expecting(leader, 0, repeated)
        leader.produce("another's")
        expecting(leader, 0, repeated)
        assert leader.outcomes == []
        for broker in (SECOND, THIRD):
            has(leader, broker, 2)
        latest_ms = BatchHeader.parse(repeated).max_timestamp
        repeat = Produced(0, 0, appended=False, append_time_ms=latest_ms)
        assert leader.outcomes == [Produced(0, 0), Produced(1, 0), repeat]
        assert values(leader.replica) == ["a", "another's"]


@pytest.mark.parametrize("acks", [0, 1])
async def test_an_expected_offset_holds_for_any_acks(acks: int) -> None:
    replica = open_replica()
    async with leading(replica, 5) as leader:
        expecting(leader, 0, "a", acks=acks)
        with pytest.raises(UnexpectedOffset):
            expecting(leader, 0, "b", acks=acks)
        assert leader.outcomes == [Produced(0, 0)]
        assert values(replica) == ["a"]


async def test_the_commit_queue_is_bounded() -> None:
    """CONTRIBUTING 7: more are refused before anything is written."""
    replica = open_replica()
    async with leading(replica, 5, commit_queue_entries_max=1) as leader:
        leader.produce("a")
        with pytest.raises(NotEnoughReplicas):
            leader.produce("b")
        assert values(replica) == ["a"]


# --- changes of the ISR -------------------------------------------------------------------------------


async def test_a_member_that_is_gone_leaves_in_zookeeper_first_then_the_watermark_moves() -> None:
    """CORRECTNESS H3, H10, I6: and then at once."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree) as leader:
        taken, go_on = leader.session.hold()
        leader.produce("a")
        has(leader, SECOND, 1)
        leader.leadership.live_changed({b: r for b, r in LIVE.items() if b != THIRD})
        await taken.wait()
        assert written(tree).isr_ids == (1, 2)
        assert leader.outcomes == []  # the reply is under way: 3 counts still
        go_on.set()
        await eventually(lambda: leader.outcomes == [Produced(0, 0)])


async def test_the_isr_of_an_idle_partition_changes_later_unless_a_client_appends() -> None:
    """The ISRs of thousands of idle partitions wait for elections; an append to one of them does not wait."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree) as leader:
        assert not leader.leadership.is_busy(CLOCK.monotonic())
        live = {b: r for b, r in LIVE.items() if b != THIRD}
        leader.leadership.live_changed(live, turn=False)
        leader.produce("a")
        await eventually(lambda: written(tree).isr_ids == (1, 2))
        has(leader, SECOND, 1)
        assert leader.outcomes == [Produced(0, 0)]


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
async def test_the_end_of_a_suspects_flow_changes_the_isr_of_a_busy_partition_only(busy: bool) -> None:
    """All flows of a broker that is gone end together. Idle partitions react in the manager's lots."""
    tree, life = ZnodeTree(), LIVE[THIRD].epoch
    async with leading(open_replica(), 5, tree=tree) as leader:
        leadership = leader.leadership
        for follower in (SECOND, THIRD):
            has(leader, follower, 0)
        if busy:
            leader.replica.traffic_at = CLOCK.monotonic()
        leadership.live_changed(LIVE, {life}, turn=False)
        leadership.stopped_fetching(THIRD, life, subscription=1)
        assert leadership.core.isr.size_min() == (2 if busy else 3)
        leadership.turn()
        await eventually(lambda: written(tree).isr_ids == (1, 2))


async def test_a_partition_is_busy_while_records_are_not_committed_and_after_an_append() -> None:
    async with leading(open_replica(), 5) as leader:
        now = CLOCK.monotonic()
        leader.produce("a")
        leader.replica.traffic_at = float("-inf")
        assert leader.leadership.is_busy(now)
        has(leader, SECOND, 1)
        has(leader, THIRD, 1)
        assert not leader.leadership.is_busy(now)
        leader.produce("b")
        has(leader, SECOND, 2)
        has(leader, THIRD, 2)
        assert leader.leadership.is_busy(now)


async def test_a_leader_of_another_incarnation_writes_nothing_and_steps_down() -> None:
    """CORRECTNESS Q1, E6: the topic was deleted and made again, and its `isr` has the version that it had."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree) as leader:
        tree.apply(Delete(znodes.topic_id(KEY.topic_id)), owner=0)
        before = written(tree)
        leader.leadership.live_changed({b: r for b, r in LIVE.items() if b != THIRD})
        await eventually(lambda: leader.stepped_down)
        assert written(tree) == before


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
async def test_a_change_whose_reply_is_lost_is_looked_up(applied: bool) -> None:
    """CORRECTNESS I4, E9: what the znode says in this epoch is adopted, and the leader does not wedge."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree) as leader:
        leader.session.lose(applied=applied)
        leader.produce("a")
        has(leader, SECOND, 1)
        leader.leadership.live_changed({b: r for b, r in LIVE.items() if b != THIRD})
        await eventually(lambda: leader.outcomes == [Produced(0, 0)])
        assert written(tree).isr_ids == (1, 2)
        has(leader, THIRD, 1)
        leader.leadership.live_changed(LIVE)
        await eventually(lambda: written(tree).isr_ids == (1, 2, 3))  # the version is the right one
        assert leader.stepped_down == []


@pytest.mark.parametrize("stops", [True, False], ids=["shuts-down", "is-gone"])
async def test_a_replica_that_just_began_to_shut_down_does_not_rejoin(stops: bool) -> None:
    """CORRECTNESS I7: the leader learns of a changed registration only later, so the write that adds the
    replica checks it."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree) as leader:
        leader.leadership.live_changed({b: r for b, r in LIVE.items() if b != THIRD})
        await eventually(lambda: written(tree).isr_ids == (1, 2))
        path = znodes.broker(THIRD)
        tree.apply(SetData(path, b"shutting down") if stops else Delete(path), owner=0)
        version = tree.nodes[ISR].version
        has(leader, THIRD, 0)
        leader.leadership.live_changed(LIVE)
        leader.produce("a")
        has(leader, SECOND, 1)
        await eventually(lambda: leader.outcomes == [Produced(0, 0)])
        assert (tree.nodes[ISR].version, written(tree).isr_ids) == (version, (1, 2))
        assert leader.stepped_down == []


@pytest.mark.parametrize("stops", [True, False], ids=["shuts-down", "is-gone"])
async def test_another_life_of_a_member_that_just_began_to_shut_down_does_not_join(stops: bool) -> None:
    """CORRECTNESS I6, I7: it would join in the same write in which its earlier life leaves."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree) as leader:
        path = znodes.broker(THIRD)
        tree.apply(SetData(path, b"shutting down") if stops else Delete(path), owner=0)
        life = BrokerEpoch(LIVE[THIRD].epoch + 1)
        leader.leadership.fetched(THIRD, life, 0, subscription=1)
        leader.leadership.live_changed(LIVE | {THIRD: replace(LIVE[THIRD], epoch=life)})
        await eventually(lambda: written(tree).isr_ids == (1, 2))
        leader.produce("a")
        has(leader, SECOND, 1)
        await eventually(lambda: leader.outcomes == [Produced(0, 0)])
        assert leader.stepped_down == []


async def test_a_lost_compare_and_set_deposes() -> None:
    """CORRECTNESS I3, I4, E1: another epoch is written there; what waits commits here no more."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree) as leader:
        leader.produce("a")
        state = deposed(tree)
        leader.leadership.live_changed({b: r for b, r in LIVE.items() if b == 1})
        await eventually(lambda: leader.stepped_down == [state])
        assert [type(outcome) for outcome in leader.outcomes] == [OutcomeUnknown]
        assert written(tree) == state


async def test_a_leader_that_resigned_by_record_stops_leading() -> None:
    """CORRECTNESS I4, I8: the same epoch without a leader is not this broker's leadership."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree) as leader:
        resigned = PartitionState(NO_BROKER, LeaderEpoch(5), written(tree).isr)
        tree.apply(SetData(ISR, isr_znodes.dump_isr(resigned)), owner=0)
        leader.leadership.live_changed({b: r for b, r in LIVE.items() if b == 1})
        await eventually(lambda: leader.stepped_down == [resigned])


async def test_an_answer_that_comes_after_the_end_changes_nothing() -> None:
    """CORRECTNESS I5: an answer goes only to the leadership that asked."""
    async with leading(open_replica(), 5) as leader:
        taken, go_on = leader.session.hold()
        leader.produce("a")
        leader.leadership.live_changed({b: r for b, r in LIVE.items() if b == 1})
        await taken.wait()
        leader.leadership.end()
        go_on.set()
        for _ in range(10):
            await asyncio.sleep(0)
        assert leader.stepped_down == []
        assert leader.leadership.core.state.isr_ids == (1, 2, 3)


async def test_while_zookeeper_is_out_of_reach_changes_wait_and_commits_continue() -> None:
    """CORRECTNESS E1: with the whole ISR a commit needs no permission."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree, keep_in_sync_ms=10) as leader:
        leader.leadership.link_changed(connected=False)
        leader.produce("a")
        has(leader, SECOND, 1)
        has(leader, THIRD, 1)
        assert leader.outcomes == [Produced(0, 0)]
        leader.produce("b", timeout_ms=50)
        await eventually(lambda: len(leader.outcomes) == 2)
        assert isinstance(leader.outcomes[1], RequestTimedOut)  # both are late, and stay members
        assert written(tree).isr_ids == (1, 2, 3)
        leader.leadership.link_changed(connected=True)
        await eventually(lambda: written(tree).isr_ids == (1,))


# --- the disk -----------------------------------------------------------------------------------------


async def test_a_failed_append_ends_the_leadership_at_once() -> None:
    """CORRECTNESS E14: the request that met it fails, those before it are of unknown outcome."""
    files = MemoryFiles()

    def full(operation: str, path: Path) -> int | None:
        if operation == "append":
            raise OSError(errno.ENOSPC, "no space left")
        return None

    async with leading(open_replica(files=files), 5) as leader:
        leader.produce("a")
        files.fault = full
        with pytest.raises(StorageFailed):
            leader.produce("b")
        assert leader.stepped_down == [None]
        assert [type(outcome) for outcome in leader.outcomes] == [OutcomeUnknown]


async def test_with_flush_messages_nothing_commits_before_it_is_synced() -> None:
    """CORRECTNESS E3: the leader's own tail counts from the sync on, not from the append."""
    replica = open_replica(TopicConfig(flush_messages=1))
    async with leading(replica, 5, isr=(1, 2)) as leader:
        leader.produce("a")
        has(leader, SECOND, 1)
        assert leader.outcomes == []
        await eventually(lambda: leader.outcomes == [Produced(0, 0)])
        assert replica.log.unflushed_records == 0


async def test_a_sync_by_another_process_counts_nevertheless() -> None:
    """CORRECTNESS E3, H10: the flush task may come between the append and the commit task; the records
    are on the disk then, and nothing is left that would make them count later."""
    replica = open_replica(TopicConfig(flush_messages=1))
    async with leading(replica, 5, isr=(1, 2)) as leader:
        leader.produce("a")
        replica.log.flush()
        has(leader, SECOND, 1)
        await eventually(lambda: leader.outcomes == [Produced(0, 0)])


async def test_records_appended_during_a_sync_that_need_none_keep_counting() -> None:
    """CORRECTNESS E3: the end that a sync covered may be behind what counts already when it returns."""
    files = MemoryFiles()
    replica = open_replica(TopicConfig(flush_messages=2), files=files)
    syncing, go_on = threading.Event(), threading.Event()

    def slow(operation: str, path: Path) -> int | None:
        if operation == "sync" and not syncing.is_set():
            syncing.set()
            go_on.wait(10)
        return None

    async with leading(replica, 5, isr=(1, 2)) as leader:
        files.fault = slow
        leader.produce("a")
        leader.produce("b")
        await eventually(syncing.is_set)
        go_on.set()
        # The sync ends in its thread while this loop is busy: only then does "c" need none.
        while replica.log.unflushed_records:
            pass
        leader.produce("c")
        leader.produce("d")
        has(leader, SECOND, 4)
        await eventually(lambda: leader.outcomes == [Produced(offset, 0) for offset in range(4)])
        assert leader.stepped_down == []


async def test_a_failed_sync_ends_the_leadership() -> None:
    """CORRECTNESS E14, E3: it is unknown whether the bytes are there."""
    files = MemoryFiles()
    replica = open_replica(TopicConfig(flush_messages=1), files=files)

    def unsyncable(operation: str, path: Path) -> int | None:
        if operation == "sync":
            raise OSError(errno.EIO, "input/output error")
        return None

    async with leading(replica, 5, isr=(1, 2)) as leader:
        files.fault = unsyncable
        leader.produce("a")
        has(leader, SECOND, 1)
        await eventually(lambda: leader.stepped_down == [None])
        assert [type(outcome) for outcome in leader.outcomes] == [OutcomeUnknown]


# --- handing over -------------------------------------------------------------------------------------


async def test_a_drained_leader_has_committed_all_it_accepted() -> None:
    """A handover costs no error that a client of an accepted request sees."""
    async with leading(open_replica(), 5, isr=(1, 2)) as leader, asyncio.TaskGroup() as tasks:
        leader.produce("a")
        drained = tasks.create_task(leader.leadership.drained())
        await asyncio.sleep(0)
        with pytest.raises(NotLeaderOrFollower):
            leader.produce("b")
        assert not drained.done()
        has(leader, SECOND, 1)
        await drained
        assert leader.outcomes == [Produced(0, 0)]


async def test_records_that_wait_for_a_sync_are_drained_too() -> None:
    """CORRECTNESS E1: with acks=1 nothing of it is in the queue, and a handover would lose it."""
    config = TopicConfig(flush_messages=1)
    async with leading(open_replica(config), 5, isr=(1, 2)) as leader, asyncio.TaskGroup() as tasks:
        leader.produce("a", acks=1)
        drained = tasks.create_task(leader.leadership.drained())
        await asyncio.sleep(0)
        assert not drained.done()
        has(leader, SECOND, 1)
        await drained
        assert leader.replica.high_watermark == 1


async def test_a_leader_accepts_again_after_a_handover_that_did_not_happen() -> None:
    """A leader that could not be drained in time leads on, and can be drained another time."""
    async with leading(open_replica(), 5, isr=(1, 2)) as leader, asyncio.TaskGroup() as tasks:
        leader.produce("a")
        first = tasks.create_task(leader.leadership.drained())
        await asyncio.sleep(0)
        first.cancel()
        leader.leadership.undrain()
        leader.produce("b")
        has(leader, SECOND, 2)
        assert leader.outcomes == [Produced(0, 0), Produced(1, 0)]
        await leader.leadership.drained()
        with pytest.raises(NotLeaderOrFollower):
            leader.produce("c")
