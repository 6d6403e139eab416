"""The led partition: the commit loop of Kafka's design V3, sentence by sentence, and as a machine.

The machine plays the driver and a ZooKeeper whose replies may be late, lost or refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.broker.core.replication.effects import (
    Acknowledge,
    AdvanceWatermark,
    Effect,
    StepDown,
    TimeOut,
    WriteIsr,
)
from strandline.broker.core.replication.leader_partition import LeaderPartition
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, Offset
from strandline.vocabulary.metadata import Endpoint, IsrMember, PartitionState, Registration

ME, KEEP_IN_SYNC_S = BrokerId(1), 1.0


def member(broker: int, epoch: int | None = None) -> IsrMember:
    return IsrMember(BrokerId(broker), BrokerEpoch(epoch or broker * 10))


def alive(*brokers: int) -> dict[BrokerId, Registration]:
    return {BrokerId(b): Registration(Endpoint(b, "h", 1), BrokerEpoch(b * 10)) for b in brokers}


@dataclass
class Driver:
    """Carries effects out at once, as a ZooKeeper that always answers would."""

    isr: tuple[int, ...] = (1, 2, 3)
    log_end: int = 0
    min_insync: int = 2
    acknowledged: list[str] = field(default_factory=list)
    timed_out: list[str] = field(default_factory=list)
    writes: list[WriteIsr] = field(default_factory=list)
    answer: bool = True

    def __post_init__(self) -> None:
        self.partition: LeaderPartition[str] = LeaderPartition(
            me=ME,
            epoch=LeaderEpoch(7),
            log_end_offset=Offset(self.log_end),
            high_watermark=Offset(0),
            assignment=PartitionAssignment((BrokerId(1), BrokerId(2), BrokerId(3))),
            members=tuple(member(b) for b in self.isr),
            version=0,
            live=alive(1, 2, 3),
            min_insync=self.min_insync,
            keep_in_sync_s=KEEP_IN_SYNC_S,
            close_s=60,
            queue_entries_max=100,
            now=0.0,
        )

    def produce(self, ticket: str, end: int, *, now: float = 0.0, deadline: float = 100.0) -> None:
        self.partition.queue.push(Offset(end), deadline, ticket)
        self.partition.appended(Offset(end), now)
        self.turn(now)

    def fetched(self, broker: int, end: int, *, now: float = 0.0, life: int | None = None) -> None:
        self.partition.fetched(BrokerId(broker), BrokerEpoch(life or broker * 10), Offset(end), now)
        self.turn(now)

    def turn(self, now: float) -> None:
        for effect in self.partition.step(now):
            self.apply(effect, now)

    def apply(self, effect: Effect[str], now: float) -> None:
        match effect:
            case WriteIsr():
                self.writes.append(effect)
                if self.answer:
                    assert self.partition.isr_read(effect.state, effect.version + 1) is None
                    self.turn(now)
            case Acknowledge(tickets):
                self.acknowledged.extend(tickets)
            case TimeOut(tickets):
                self.timed_out.extend(tickets)
            case AdvanceWatermark() | StepDown():
                pass


def test_a_request_commits_once_every_in_sync_replica_has_it() -> None:
    """Kafka's design V3: for each r in ISR, offsetReached(r, pr.offset); then r.hw = pr.offset, send ACK."""
    driver = Driver()
    driver.produce("a", 5)
    driver.fetched(2, 5)
    assert driver.acknowledged == []
    driver.fetched(3, 5)
    assert driver.acknowledged == ["a"]
    assert driver.partition.high_watermark == 5


def test_many_requests_commit_in_one_turn() -> None:
    """Group commit is right, the HW is the least LEO of the ISR."""
    driver = Driver()
    for n in range(1, 6):
        driver.produce(f"r{n}", n)
    driver.fetched(2, 5)
    driver.fetched(3, 3)
    assert driver.acknowledged == ["r1", "r2", "r3"]


def test_every_late_member_leaves_the_isr_before_the_watermark_passes_it() -> None:
    """Kafka's design V3: p.ISR.delete(r), write p.ISR to ZK; in ZooKeeper first (H3)."""
    driver = Driver(answer=False)
    driver.produce("a", 5)
    driver.fetched(2, 5)
    driver.turn(1.0)
    assert [w.left for w in driver.writes] == [(3,)]
    assert driver.acknowledged == []  # proposed is not written
    driver.partition.isr_read(driver.writes[0].state, 1)
    driver.turn(1.0)
    assert driver.acknowledged == ["a"]
    assert driver.partition.state.isr_ids == (1, 2)


def test_a_replica_that_caught_up_returns_to_the_isr_through_zookeeper() -> None:
    """Kafka's design V3: if c.leo >= pr.offset: p.ISR.add(c), write p.ISR to ZK."""
    driver = Driver(isr=(1, 2))
    driver.produce("a", 5)
    driver.fetched(2, 5)
    driver.fetched(3, 4)
    assert driver.partition.catching_up == (3,)
    assert driver.writes == []
    driver.fetched(3, 5)
    assert [w.joined for w in driver.writes] == [(3,)]
    assert driver.partition.state.isr_ids == (1, 2, 3)


def test_a_proposed_member_already_holds_the_watermark_back() -> None:
    """CORRECTNESS H3: committed ∪ proposed until the change is confirmed."""
    driver = Driver(isr=(1, 2), answer=False)
    driver.fetched(2, 0)
    driver.fetched(3, 0)
    assert [w.joined for w in driver.writes] == [(3,)]
    driver.produce("a", 5)
    driver.fetched(2, 5)
    assert driver.acknowledged == []
    driver.fetched(3, 5)
    assert driver.acknowledged == ["a"]


def test_the_watermark_is_frozen_below_min_in_sync() -> None:
    """CORRECTNESS H5, and H10: it moves on as soon as the ISR is large enough again."""
    driver = Driver(isr=(1,), min_insync=2)
    driver.produce("a", 5)
    assert driver.partition.high_watermark == 0
    driver.fetched(2, 5)
    assert driver.acknowledged == ["a"]


def test_the_watermark_is_frozen_while_a_shrink_below_min_in_sync_is_under_way() -> None:
    """CORRECTNESS H5: ZooKeeper may have it already; the member that leaves may still reach the end."""
    driver = Driver(isr=(1, 2), answer=False)
    driver.fetched(2, 0)
    driver.produce("a", 5)
    driver.partition.live_changed(alive(1))
    driver.turn(0.0)
    assert [w.left for w in driver.writes] == [(2,)]
    driver.partition.live_changed(alive(1, 2))
    driver.fetched(2, 5)
    assert driver.partition.high_watermark == 0
    assert not driver.partition.enough_in_sync


def test_a_suspect_leaves_the_isr_at_once_and_returns_when_it_answers() -> None:
    """CORRECTNESS H10, I6: what waited for it commits. While it fetches, its port does not matter: it
    returns by fetching, suspected or not."""
    driver = Driver()
    driver.fetched(3, 0)
    driver.produce("a", 5)
    driver.fetched(2, 5)
    driver.partition.live_changed(alive(1, 2, 3), {BrokerEpoch(30)})
    driver.turn(0.0)
    assert driver.acknowledged == []
    driver.partition.stopped_fetching(BrokerId(3), BrokerEpoch(30), 0.0)
    driver.turn(0.0)
    assert driver.acknowledged == ["a"]
    driver.fetched(3, 5)
    assert set(driver.partition.state.isr_ids) == {1, 2, 3}
    assert [w.reason for w in driver.writes] == ["broker 3 does not answer", "broker 3 caught up"]


def test_a_follower_that_does_not_answer_leaves_the_isr_though_its_flow_is_open() -> None:
    """CORRECTNESS E19, H10: what waited for it commits. It returns once it answers and has every record."""
    driver = Driver()
    driver.fetched(3, 0)
    driver.produce("a", 5)
    driver.fetched(2, 5)
    driver.partition.live_changed(alive(1, 2, 3), silent={BrokerEpoch(30)})
    driver.turn(0.0)
    assert driver.acknowledged == ["a"]
    driver.fetched(3, 5)
    assert len(driver.writes) == 1, "it may be a message of before"
    driver.partition.live_changed(alive(1, 2, 3))
    driver.turn(0.0)
    assert driver.partition.state.isr_ids == (1, 2, 3)
    assert [w.reason for w in driver.writes] == ["broker 3 does not answer", "broker 3 caught up"]


def test_silence_alone_makes_no_isr_below_the_bound() -> None:
    """CORRECTNESS E19, H5: a leader that no follower answers is cut off itself; one of them may lead."""
    driver = Driver()
    driver.fetched(2, 0)
    driver.fetched(3, 0)
    driver.partition.live_changed(alive(1, 2, 3), silent={BrokerEpoch(20), BrokerEpoch(30)})
    driver.turn(0.0)
    assert driver.writes == []
    driver.turn(KEEP_IN_SYNC_S / 2)
    assert driver.partition.state.isr_ids == (1, 2, 3)


def test_a_suspicion_alone_makes_no_isr_below_the_bound() -> None:
    """CORRECTNESS H5: nothing would commit with it, and a leader that is cut off from all other brokers would
    keep them from electing one of them. Late and dead members still count as before."""
    driver = Driver()
    driver.produce("a", 5)
    driver.partition.live_changed(alive(1, 2, 3), {BrokerEpoch(20), BrokerEpoch(30)})
    driver.turn(0.0)
    assert driver.writes == []
    driver.turn(KEEP_IN_SYNC_S)
    assert driver.partition.state.isr_ids == (1,)


def test_a_shrink_commits_waiting_requests_at_once() -> None:
    """CORRECTNESS H10: every ISR change is followed by another look at the HW."""
    driver = Driver()
    driver.produce("a", 5)
    driver.fetched(2, 5)
    driver.partition.live_changed(alive(1, 2))
    driver.turn(0.0)
    assert driver.acknowledged == ["a"]


def test_a_new_leader_does_not_know_the_watermark_before_it_reaches_the_log_end_of_its_election() -> None:
    """CORRECTNESS H1, KIP-207."""
    driver = Driver(log_end=10)
    assert not driver.partition.knows_watermark
    driver.fetched(2, 10)
    driver.fetched(3, 9)
    assert driver.partition.high_watermark == 9
    assert not driver.partition.knows_watermark
    driver.fetched(3, 10)
    assert driver.partition.knows_watermark


def test_followers_have_keep_in_sync_time_from_the_election_on() -> None:
    """CORRECTNESS I9: no spurious shrink right after an election."""
    driver = Driver(log_end=10)
    driver.turn(0.9)
    assert driver.writes == []
    driver.turn(1.0)
    assert [w.left for w in driver.writes] == [(2, 3)]


def test_a_leader_never_leaves_its_own_isr() -> None:
    """CORRECTNESS I8: leader ∈ ISR ≠ ∅, even if all others are gone."""
    driver = Driver()
    driver.partition.live_changed({})
    driver.turn(50.0)
    assert driver.partition.state.isr_ids == (1,)


def test_while_zookeeper_is_away_changes_are_parked_and_the_whole_isr_still_commits() -> None:
    """SUSPENDED: a leader continues to commit with its whole ISR and parks ISR changes."""
    driver = Driver()
    driver.partition.isr_writable = False
    driver.produce("a", 5)
    driver.fetched(2, 5)
    driver.turn(30.0)
    assert (driver.writes, driver.acknowledged) == ([], [])
    driver.fetched(3, 5, now=30.0)
    assert driver.acknowledged == ["a"]
    driver.produce("b", 6, now=31.0)
    driver.partition.isr_writable = True
    driver.turn(32.0)
    assert [w.left for w in driver.writes] == [(2, 3)]


def test_a_write_with_a_lost_reply_is_adopted_if_the_znode_has_it() -> None:
    """CORRECTNESS I4: a compare-and-set that succeeded without an answer must not wedge the leader."""
    driver = Driver(answer=False)
    driver.partition.live_changed(alive(1, 2))
    driver.turn(0.0)
    assert driver.partition.isr_read(driver.writes[0].state, 9) is None
    assert (driver.partition.isr.version, driver.partition.state.isr_ids) == (9, (1, 2))


@pytest.mark.parametrize(
    "state",
    [
        PartitionState(BrokerId(2), LeaderEpoch(8), (member(2),)),
        PartitionState(NO_BROKER, LeaderEpoch(7), (member(1),)),
        PartitionState(ME, LeaderEpoch(9), (member(1),)),
    ],
)
def test_another_epoch_or_leader_in_the_znode_means_step_down(state: PartitionState) -> None:
    """CORRECTNESS I4: if the epoch is newer, step down."""
    driver = Driver(answer=False)
    driver.partition.live_changed(alive(1, 2))
    driver.turn(0.0)
    assert driver.partition.isr_read(state, 9) == StepDown(state)


def test_a_bounced_follower_rejoins_under_its_new_life_only() -> None:
    """CORRECTNESS I2, I6: positions of the life before do not count for the life after."""
    driver = Driver()
    driver.fetched(3, 0)
    live = alive(1, 2) | {BrokerId(3): Registration(Endpoint(3, "h", 1), BrokerEpoch(31))}
    driver.partition.live_changed(live)
    driver.turn(0.0)
    assert driver.partition.state.isr_ids == (1, 2)
    driver.fetched(3, 0, life=30)  # a message of the old life, still on its way
    assert driver.partition.state.isr_ids == (1, 2)
    driver.fetched(3, 0, life=31)
    assert driver.partition.state.isr[-1] == member(3, 31)


def test_requests_that_wait_too_long_end_with_an_unknown_outcome_and_may_yet_commit() -> None:
    driver = Driver()
    driver.produce("a", 5, deadline=0.5)
    driver.turn(0.5)
    assert driver.timed_out == ["a"]
    driver.fetched(2, 5)
    driver.fetched(3, 5)
    assert (driver.acknowledged, driver.partition.high_watermark) == ([], 5)


def test_a_follower_that_subscribes_before_the_leader_knows_its_assignment_subscribes_again() -> None:
    """CORRECTNESS I2: its position was ignored, and on a quiet partition it would not report it again."""
    driver = Driver(log_end=5)
    new = BrokerId(4)
    driver.partition.live_changed(alive(1, 2, 3, 4))
    driver.partition.fetched(new, BrokerEpoch(40), Offset(5), 0.0, subscription=3)
    driver.partition.assign(PartitionAssignment((BrokerId(1), BrokerId(2), BrokerId(3), new), 1), 2, 0.0)
    assert driver.partition.outdated(new, BrokerEpoch(40), 3)
    driver.partition.fetched(new, BrokerEpoch(40), Offset(5), 0.0, subscription=4)
    driver.turn(0.0)
    assert not driver.partition.outdated(new, BrokerEpoch(40), 4)
    assert driver.writes[-1].state.isr_ids == (1, 2, 3, 4)


def test_resigning_gives_back_everything_unanswered() -> None:
    """CORRECTNESS H6."""
    driver = Driver()
    driver.produce("a", 5)
    assert driver.partition.resign() == ["a"]


class PartitionMachine(RuleBasedStateMachine):
    """One leadership under random fetches, deaths, delays and lost replies."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.lives = {2: 20, 3: 30, 4: 40}
        self.positions = {2: 0, 3: 0, 4: 0}
        self.live = self._live()
        self.znode = PartitionState(ME, LeaderEpoch(7), (member(1), member(2), member(3)))
        self.version = 0
        self.under_way: WriteIsr | None = None
        self.next_ticket = 0
        self.answered: set[int] = set()
        self.ends: dict[int, int] = {}
        self.partition: LeaderPartition[int] = LeaderPartition(
            me=ME,
            epoch=LeaderEpoch(7),
            log_end_offset=Offset(0),
            high_watermark=Offset(0),
            assignment=PartitionAssignment(tuple(BrokerId(b) for b in (1, 2, 3, 4))),
            members=self.znode.isr,
            version=0,
            live=self.live,
            min_insync=2,
            keep_in_sync_s=KEEP_IN_SYNC_S,
            close_s=60,
            queue_entries_max=1000,
            now=0.0,
        )

    def _live(self) -> dict[BrokerId, Registration]:
        lives = {1: 10} | {b: life for b, life in self.lives.items() if life > 0}
        return {
            BrokerId(b): Registration(Endpoint(b, "h", 1), BrokerEpoch(life)) for b, life in lives.items()
        }

    def turn(self) -> None:
        before = self.partition.high_watermark
        for effect in self.partition.step(self.now):
            match effect:
                case WriteIsr():
                    assert self.under_way is None, "one change at a time (I5)"
                    assert ME in effect.state
                    self.under_way = effect
                case AdvanceWatermark(high_watermark):
                    assert high_watermark > before
                    self._check_safe(high_watermark)
                case Acknowledge(tickets):
                    for ticket in tickets:
                        assert self.ends[ticket] <= self.partition.high_watermark
                        self._answer(ticket)
                case TimeOut(tickets):
                    for ticket in tickets:
                        self._answer(ticket)
                case StepDown():
                    raise AssertionError("no other broker is elected here")

    def _check_safe(self, high_watermark: int) -> None:
        """Every replica that ZooKeeper would let lead now has every record below the HW."""
        assert len(self.znode.isr) >= 2, "the HW moved below min in-sync (H5)"
        for m in self.znode.isr:
            if m.broker != ME:
                assert self.positions[m.broker] >= high_watermark, f"{m} lacks committed records"

    def _answer(self, ticket: int) -> None:
        assert ticket not in self.answered
        self.answered.add(ticket)

    @rule(records=st.integers(1, 5), timeout_s=st.floats(0.1, 5))
    def produce(self, records: int, timeout_s: float) -> None:
        end = self.partition.log_end_offset + records
        self.partition.queue.push(Offset(end), self.now + timeout_s, self.next_ticket)
        self.ends[self.next_ticket] = end
        self.next_ticket += 1
        self.partition.appended(Offset(end), self.now)
        self.turn()

    @rule(broker=st.sampled_from([2, 3, 4]), part=st.floats(0, 1))
    def fetch(self, broker: int, part: float) -> None:
        if self.lives[broker] < 0:
            return
        behind = self.partition.log_end_offset - self.positions[broker]
        self.positions[broker] += round(behind * part)
        self.partition.fetched(
            BrokerId(broker), BrokerEpoch(self.lives[broker]), Offset(self.positions[broker]), self.now
        )
        self.turn()

    @rule(seconds=st.floats(0.01, 2))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.turn()

    @rule(broker=st.sampled_from([2, 3, 4]))
    def die_or_return(self, broker: int) -> None:
        """A clean bounce: what was written stays."""
        dead = self.lives[broker] < 0
        self.lives[broker] = -self.lives[broker] + 1 if dead else -self.lives[broker]
        self.live = self._live()
        self.partition.live_changed(self.live)
        self.turn()

    @precondition(lambda self: self.under_way is not None)
    @rule(arrives=st.booleans())
    def zookeeper_carries_out(self, arrives: bool) -> None:
        """The write happens, or is lost on the way there; the leader then reads the znode either way."""
        assert self.under_way is not None
        if arrives and self.under_way.version == self.version:
            self.znode = self.under_way.state
            self.version += 1
        self.under_way = None
        assert self.partition.isr_read(self.znode, self.version) is None
        self.turn()

    @precondition(lambda self: self.under_way is not None)
    @rule()
    def zookeeper_carries_out_and_the_reply_is_late(self) -> None:
        assert self.under_way is not None
        if self.under_way.version == self.version:
            self.znode = self.under_way.state
            self.version += 1

    @invariant()
    def the_znode_names_its_leader(self) -> None:
        assert ME in self.znode
        assert self.partition.high_watermark <= self.partition.log_end_offset

    @invariant()
    def committed_records_are_on_every_member_of_record(self) -> None:
        """CORRECTNESS H3: also during a change, with the old or the new ISR on record."""
        for m in self.znode.isr:
            if m.broker != ME:
                assert self.positions[m.broker] >= self.partition.high_watermark


TestPartitionMachine = PartitionMachine.TestCase
