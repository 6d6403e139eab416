"""Elections when no replica in sync can lead without a loss (CORRECTNESS E2, E3;
docs/understand/replication.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.election.election import (
    Ballot,
    Decision,
    Follow,
    PublishStatement,
    Stand,
    Wait,
    claim,
    decide,
)
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.vocabulary.log_statements import Loss, loss
from strandline.vocabulary.metadata import (
    Endpoint,
    IsrMember,
    LogCondition,
    LogStatement,
    PartitionState,
    Registration,
)

AR = (BrokerId(1), BrokerId(2), BrokerId(3))
UNSURE, OUTSIDE, ABSENT, DAMAGED = LogCondition
EPOCH = LeaderEpoch(5)


@dataclass
class Machine:
    """A broker with a replica. `age`: 0 in the life that joined the ISR, else a later one."""

    broker: int
    end: int = 10
    last_epoch: int = 5
    watermark: int = 0
    alive: bool = True
    age: int = 1
    sure: bool = False
    condition: LogCondition = UNSURE

    @property
    def life(self) -> BrokerEpoch:
        return BrokerEpoch(self.broker * 10 + self.age)

    @property
    def statement(self) -> LogStatement:
        return LogStatement(
            BrokerId(self.broker), self.life, self.condition, self.last_epoch, 0, self.end, self.watermark
        )


@dataclass
class Cluster:
    """The state in ZooKeeper, and the live brokers."""

    machines: dict[int, Machine]
    state: PartitionState
    permitted: set[int] = field(default_factory=set)

    def live(self) -> dict[BrokerId, Registration]:
        return {
            BrokerId(m.broker): Registration(Endpoint(m.broker, "h", 1), m.life)
            for m in self.machines.values()
            if m.alive
        }

    def ballot(self, me: int) -> Ballot:
        machine = self.machines[me]
        lives = {machine.life} | ({BrokerEpoch(me * 10)} if machine.sure else set())
        return Ballot(
            AR,
            self.state,
            self.live(),
            frozenset(),
            BrokerId(me),
            frozenset(lives),
            machine.condition is not DAMAGED,
            unclean_allowed=False,
            statement=machine.statement,
            permitted=me in self.permitted,
        )

    def decide(self, me: int) -> Decision:
        return decide(self.ballot(me))

    def say(self, *brokers: int) -> None:
        """These write what they have."""
        for broker in brokers:
            decision = self.decide(broker)
            assert isinstance(decision, PublishStatement), decision
            self.state = replace(self.state, statements=decision.statements)

    def standing(self) -> dict[int, Stand]:
        decisions = {m.broker: self.decide(m.broker) for m in self.machines.values() if m.alive}
        return {broker: each for broker, each in decisions.items() if isinstance(each, Stand)}


def cluster(*machines: Machine, isr: Iterable[int]) -> Cluster:
    members = tuple(IsrMember(BrokerId(b), BrokerEpoch(b * 10)) for b in isr)
    return Cluster({m.broker: m for m in machines}, PartitionState(NO_BROKER, EPOCH, members))


def test_the_longest_log_leads_once_all_members_have_made_a_statement() -> None:
    """CORRECTNESS E2, E3: no replica before that, and then one alone, at once."""
    it = cluster(Machine(1, end=7), Machine(2, end=9), Machine(3, end=8), isr=(1, 2, 3))
    assert it.standing() == {}
    it.say(1, 2)
    assert it.standing() == {}
    it.say(3)
    assert it.standing() == {2: Stand(0, unclean=True)}


def test_the_last_epoch_counts_before_the_length() -> None:
    """CORRECTNESS T1: what an older leader wrote may never have been committed."""
    it = cluster(Machine(1, end=50, last_epoch=4), Machine(2, end=9), isr=(1, 2))
    it.say(1, 2)
    assert list(it.standing()) == [2]


def test_among_equal_logs_the_first_in_replica_order_leads() -> None:
    it = cluster(Machine(1), Machine(2), Machine(3), isr=(1, 2, 3))
    it.say(3, 2, 1)
    assert list(it.standing()) == [1]


def test_a_single_replica_leads_with_what_it_has() -> None:
    """CORRECTNESS E2: at a replication factor of 1 there is no other replica to wait for."""
    it = cluster(Machine(1), isr=(1,))
    it.say(1)
    assert list(it.standing()) == [1]


def test_a_longer_log_outside_the_isr_saves_what_the_members_lost() -> None:
    it = cluster(Machine(1, end=7), Machine(2, end=9, condition=OUTSIDE), isr=(1,))
    it.say(2)
    assert it.standing() == {}
    it.say(1)
    assert list(it.standing()) == [2]


@pytest.mark.parametrize("age", [0, 1], ids=["alive all the time", "came back whole"])
def test_a_member_that_is_sure_to_have_everything_leads_and_no_other_does(age: int) -> None:
    """CORRECTNESS E2: it makes no statement, so the others never have all of them."""
    it = cluster(Machine(1, age=age, sure=True, end=1), Machine(2, end=90), Machine(3, end=91), isr=(1, 2, 3))
    if age:
        it.say(2, 3)
    else:
        assert isinstance(it.decide(2), Wait)
    assert {broker: stand.unclean for broker, stand in it.standing().items()} == {1: False}


def test_a_statement_of_an_earlier_life_is_ignored() -> None:
    """CORRECTNESS E4: that broker may have lost more since; it says what it has anew."""
    it = cluster(Machine(1, end=7), Machine(2, end=9), isr=(1, 2))
    it.say(1, 2)
    it.machines[1].age = 2
    assert it.standing() == {}
    it.say(1)
    assert len(it.state.statements) == 2
    assert list(it.standing()) == [2]


def test_a_candidate_that_dies_before_its_claim_is_awaited() -> None:
    it = cluster(Machine(1, end=7), Machine(2, end=9), isr=(1, 2))
    it.say(1, 2)
    it.machines[2].alive = False
    assert it.standing() == {}
    assert it.decide(1) == Wait("only [1, 2] were in sync and unclean election is off: broker 2 is not alive")


@pytest.mark.parametrize("condition", [ABSENT, DAMAGED])
def test_a_member_that_lost_its_log_is_not_back(condition: LogCondition) -> None:
    """CORRECTNESS E15, E18: its records may be the only ones that were committed last."""
    it = cluster(Machine(1, end=7), Machine(2, end=0, last_epoch=-1, condition=condition), isr=(1, 2))
    it.say(1, 2)
    assert it.standing() == {}
    word = "broker 2 lost its log" if condition is ABSENT else "the log of broker 2 is damaged"
    assert it.decide(1) == Wait(f"only [1, 2] were in sync and unclean election is off: {word}")


@pytest.mark.parametrize("others", ["dead", "lost"])
def test_an_operator_may_permit_the_election_of_an_incomplete_log(others: str) -> None:
    """For this epoch, and only if no live replica may still lead without a loss."""
    it = cluster(Machine(1, end=7), Machine(2, condition=ABSENT, alive=others != "dead"), isr=(1, 2))
    it.permitted = {1}
    assert isinstance(it.decide(1), PublishStatement)
    it.say(1)
    if others == "lost":
        assert it.standing() == {}
        it.say(2)
    assert it.standing() == {1: Stand(0, unclean=True)}


def test_a_permission_is_unused_if_a_member_has_everything() -> None:
    it = cluster(Machine(1, end=7), Machine(2, sure=True), isr=(1, 2))
    it.say(1)
    it.permitted = {1}
    assert list(it.standing()) == [2]
    it.machines[2].age = 0
    assert isinstance(it.decide(1), Wait)


def test_a_damaged_log_never_leads_by_permission_either() -> None:
    """CORRECTNESS E15."""
    it = cluster(Machine(1, condition=DAMAGED), isr=(1,))
    it.say(1)
    it.permitted = {1}
    assert it.decide(1) == Wait("this replica's log is damaged")


def test_a_member_that_failed_in_the_life_in_which_it_joined_delays_no_commit() -> None:
    """CORRECTNESS E14: it is alive, and will not lead; an operator may have another one elected."""
    it = cluster(Machine(1, age=0, condition=DAMAGED), Machine(2, condition=OUTSIDE), isr=(1,))
    assert isinstance(it.decide(2), Wait)
    it.say(1, 2)
    it.permitted = {2}
    assert list(it.standing()) == [2]


def test_the_winner_starts_alone_and_its_epoch_is_known_as_lossy_from_then_on() -> None:
    """CORRECTNESS T11: followers truncate what it lacks, in any later epoch in which they come back."""
    it = cluster(Machine(1), isr=(1,))
    it.say(1)
    won = claim(it.ballot(1), LeaderEpoch(6), BrokerEpoch(11), unclean=True)
    assert (won.isr_ids, won.lossy_epoch, won.statements) == ((1,), 6, ())
    it.state = replace(won, leader=NO_BROKER)
    later = claim(it.ballot(1), LeaderEpoch(9), BrokerEpoch(11), unclean=False)
    assert later.lossy_epoch == 6


def test_a_certain_loss_is_distinguished_from_a_possible_one() -> None:
    statements = [Machine(1, end=7, watermark=9).statement, Machine(2, end=7, watermark=4).statement]
    assert loss(7, statements) == Loss(7, 9)
    assert str(loss(7, statements)) == ("committed records 7 to 8 are missing; more may be missing from 9 on")
    assert str(loss(9, statements)) == ("no committed record is known to be missing; some may be from 9 on")


machines = st.builds(
    Machine,
    broker=st.just(0),
    end=st.integers(0, 3),
    last_epoch=st.integers(3, 5),
    alive=st.booleans(),
    age=st.integers(0, 2),
    sure=st.booleans(),
    condition=st.sampled_from(LogCondition),
)


@given(
    found=st.tuples(machines, machines, machines),
    isr=st.sets(st.sampled_from([1, 2, 3]), min_size=1),
    order=st.lists(st.sampled_from([1, 2, 3]), max_size=6),
    permitted=st.sets(st.sampled_from([1, 2, 3])),
)
def test_beside_a_live_sure_member_no_other_stands(
    found: tuple[Machine, Machine, Machine], isr: set[int], order: list[int], permitted: set[int]
) -> None:
    """CORRECTNESS E2: over every combination of returned logs and of statements; without a permission at most
    one replica stands."""
    for broker, machine in enumerate(found, start=1):
        machine.broker = broker
        if broker not in isr and machine.condition in (UNSURE, ABSENT):
            machine.condition = OUTSIDE
        if broker in isr and machine.condition is OUTSIDE:
            machine.condition = UNSURE
    it = cluster(*found, isr=sorted(isr))
    it.permitted = permitted
    for broker in order:
        if it.machines[broker].alive and isinstance(it.decide(broker), PublishStatement):
            it.say(broker)
    sure = [
        m.broker
        for m in found
        if m.alive and m.broker in isr and m.condition is not DAMAGED and (m.sure or m.age == 0)
    ]
    standing = it.standing()
    assert not any(isinstance(it.decide(m.broker), Follow) for m in found if m.alive)
    if sure:
        assert {broker for broker, stand in standing.items() if not stand.unclean} == set(sure)
        assert not any(stand.unclean for stand in standing.values())
    elif not permitted:
        assert len(standing) <= 1
