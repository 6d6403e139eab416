"""A reassignment at random: real leaders, a ZooKeeper in memory, and brokers that die at any effect.

Five brokers hold logs of numbers. Any replica that the ISR of record allows may be elected at any time, with
the previous leader dead, alive, or alive and unaware. A controller requests placements, changes and cancels
them. No acknowledged record may ever be missing in a member of the ISR of record; and when everything heals,
the replicas are where they were requested, and nowhere else.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strandline.broker.core.election.election import leader_stands
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.ids import NO_BROKER, BrokerId, LeaderEpoch, Offset, TopicId
from strandline.vocabulary.metadata import IsrMember, PartitionState, Reassignment
from strandline.vocabulary.state_changes import Command
from tests.broker.core.replication.reassignment_model import BROKERS, CLOSE_S, Broker, Leading, ZooKeeper

HEALING_ROUNDS_MAX = 200


class ReassignmentMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.value = 0
        self.acknowledged: set[int] = set()
        assigned = BROKERS[:3]
        self.brokers: dict[BrokerId, Broker] = {}
        for broker in BROKERS:
            self.brokers[broker] = Broker(broker, self.brokers, broker in assigned)
        members = tuple(IsrMember(b, self.brokers[b].broker_epoch) for b in assigned)
        self.zookeeper = ZooKeeper(
            PartitionState(NO_BROKER, LeaderEpoch(0), members), PartitionAssignment(assigned, 0)
        )
        self.wanted = assigned
        self._elect(self.brokers[BROKERS[0]])

    # --- progress ------------------------------------------------------------------------------

    def _leaders(self) -> list[Leading]:
        return [b.leading for b in self.brokers.values() if b.leading is not None and not b.leading.over]

    def _turn(self) -> None:
        for leading in self._leaders():
            leading.turn(self.now, self.acknowledged)

    def _news_of_the_living(self) -> None:
        for leading in self._leaders():
            leading.core.live_changed(leading.broker.live())
        self._turn()

    def _may_lead(self, broker: Broker) -> bool:
        """Assigned by the AR of record (the claim checks its version), and in the ISR in any life: no log is
        lost here."""
        state, assigned = self.zookeeper.state, self.zookeeper.assignment.replicas
        return broker.up and not broker.closed and broker.id in assigned and broker.id in state

    def _is_led(self) -> bool:
        """By what is written: the leader of record is alive in the life in which it was elected."""
        return leader_stands(self.zookeeper.state, self.brokers[BROKERS[0]].live(), frozenset())

    def _elect(self, broker: Broker) -> None:
        zookeeper = self.zookeeper
        zookeeper.epoch += 1
        mine = IsrMember(broker.id, broker.broker_epoch)
        live = broker.live()
        others = tuple(
            m
            for m in zookeeper.state.isr
            if m.broker not in (broker.id, zookeeper.state.leader)
            and m.broker in zookeeper.assignment.replicas
            and m.broker in live
            and live[m.broker].epoch == m.broker_epoch
        )
        zookeeper.state = PartitionState(broker.id, LeaderEpoch(zookeeper.epoch), (mine, *others))
        zookeeper.version += 1
        broker.stop_following(self.now)
        if broker.leading is not None:
            broker.leading.end()
        broker.epoch = zookeeper.epoch
        broker.leading = Leading(broker, zookeeper, self.now)
        others_assigned = tuple(b for b in zookeeper.assignment.replicas if b != broker.id)
        zookeeper.queue(Command.START_REPLICA, others_assigned, zookeeper.epoch)
        self._turn()

    @rule(broker=st.sampled_from(BROKERS))
    def elect(self, broker: BrokerId) -> None:
        """Rightly, or because of a suspicion: the leader before may be alive and unaware."""
        candidate = self.brokers[broker]
        if self._may_lead(candidate) and self.zookeeper.state.leader != broker:
            self._elect(candidate)

    @rule(without=st.sampled_from((NO_BROKER, *BROKERS)), rounds=st.integers(1, 10))
    def all_goes_well(self, without: BrokerId, rounds: int) -> None:
        """Except for one slow broker: there is a leader, it is followed, and it writes; queues are
        processed."""
        self._go_on(rounds, slow=without)

    @rule(stuck=st.sampled_from(BROKERS), rounds=st.integers(5, 15))
    def a_replica_does_not_close(self, stuck: BrokerId, rounds: int) -> None:
        """A broker fetches on and carries nothing out, for long enough to be cut off."""
        staying = tuple(b for b in self.zookeeper.assignment.target if b != stuck)
        if staying:
            self._ask(staying, cancel=False)
        self._go_on(rounds, stuck=stuck, round_s=CLOSE_S / 5)

    def _go_on(
        self, rounds: int, *, slow: BrokerId = NO_BROKER, stuck: BrokerId = NO_BROKER, round_s: float = 0
    ) -> None:
        for _ in range(rounds):
            self.now += round_s
            leading = self._leading_of_record()
            if leading is None:
                able = [b for b in self.brokers.values() if self._may_lead(b) and b.id != slow]
                if able:
                    self._elect(able[0])
            for broker in self.brokers.values():
                if broker.id != slow:
                    self._fetch(broker, leading, 100)
                    if broker.id != stuck:
                        self._execute(broker)
            if leading is not None and leading.broker.id != slow:
                self._carry_out(leading)

    def _leading_of_record(self) -> Leading | None:
        leader = self.brokers.get(self.zookeeper.state.leader)
        leading = None if leader is None else leader.leading
        stands = leading is not None and leading.epoch == self.zookeeper.state.leader_epoch
        return leading if stands else None

    def _carry_out(self, leading: Leading, *, arrives: bool = True) -> None:
        if leading.effects and not leading.over:
            leading.carry_out(self.now, arrives=arrives)
            self._turn()

    @rule()
    def produce_to_the_leader_of_record(self) -> None:
        if self.zookeeper.state.leader != NO_BROKER:
            self._produce(self.brokers[self.zookeeper.state.leader])

    @rule(leader=st.sampled_from(BROKERS))
    def produce(self, leader: BrokerId) -> None:
        """Produce to any broker that believes it leads."""
        self._produce(self.brokers[leader])

    def _produce(self, leader: Broker) -> None:
        leading = leader.leading
        if leading is None or leading.over or leading.core.handing_over or not leading.core.enough_in_sync:
            return
        self.value += 1
        log = leading.broker.log
        log.append(self.value)
        leading.core.queue.push(Offset(len(log)), 1e9, self.value)
        leading.core.appended(Offset(len(log)), self.now)
        self._turn()

    @rule(follower=st.sampled_from(BROKERS), leader=st.sampled_from(BROKERS), records=st.integers(0, 4))
    def fetch(self, follower: BrokerId, leader: BrokerId, records: int) -> None:
        self._fetch(self.brokers[follower], self.brokers[leader].leading, records)

    def _fetch(self, follower: Broker, leading: Leading | None, records: int) -> None:
        ready = follower.up and follower.has_replica and not follower.closed and follower.leading is None
        if leading is None or leading.over or not ready or leading.epoch < follower.epoch:
            return
        outdated = leading.core.outdated(follower.id, follower.broker_epoch, follower.subscription)
        if follower.follows is not leading or outdated:
            follower.follow(leading, self.now)
        else:
            at = len(follower.log)
            follower.log += leading.broker.log[at : at + records]
            follower.high_watermark = max(
                follower.high_watermark, min(leading.core.high_watermark, len(follower.log))
            )
            follower.report_position(self.now)
        self._turn()

    @rule(broker=st.sampled_from(BROKERS), arrives=st.booleans())
    def zookeeper_takes(self, broker: BrokerId, arrives: bool) -> None:
        leading = self.brokers[broker].leading
        if leading is not None:
            self._carry_out(leading, arrives=arrives)

    @rule(broker=st.sampled_from(BROKERS), crashes=st.booleans())
    def execute(self, broker: BrokerId, crashes: bool) -> None:
        """A broker takes up the first request in its queue; it may die before it removed it."""
        self._execute(self.brokers[broker], crashes=crashes)
        self._turn()

    def _execute(self, broker: Broker, *, crashes: bool = False) -> None:
        queue = self.zookeeper.queues[broker.id]
        if not queue or not broker.up:
            return
        command, epoch, by_leader = queue[0]
        assignment = self.zookeeper.assignment
        assigned = broker.id in assignment.replicas
        match command:
            case Command.START_REPLICA if assigned:
                reopened = by_leader or broker.id in assignment.target or not self._is_led()
                broker.has_replica, broker.closed = True, broker.closed and not reopened
                if broker.leading is not None and not broker.leading.over:
                    broker.leading.read_assignment(self.now)
                    if broker.leading.epoch < epoch:
                        broker.leading.end()
                        broker.leading = None
            case Command.CLOSE_REPLICA if broker.id in assignment.target:
                broker.closed = False  # the replica is to stay
            case Command.CLOSE_REPLICA if not self._is_led() or epoch != self.zookeeper.state.leader_epoch:
                broker.closed = broker.closed and self._is_led()  # the partition may wait for its log
            case Command.CLOSE_REPLICA if epoch >= broker.epoch and broker.leading is None:
                broker.closed = True
                broker.stop_following(self.now)
            case Command.DELETE_REPLICA if not assigned:
                broker.stop_following(self.now)
                if broker.leading is not None:
                    broker.leading.end()
                    broker.leading = None
                broker.deleted[epoch] += 1
                broker.has_replica = broker.closed = False
                broker.log, broker.high_watermark, broker.epoch = [], 0, -1
            case _:
                pass
        if crashes:
            broker.stop(self.now)
            self._news_of_the_living()
        else:
            queue.popleft()

    @rule(seconds=st.floats(0.1, 2))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._turn()

    # --- what goes wrong -----------------------------------------------------------------------

    @rule(broker=st.sampled_from(BROKERS))
    def die_or_return(self, broker: BrokerId) -> None:
        """Killed at any moment, with its effects on the way; or back in another life, as a follower."""
        found = self.brokers[broker]
        if found.up:
            found.stop(self.now)
        else:
            self._return(found)
        self._news_of_the_living()

    def _return(self, broker: Broker) -> None:
        broker.up, broker.closed = True, False
        broker.life += 1
        broker.subscription = 0

    # --- what is asked for ---------------------------------------------------------------------

    @rule(
        wanted=st.permutations(BROKERS).flatmap(lambda b: st.integers(1, 4).map(lambda n: tuple(b[:n]))),
        cancel=st.booleans(),
    )
    def ask(self, wanted: tuple[BrokerId, ...], cancel: bool) -> None:
        """Somewhere, somewhere else instead, or back."""
        self._ask(wanted, cancel=cancel)

    def _ask(self, wanted: tuple[BrokerId, ...], *, cancel: bool) -> None:
        zookeeper, found = self.zookeeper, self.zookeeper.assignment
        standing = found.reassignment
        if standing is None:
            if cancel:
                return
            asked, version = Reassignment(TopicId("t"), wanted, found.replicas), 0
        else:
            version = found.reassignment_version + 1
            asked = replace(standing, reverting=True)
            if not cancel:
                asked = replace(standing, replicas=wanted, reverting=False)
        added = tuple(b for b in asked.replicas if b not in found.replicas)
        assigned = found.replicas + added
        zookeeper.assignment = PartitionAssignment(assigned, found.version + 1, asked, version, version)
        zookeeper.queue(Command.START_REPLICA, assigned, zookeeper.state.leader_epoch, by_leader=False)
        self.wanted = asked.target

    # --- what always holds ---------------------------------------------------------------------

    @invariant()
    def acknowledged_records_are_in_every_member_of_record(self) -> None:
        for member in self.zookeeper.state.isr:
            missing = self.acknowledged - set(self.brokers[member.broker].log)
            assert not missing, f"{member} lacks {missing}"

    @invariant()
    def there_is_always_a_member_in_sync(self) -> None:
        assert self.zookeeper.state.isr

    # --- the end -------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Every broker is back and nothing is lost any longer: the reassignment ends as requested."""
        for broker in self.brokers.values():
            if not broker.up:
                self._return(broker)
        self._news_of_the_living()
        for _ in range(HEALING_ROUNDS_MAX):
            if self._healed():
                break
            self._heal()
        assert self._healed(), (self.zookeeper, [b.id for b in self.brokers.values() if b.has_replica])
        self.acknowledged_records_are_in_every_member_of_record()

    def _healed(self) -> bool:
        zookeeper = self.zookeeper
        return (
            zookeeper.assignment.replicas == self.wanted
            and zookeeper.assignment.reassignment is None
            and set(zookeeper.state.isr_ids) == set(self.wanted)
            and not any(zookeeper.queues.values())
            and {b.id for b in self.brokers.values() if b.has_replica} == set(self.wanted)
        )

    def _heal(self) -> None:
        zookeeper = self.zookeeper
        if self._leading_of_record() is None:
            candidates = [b for b in self.brokers.values() if self._may_lead(b)]
            assert candidates, f"no broker may lead: {zookeeper}"
            self._elect(candidates[0])
        leader = self.brokers[zookeeper.state.leader]
        for broker in self.brokers.values():
            while zookeeper.queues[broker.id]:
                self._execute(broker)
            if broker is not leader and broker.leading is not None:
                broker.leading.end()
                broker.leading = None
        for broker in self.brokers.values():
            for _ in range(3):
                self._fetch(broker, leader.leading, 1_000)
        for _ in range(3):
            if leader.leading is not None:
                self._carry_out(leader.leading)
        self.now += 0.3
        self._turn()


TestReassignmentMachine = ReassignmentMachine.TestCase
TestReassignmentMachine.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
