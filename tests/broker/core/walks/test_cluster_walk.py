"""A whole partition, at random: no acknowledged record is ever lost (DESIGN §4, "Election").

The brokers, ZooKeeper and the network are models around the real cores (tests/simulation). The same
walk with one rule broken finds a violation: so the walk would notice.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from strandline.ids import BrokerId
from tests.simulation.rules import Rule
from tests.simulation.script import Script
from tests.simulation.truth import Violation
from tests.simulation.walk import Walk

WALKS_KNOWN = 160
"""From seeds that are the same in each run."""
WALKS_DRAWN = 80
"""From seeds that no run had before; a failure says which."""
STEPS_TRIED = 3_000
"""In one walk; what is impossible at the moment is skipped and not counted."""
WALKS_TO_NOTICE_MAX = 200

FOUND_BY_WALKING = (
    Rule.TRUNCATE_BY_EPOCH,
    Rule.WRITE_EPOCH_AT_ELECTION,
    Rule.CHECK_AT_EACH_EPOCH,
    Rule.CUT_BEFORE_WATERMARK,
    Rule.WRITE_ISR_FIRST,
    Rule.ENOUGH_IN_SYNC,
    Rule.QUEUE_DIES_WITH_EPOCH,
    Rule.REACH_EPOCH_START,
    Rule.COMPARE_AND_SET,
    Rule.LIVES_END_WITH_POWER,
)


def test_no_walk_loses_acknowledged_records(record_property: Callable[[str, object], None]) -> None:
    """CORRECTNESS T1, T2, T3, T5, T10, T11, H1, H2, H3, H5, H6, H10, I1, I2, I4, I6, I8, E1, E2, E4, E7.

    Crashes with and without the page cache, pauses, late expiries, take-overs with the old leader
    alive, handovers, broken and clogged streams, lost replies of ZooKeeper; then all heals, and the
    partition serves with every replica in sync.
    """
    steps = committed = elections = 0
    drawn = random.SystemRandom().randrange(1 << 48)
    seeds = (*range(WALKS_KNOWN), *range(drawn, drawn + WALKS_DRAWN))
    for seed in seeds:
        try:
            walked = Walk(seed, steps=STEPS_TRIED).run()
        except Violation as violation:
            again = f"Walk({seed}, steps={STEPS_TRIED}).run()"
            raise AssertionError(f"walk {seed}: {violation}\nonce more: {again}") from violation
        steps += walked.steps
        committed += walked.committed
        elections += walked.elections
    for name, value in (("steps", steps), ("committed", committed), ("elections", elections)):
        record_property(name, value)
    print(
        f"{len(seeds)} walks, {WALKS_DRAWN} of them from {drawn} on: {steps} steps, "
        f"{committed} records committed in {elections} leaderships"
    )
    assert steps > 100_000
    assert committed > 10_000
    assert elections > 500


@pytest.mark.parametrize("broken", FOUND_BY_WALKING, ids=lambda rule: rule.name)
def test_a_walk_without_one_rule_finds_a_violation(broken: Rule) -> None:
    """CORRECTNESS T1, T2, T4, T5, T10, H3, H5, H6, I1, I3, E2: each of these rules is needed, and the walk
    notices its absence."""
    for seed in range(WALKS_TO_NOTICE_MAX):
        try:
            Walk(seed, steps=STEPS_TRIED, broken=broken).run()
        except Violation as violation:
            print(f"{broken.name}, walk {seed}: {str(violation)[:160]}")
            return
    pytest.fail(f"{WALKS_TO_NOTICE_MAX} walks without the rule {broken.value!r} found nothing wrong")


# --- schedules that are too rare to wait for ----------------------------------------------------


def fast_double_failover(broken: Rule | None) -> None:
    """Two elections in which each leader lacks what the other one wrote (KIP-279)."""
    script = Script(broken)
    script.stream(2, 1).clogged = True
    script.produce(1, 2)
    script.settle()  # 3 has them, 2 has not
    script.elect(2, instead_of=1)
    script.produce(2, 2)  # no other replica gets these
    script.elect(3, expired=2)
    script.follow(2)
    script.settle()
    script.follow(1)
    script.settle()
    assert script.world.zookeeper.state.isr_ids == (1, 2, 3)
    assert len(script.world.truth.committed) == 4


def position_of_an_earlier_epoch(broken: Rule | None) -> None:
    """A leader wins again, and reads what a follower reported in its first epoch and has truncated since."""
    script = Script(broken)
    script.stream(3, 1).clogged = True
    script.produce(1, 1)
    late = script.stream(2, 1)
    script.process(1).server.push(late, 8)
    script.process(2).receive(late)
    late.clogged = True  # 2 reports that it has the record; 1 does not receive it yet
    _third_takes_over_and_first_wins_again(script)
    script.produce(1, 1)
    while late.up:
        script.process(1).server.read(late)


def push_of_an_earlier_subscription(broken: Rule | None) -> None:
    """A leader wins again, and a follower reads what was pushed in the first epoch and is gone since."""
    script = Script(broken)
    script.stream(3, 1).clogged = True
    script.produce(1, 1)
    late = script.stream(2, 1)
    script.process(1).server.push(late, 8)
    late.clogged = True  # 2 does not read the record yet
    _third_takes_over_and_first_wins_again(script)
    script.follow(2)
    while late.up:
        script.process(1).server.read(late)
    script.produce(1, 1)
    script.process(1).server.push(late, 8)
    script.process(2).receive(late)
    while late.up:
        script.process(1).server.read(late)


def _third_takes_over_and_first_wins_again(script: Script) -> None:
    script.elect(3, instead_of=1)
    for follower in (1, 2):
        script.follow(follower)
    script.settle()
    assert set(script.world.zookeeper.state.isr_ids) == {1, 2, 3}
    script.elect(1, instead_of=3)


def position_of_a_life_before(broken: Rule | None) -> None:
    """A follower loses its power, and the leader reads afterwards what the lost life reported."""
    script = _second_notified_and_lost_its_power(broken, lives_again_before_reading=False)
    assert 2 not in script.world.zookeeper.state


def position_of_a_life_before_read_last(broken: Rule | None) -> None:
    """The same, after the next life is a member of the ISR already."""
    script = _second_notified_and_lost_its_power(broken, lives_again_before_reading=True)
    assert 2 in script.world.zookeeper.state


def _second_notified_and_lost_its_power(broken: Rule | None, *, lives_again_before_reading: bool) -> Script:
    script = Script(broken)
    world, machine = script.world, script.world.machines[script.world.assigned[1]]
    script.produce(1, 1)
    late = script.stream(2, 1)
    script.process(1).server.push(late, 8)
    script.process(2).receive(late)
    late.clogged = True
    if lives_again_before_reading:
        script.stream(3, 1).clogged = True
    world.lose_power(machine, 2)
    world.start(machine)
    script.process(2).register()
    script.process(1).look_at_the_living()
    script.settle()
    if lives_again_before_reading:
        script.follow(2)
        script.process(1).server.read(script.stream(2, 1))
        script.answer_all()
        script.stream(3, 1).clogged = False
        script.process(1).server.push(script.stream(3, 1), 8)
        while script.stream(3, 1).down:
            script.process(3).receive(script.stream(3, 1))
        while script.stream(3, 1).up:
            script.process(1).server.read(script.stream(3, 1))
    while late.up:
        script.process(1).server.read(late)
    script.answer_all()
    return script


def deposed_without_traffic(broken: Rule | None) -> None:
    """The port of a leader refuses another replica, and there is no traffic: how would the leader learn of it
    before it misses its followers?"""
    script = Script(broken)
    script.elect(2, instead_of=1)
    script.follow(3)
    script.settle()
    script.process(1).look_if_notified()
    if script.process(1).leadership is not None:
        raise Violation("E1: a leader was deposed, and does not know it")
    script.heal()


def suspected_by_one_that_is_not_in_sync(broken: Rule | None) -> None:
    """It may not stand, and it does not follow whom it suspects; then the suspicion is over."""
    script = Script(broken)
    script.stream(3, 1).clogged = True
    script.produce(1, 1)
    script.settle()
    script.pass_time(1)
    script.elect(2, expired=1)
    script.process(3).suspect(BrokerId(2))
    script.process(3).look_if_notified()
    assert script.process(3).leader_epoch == script.world.zookeeper.state.leader_epoch
    script.heal()


def led_again_by_one_that_is_suspected(broken: Rule | None) -> None:
    """As above, and the flow of the suspect's first epoch still seems open."""
    script = Script(broken)
    script.stream(3, 1).clogged = True
    script.produce(1, 1)
    script.settle()
    script.pass_time(1)
    script.elect(2, expired=1)
    script.follow(1)
    script.settle()
    script.elect(1, expired=2)
    script.process(3).suspect(BrokerId(1))
    script.process(3).look_if_notified()
    assert script.process(3).leader_epoch == script.world.zookeeper.state.leader_epoch
    script.heal()


RARE = {
    Rule.ASK_UNTIL_EPOCHS_AGREE: fast_double_failover,
    Rule.COUNT_ONLY_THIS_EPOCH: position_of_an_earlier_epoch,
    Rule.DROP_OTHER_SUBSCRIPTIONS: push_of_an_earlier_subscription,
    Rule.POSITION_OF_THIS_LIFE: position_of_a_life_before,
    Rule.TELL_THE_DEPOSED: deposed_without_traffic,
    Rule.PROBE_SUSPECTS_AGAIN: suspected_by_one_that_is_not_in_sync,
}


@pytest.mark.parametrize(
    "schedule",
    [
        *RARE.values(),
        position_of_a_life_before_read_last,
        led_again_by_one_that_is_suspected,
    ],
    ids=lambda schedule: schedule.__name__,
)
def test_no_rare_schedule_loses_acknowledged_records(schedule: Callable[[Rule | None], None]) -> None:
    """CORRECTNESS T3, T5, T6, T7, H2, H10, I2, I6, E1, E4."""
    schedule(None)


@pytest.mark.parametrize("broken", RARE, ids=lambda rule: rule.name)
def test_a_rare_schedule_without_its_rule_violates_it(broken: Rule) -> None:
    """CORRECTNESS T3, T6, H2, I6, E1: the schedules above show what these rules are for."""
    with pytest.raises(Violation):
        RARE[broken](broken)


def test_every_rule_is_broken_somewhere() -> None:
    """CONTRIBUTING 11: a rule that is never broken on purpose is not known to be tested."""
    assert {*FOUND_BY_WALKING, *RARE} == set(Rule)
