"""Elections, resignations and ISR changes are recorded with their reasons, and none is lost with its
writer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.core.state_changes.events import elected, isr_changed, resigned
from strandline.broker.replication.truncation import Divergence, Truncator
from strandline.errors import OffsetOutOfRange
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, Offset
from strandline.vocabulary.metadata import NEVER_LED, IsrMember, PartitionState
from strandline.vocabulary.replication import Push, Subscribe
from strandline.vocabulary.state_changes import ChangeKind, RequestState, StateChangeEvent
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import (
    ASSIGNED,
    CLOCK,
    KEY,
    LIVE,
    NAME,
    Followed,
    Led,
    Recorded,
    following,
    leading,
    open_replica,
    values,
    write,
)
from tests.broker.support.seat import ISR, ME, Seat, led_by, seated
from tests.waiting import eventually
from tests.znode_tree import ZnodeTree

FIRST, SECOND, THIRD = ASSIGNED
LONG_MS = 600_000
"""Long enough that no follower is late because the machine is busy."""


@pytest.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    async with seated(tmp_path, isr_trail_events_max=3, keep_in_sync_ms=LONG_MS) as found:
        yield found


def isr_event(epoch: int, version: int) -> StateChangeEvent:
    return isr_changed(
        NAME.topic,
        KEY,
        led_by(1, 1, 2, epoch=epoch),
        version,
        at_ms=0,
        reason="broker 3 is late",
        left=(THIRD,),
    )


def of(events: list[StateChangeEvent], kind: ChangeKind) -> list[StateChangeEvent]:
    return [event for event in events if event.command is kind]


# --- why there was a vacancy --------------------------------------------------------------------------


async def won(seat: Seat, *, epoch: int = 6) -> StateChangeEvent:
    """The record of the election that broker 2 wins."""
    await eventually(lambda: seat.leads_in() == epoch)
    (event,) = of(seat.recorder.events, ChangeKind.ELECT_LEADER)
    assert (event.broker, event.epoch, event.isr) == (ME, epoch, seat.record.isr_ids)
    assert event.state is RequestState.COMPLETED
    return event


async def test_a_first_election(seat: Seat) -> None:
    seat.write(NEVER_LED)
    seat.registration.live = {ME: LIVE[ME]}
    seat.elector.vacant(seat.replica)
    event = await won(seat)
    assert event.reason == "first election"
    assert not event.unclean


async def test_a_leader_that_is_gone(seat: Seat) -> None:
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.elector.vacant(seat.replica)
    assert (await won(seat)).reason == "broker 1 is gone"


async def test_a_leader_that_does_not_answer(seat: Seat) -> None:
    seat.manager.peers.refused(LIVE[FIRST].epoch)
    seat.elector.vacant(seat.replica)
    assert (await won(seat)).reason == "broker 1 does not answer"


async def test_a_leader_that_came_back_in_another_life(seat: Seat) -> None:
    """CORRECTNESS E4."""
    seat.registration.live = {**LIVE, FIRST: replace(LIVE[FIRST], epoch=BrokerEpoch(11))}
    seat.elector.vacant(seat.replica)
    assert (await won(seat)).reason == "broker 1 came back in another life"


async def test_a_claim_that_was_never_exercised(seat: Seat) -> None:
    """CORRECTNESS E7: by record broker 2 leads, and it does not know."""
    seat.write(led_by(2, 1, 2, 3, epoch=5))
    seat.elector.vacant(seat.replica)
    assert (await won(seat)).reason == "its own claim was never exercised"


async def test_a_leadership_of_an_earlier_life(seat: Seat) -> None:
    seat.write(replace(led_by(2, 1, 3, epoch=5), isr=(IsrMember(ME, BrokerEpoch(3)),)))
    seat.manager.folder.begin_life(BrokerEpoch(3))
    seat.elector.vacant(seat.replica)
    assert (await won(seat)).reason == "broker 2 came back in another life"


@pytest.mark.parametrize("reason", ["shutting down", "its log failed", "preferred leader", "drain"])
async def test_a_leadership_that_was_handed_over(seat: Seat, reason: str) -> None:
    """USERS 21: the resigning leader writes the reason into the znode, so it does not depend on a process's
    memory."""
    nobody = led_by(NO_BROKER, 1, 2, 3, epoch=5)
    given = resigned(NAME.topic, KEY, FIRST, nobody, at_ms=1, reason=reason)
    seat.write(replace(nobody, trail=(given,)))
    seat.elector.vacant(seat.replica, handed_over=True)
    assert (await won(seat)).reason == f"handed over by broker 1: {reason}"
    assert of(seat.recorder.events, ChangeKind.RESIGN_LEADER) == [given]


async def test_an_unclean_election(seat: Seat) -> None:
    """CORRECTNESS T11: that records may be lost is said where the loss begins."""
    seat.write(led_by(1, 1, epoch=5))
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    unclean = TopicConfig(unclean_leader_election_enable=True)
    seat.manager.reconfigure(seat.replica, PartitionAssignment(ASSIGNED), unclean)
    seat.elector.vacant(seat.replica)
    event = await won(seat)
    assert event.reason == (
        "broker 1 is gone, and no replica in sync is alive; "
        "no committed record is known to be missing; some may be from 0 on"
    )
    assert event.unclean
    assert event.isr == (ME,)


# --- the trail ----------------------------------------------------------------------------------------


async def test_an_election_is_in_the_znode_by_the_write_that_made_it(seat: Seat) -> None:
    """CORRECTNESS E7: a winner that dies before it knows of its victory leaves the word of it."""
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    taken, go_on = seat.coordination.hold()
    seat.elector.vacant(seat.replica)
    await taken.wait()
    (event,) = seat.record.trail
    assert (event.command, event.epoch) == (ChangeKind.ELECT_LEADER, 6)
    assert seat.recorder.events == []
    go_on.set()
    await eventually(lambda: seat.recorder.events[:1] == [event])


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
async def test_an_election_whose_reply_is_lost_is_recorded_if_it_took_place(
    seat: Seat, applied: bool
) -> None:
    """CORRECTNESS E9: every epoch that the znode ever had has its record, and no other."""
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.coordination.lose(applied=applied)
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 7)
    elections = of(seat.recorder.events, ChangeKind.ELECT_LEADER)
    assert [(event.epoch, event.reason) for event in elections] == (
        [(6, "broker 1 is gone"), (7, "its own claim was never exercised")]
        if applied
        else [(7, "broker 1 is gone")]
    )


async def test_the_next_leader_records_events_that_the_last_one_may_have_left(seat: Seat) -> None:
    """CORRECTNESS E7: in order, and before its own election."""
    found = (
        elected(NAME.topic, KEY, led_by(1, 1, epoch=5), at_ms=1, reason="first election"),
        isr_event(5, 9),
    )
    seat.write(replace(led_by(1, 1, 2, epoch=5), trail=found))
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 6)
    assert seat.record.trail[:2] == found
    assert seat.recorder.events[:3] == list(seat.record.trail)


async def test_an_event_without_room_in_the_trail_is_named_in_the_log(
    seat: Seat, capsys: pytest.CaptureFixture[str]
) -> None:
    """The znode keeps the youngest `isr_trail_events_max`; what has to go is named in the log."""
    found = tuple(isr_event(5, version) for version in range(5))
    seat.write(replace(led_by(1, 1, 2, epoch=5), trail=found))
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 6)
    assert [event.id for event in seat.record.trail[:2]] == [found[3].id, found[4].id]
    assert seat.record.trail[2].command is ChangeKind.ELECT_LEADER
    assert all(event.id in capsys.readouterr().out for event in found[:1])


def changed(leader: Led, *gone: BrokerId) -> None:
    leader.leadership.live_changed({b: r for b, r in LIVE.items() if b not in gone})


def at_rest(leader: Led, *brokers: BrokerId) -> None:
    """These followers have reported that they have everything."""
    for broker in brokers:
        leader.leadership.fetched(broker, LIVE[broker].epoch, 0, subscription=1)
    leader.leadership.turn()


def written(tree: ZnodeTree) -> PartitionState:
    return isr_znodes.load_isr(NAME.topic, NAME.partition, tree.nodes[ISR].data)


async def isr_has(tree: ZnodeTree, members: int) -> None:
    await eventually(lambda: len(written(tree).isr) == members)


async def test_changes_of_the_isr_are_recorded_with_members_and_reasons() -> None:
    """USERS 21: the members that left and joined, with a reason for each."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree, keep_in_sync_ms=LONG_MS) as leader:
        changed(leader, THIRD)
        await eventually(lambda: written(tree).isr_ids == (1, 2))
        changed(leader)
        at_rest(leader, THIRD)
        await eventually(lambda: written(tree).isr_ids == (1, 2, 3))
        await eventually(lambda: len(leader.recorded.events) == 2)
        left, joined = leader.recorded.events
        assert (left.left, left.joined, left.isr) == ((3,), (), (1, 2))
        assert (joined.left, joined.joined, joined.isr) == ((), (3,), (1, 2, 3))
        assert (left.reason, joined.reason) == ("broker 3 is gone", "broker 3 caught up")
        assert (left.broker, left.epoch) == (FIRST, 5)


async def test_a_late_member_leaves_the_isr_with_that_reason() -> None:
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree, keep_in_sync_ms=10) as leader:
        at_rest(leader, SECOND, THIRD)
        leader.produce("a")
        await eventually(lambda: written(tree).isr_ids == (1,))
        (event,) = leader.recorded.events
        assert (event.left, event.reason) == ((2, 3), "broker 2 is late, broker 3 is late")


async def test_recorded_events_leave_the_trail_with_the_next_write() -> None:
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree, keep_in_sync_ms=LONG_MS) as leader:
        leader.recorded.silent = True
        changed(leader, THIRD)
        await eventually(lambda: len(leader.recorded.events) == 1)
        changed(leader, SECOND, THIRD)
        await eventually(lambda: written(tree).isr_ids == (1,))
        assert [event.left for event in written(tree).trail] == [(3,), (2,)]
        await eventually(lambda: len(leader.recorded.waiting) == 2)
        leader.recorded.answer(recorded=True)
        changed(leader)
        at_rest(leader, SECOND)
        await eventually(lambda: written(tree).isr_ids == (1, 2))
        assert [event.joined for event in written(tree).trail] == [(2,)]


async def test_an_event_that_is_being_recorded_is_not_sent_again_with_each_write() -> None:
    """While the topic is away each change is sent once, however often the znode is written."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree, keep_in_sync_ms=LONG_MS) as leader:
        leader.recorded.silent = True
        for isr in ((SECOND, THIRD), (), (SECOND, THIRD), ()):
            changed(leader, *isr)
            at_rest(leader, *(b for b in (SECOND, THIRD) if b not in isr))
            await isr_has(tree, len(ASSIGNED) - len(isr))
        await eventually(lambda: len(leader.recorded.events) == 4)
        assert len({event.identity for event in leader.recorded.events}) == 4


async def test_an_event_that_could_not_be_recorded_is_sent_again_until_it_is() -> None:
    """The recorder has a bound, and says what it dropped: not at once again, but again."""
    async with leading(open_replica(), 5, keep_in_sync_ms=LONG_MS) as leader:
        leader.recorded.silent = True
        changed(leader, THIRD)
        await eventually(lambda: len(leader.recorded.events) == 1)
        leader.recorded.answer(recorded=False)
        assert len(leader.recorded.events) == 1
        await eventually(lambda: len(leader.recorded.events) == 2)
        assert len(set(leader.recorded.events)) == 1


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
async def test_a_change_whose_reply_is_lost_is_recorded_if_it_took_place(applied: bool) -> None:
    """CORRECTNESS I4, E9: it is recorded once, or not at all until it is made."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree, keep_in_sync_ms=LONG_MS) as leader:
        leader.session.lose(applied=applied)
        changed(leader, THIRD)
        await eventually(lambda: written(tree).isr_ids == (1, 2))
        await eventually(lambda: leader.recorded.events)
        (event,) = leader.recorded.events
        assert event.left == (3,)
        assert event in written(tree).trail
        assert event.id.endswith(f"-{tree.nodes[ISR].version}")


async def test_a_change_that_outlived_its_leadership_is_left_to_the_next_leader() -> None:
    """CORRECTNESS I5, E13: it is in the znode, and an ended leadership records nothing in another's name."""
    tree = ZnodeTree()
    async with leading(open_replica(), 5, tree=tree, keep_in_sync_ms=LONG_MS) as leader:
        taken, go_on = leader.session.hold()
        changed(leader, THIRD)
        await taken.wait()
        leader.leadership.end()
        go_on.set()
    (event,) = written(tree).trail
    assert event.left == (3,)
    assert leader.recorded.events == []


# --- cuts ---------------------------------------------------------------------------------------------


async def _asked(followed: Followed) -> Subscribe:
    """The first request of the follower."""
    await eventually(lambda: followed.streams)
    (asked,) = (await followed.stream.heard()).subscribe
    return asked


async def _diverge(followed: Followed, epoch: int, end: int, *, log_start_offset: int = 0) -> None:
    """Broker 1's log ends so in this epoch; return once the follower has drawn its conclusions."""
    asked = await _asked(followed)
    diverging = (epoch, end)
    followed.stream.push(Push(asked.subscription_id, log_start_offset=log_start_offset, diverging=diverging))
    await followed.stream.heard()


async def test_a_truncation_is_reported_with_its_range() -> None:
    """CORRECTNESS T3: nothing that was committed is in it."""
    replica = open_replica()
    write(replica, 1, "a", "b")
    write(replica, 2, "c", "d")
    async with following(replica, 5) as followed:
        await _diverge(followed, 1, 4)
        (event,) = followed.recorded.events
        assert (event.command, event.state) == (ChangeKind.TRUNCATE, RequestState.COMPLETED)
        assert (event.first, event.end, event.lost) == (2, 4, 0)
        assert (event.broker, event.epoch) == (SECOND, 5)
        assert event.reason == "the log of broker 1 went another way"


async def test_the_truncation_event_has_the_records_that_an_unclean_election_lost() -> None:
    """CORRECTNESS T11: the exact range, `lost` records from `first` on."""
    replica = open_replica(TopicConfig(unclean_leader_election_enable=True))
    write(replica, 1, "a", "b", "c", "d")
    replica.raise_watermark(Offset(3))
    async with following(replica, 5) as followed:
        await _diverge(followed, 1, 1)
        (event,) = followed.recorded.events
        assert (event.first, event.end, event.lost) == (1, 4, 2)
        assert event.reason == "broker 1 was elected without these records"


async def test_a_truncation_that_is_refused_is_reported_as_failed() -> None:
    """CORRECTNESS T11: this replica stops, and the record says what it keeps and why."""
    replica = open_replica()
    write(replica, 1, "a", "b", "c")
    replica.raise_watermark(Offset(3))
    async with following(replica, 5) as followed:
        await _diverge(followed, 1, 1)
        (event,) = followed.recorded.events
        assert event.state is RequestState.FAILED
        assert (event.first, event.end, event.lost) == (1, 3, 0)
        assert event.reason == "refused: the log of broker 1 lacks 2 committed records from 1 on"
    assert values(replica) == ["a", "b", "c"]


async def test_a_log_that_restarts_is_reported() -> None:
    """CORRECTNESS H7: retention at the leader took it, no election."""
    replica = open_replica()
    write(replica, 1, "a", "b")
    async with following(replica, 5) as followed:
        asked = await _asked(followed)
        followed.stream.push(Push(asked.subscription_id, error=OffsetOutOfRange("begins at 9", limit=9)))
        await followed.stream.heard()
        (event,) = followed.recorded.events
        assert (event.first, event.end, event.lost) == (0, 2, 0)
        assert event.reason == "the log of broker 1 begins at 9"


async def test_without_a_truncation_nothing_is_reported() -> None:
    """Epochs that wrote nothing go without a word, and an empty log has nothing to lose."""
    replica = open_replica()
    write(replica, 1, "a", "b")
    replica.log.appending.begin_epoch(2)
    async with following(replica, 5) as followed:
        await _diverge(followed, 1, 2)
        assert followed.recorded.events == []


async def test_a_truncation_is_recorded_before_it_is_made() -> None:
    """CORRECTNESS T11: afterwards its range would be unknown."""
    replica = open_replica()
    write(replica, 1, "a", "b")
    write(replica, 2, "c")
    ends: list[int] = []
    async with following(replica, 5) as followed:
        followed.recorded.on_keep = lambda: ends.append(replica.log.log_end_offset)
        await _diverge(followed, 1, 2)
    assert ends == [3]
    assert replica.log.log_end_offset == 2


async def test_all_truncations_of_a_message_are_one_write() -> None:
    """Every partition of a dead leader may be truncated: a sync for each would stop the broker for as many
    syncs."""
    kept: list[int] = []
    replicas = []
    for number in range(3):
        replica = open_replica()
        write(replica, 1, "a")
        write(replica, 2, *"b" * number)
        replica.learn_leader(FIRST, LeaderEpoch(5))
        replicas.append(replica)
    recorder = Recorded(on_keep=lambda: kept.append(1))
    done = Truncator(SECOND, recorder, CLOCK).cut([Divergence(replica, 1, 1, 0) for replica in replicas])
    assert done == [(replica, None) for replica in replicas]
    assert [replica.log.log_end_offset for replica in replicas] == [1, 1, 1]
    assert [(event.first, event.end) for event in recorder.events] == [(1, 2), (1, 3)]
    assert len(kept) == 1


async def test_without_a_common_epoch_the_truncation_is_recorded_in_two_parts() -> None:
    """CORRECTNESS T9: what lies above the leader's log start diverged, what lies below is deleted there."""
    replica = open_replica()
    write(replica, 1, "a", "b", "c")
    async with following(replica, 5) as followed:
        await _diverge(followed, -1, -1, log_start_offset=2)
        above, below = followed.recorded.events
        assert (above.first, above.end, above.reason) == (2, 3, "the log of broker 1 went another way")
        assert (below.first, below.end, below.reason) == (0, 2, "the log of broker 1 begins at 2")
    assert (replica.log.log_start_offset, replica.log.log_end_offset) == (2, 2)
