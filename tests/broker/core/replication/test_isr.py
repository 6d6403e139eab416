"""Membership of the ISR: late replicas, those that may join or return, and the members that count during a
change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.broker.core.replication.isr import InSyncReplicas, Progress, is_late, may_join, why_changed
from strandline.broker.core.replication.returns import CALM_S, PAUSE_S, PAUSE_S_MAX, Returns
from strandline.ids import BrokerEpoch, BrokerId, Offset
from strandline.vocabulary.metadata import Endpoint, IsrMember, Registration
from tests.broker.core.replication.test_leader_partition import Driver, alive


def member(broker: int, epoch: int) -> IsrMember:
    return IsrMember(BrokerId(broker), BrokerEpoch(epoch))


def registration(broker: int, epoch: int, *, shutting_down: bool = False) -> Registration:
    return Registration(Endpoint(broker, "h", 1), BrokerEpoch(epoch), shutting_down)


def progress(epoch: int | None, end: int, *, behind_since: float | None = None, target: int = 0) -> Progress:
    return Progress(None if epoch is None else BrokerEpoch(epoch), Offset(end), Offset(target), behind_since)


LIVE = {BrokerId(2): registration(2, 20)}


def test_a_member_is_late_after_keep_in_sync_time_and_not_before() -> None:
    """Kafka's design V3: offsetReached within KeepInSyncTime."""
    behind = progress(20, 5, behind_since=10.0, target=8)
    assert not is_late(member(2, 20), behind, LIVE, now=10.9, keep_in_sync_s=1.0)
    assert is_late(member(2, 20), behind, LIVE, now=11.0, keep_in_sync_s=1.0)


def test_a_member_that_has_everything_is_never_late() -> None:
    assert not is_late(member(2, 20), progress(20, 8), LIVE, now=1e9, keep_in_sync_s=1.0)


@pytest.mark.parametrize("live", [{}, {BrokerId(2): registration(2, 21)}])
def test_a_member_that_died_or_lives_again_is_late_at_once(live: dict[BrokerId, Registration]) -> None:
    """CORRECTNESS E4, I6: another life of the broker is not the one that joined."""
    assert is_late(member(2, 20), progress(20, 8), live, now=0.0, keep_in_sync_s=1.0)


@pytest.mark.parametrize(
    ("follower", "who", "joins"),
    [
        (progress(20, 10), registration(2, 20), True),
        (progress(20, 9), registration(2, 20), False),  # below the HW
        (progress(20, 10), registration(2, 21), False),  # fetched in an earlier life (I6)
        (progress(None, 10), registration(2, 20), False),  # did not fetch in this epoch (I1, I2)
        (progress(20, 10), registration(2, 20, shutting_down=True), False),  # I7
        (progress(20, 10), None, False),
    ],
)
def test_a_follower_joins_only_at_the_watermark_in_its_present_life(
    follower: Progress, who: Registration | None, joins: bool
) -> None:
    """CORRECTNESS I1, I2, I6, I7."""
    assert may_join(follower, who, Offset(10), Offset(4)) is joins


def test_a_follower_joins_only_above_the_start_of_the_epoch() -> None:
    """CORRECTNESS I1: the new leader's own HW may be stale; its LEO at election is not."""
    assert not may_join(progress(20, 10), registration(2, 20), Offset(5), Offset(11))


def test_a_target_that_was_reached_is_replaced_and_the_clock_starts_again() -> None:
    """Kafka's design V3: each request has KeepInSyncTime of its own; a follower that keeps up is never
    late."""
    behind = progress(20, 0, behind_since=1.0, target=5)
    behind.note_position(Offset(3), Offset(20), now=1.5)
    assert (behind.target, behind.behind_since) == (5, 1.0)
    behind.note_position(Offset(5), Offset(20), now=1.9)
    assert (behind.target, behind.behind_since) == (20, 1.9)
    behind.note_position(Offset(20), Offset(20), now=2.0)
    assert behind.behind_since is None


def test_while_a_change_is_under_way_both_memberships_count() -> None:
    """CORRECTNESS H3: the maximal ISR."""
    isr = InSyncReplicas((member(1, 10), member(2, 20)), version=4)
    isr.propose((member(1, 10), member(3, 30)))
    assert isr.maximal() == {1, 2, 3}
    assert 3 not in isr
    isr.settle((member(1, 10), member(3, 30)), version=5)
    assert isr.maximal() == {1, 3}
    assert 3 in isr


def test_only_one_change_is_under_way() -> None:
    """CORRECTNESS I5."""
    isr = InSyncReplicas((member(1, 10),), version=4)
    isr.propose((member(1, 10), member(3, 30)))
    with pytest.raises(AssertionError, match="under way"):
        isr.propose((member(1, 10),))


def test_a_change_has_a_reason_for_each_member() -> None:
    """USERS 21: the reason in the record distinguishes a death from a restart, slowness and a
    reassignment."""
    before = tuple(IsrMember(BrokerId(b), BrokerEpoch(b * 10)) for b in (1, 2, 3, 4, 5, 7))
    after = (before[0], IsrMember(BrokerId(6), BrokerEpoch(60)))
    live = {
        BrokerId(b): Registration(Endpoint(b, "h", 1), BrokerEpoch(epoch))
        for b, epoch in ((1, 10), (3, 31), (4, 40), (5, 50), (6, 60), (7, 70))
    }
    assert why_changed(
        before, after, live, {BrokerEpoch(70)}, lambda broker: "is closed" if broker == 4 else None
    ) == (
        "broker 2 is gone, broker 3 came back in another life, broker 4 is closed, broker 5 is late, "
        "broker 7 does not answer, broker 6 caught up"
    )


# --- returns ---------------------------------------------------------------------------------

THIRD, LIFE = BrokerId(3), BrokerEpoch(30)
FLAPPING = IsrMember(THIRD, LIFE)


def test_the_first_absence_costs_nothing_and_each_further_one_twice_as_much() -> None:
    returns, now, waits = Returns(), 0.0, []
    for _ in range(7):
        returns.left(FLAPPING, now)
        returns.left(FLAPPING, now + 0.5)  # the write is repeated
        waits.append(returns.earliest(THIRD, LIFE) - now)
        now = returns.earliest(THIRD, LIFE) + 1.0
        returns.returned(FLAPPING, now)
        now += 1.0
    assert waits == [0.0, PAUSE_S, 2.0, 4.0, 8.0, PAUSE_S_MAX, PAUSE_S_MAX]


def test_calm_and_another_life_begin_anew() -> None:
    returns = Returns()
    for now in (0.0, 2.0):
        returns.left(FLAPPING, now)
        returns.returned(FLAPPING, now + 1.0)
    returns.left(FLAPPING, 3.0 + CALM_S)
    assert returns.earliest(THIRD, LIFE) == 3.0 + CALM_S
    assert returns.earliest(THIRD, BrokerEpoch(31)) < 0.0
    assert returns.earliest(BrokerId(2), BrokerEpoch(20)) < 0.0


def test_a_life_that_was_refused_does_not_keep_the_next_one_out() -> None:
    """CORRECTNESS I7: the next life fetches before it is known that the write with the earlier one failed."""
    driver = Driver(isr=(1, 2))
    driver.fetched(2, 0)
    driver.answer = False
    driver.fetched(3, 0)
    (write,) = driver.writes
    assert write.entering == (member(3, 30),)
    next_life = {BrokerId(3): registration(3, 31)}
    driver.partition.live_changed(alive(1, 2) | next_life)
    driver.partition.fetched(BrokerId(3), BrokerEpoch(31), Offset(0), 0.0)
    driver.partition.join_refused(member(3, 30))
    driver.answer = True
    driver.partition.isr_read(replace(write.state, isr=(member(1, 10), member(2, 20))), write.version)
    driver.turn(0.0)
    assert driver.partition.state.isr_ids == (1, 2, 3)


class Flapping(Driver):
    """A leader with a follower that hangs, and answers again, at these times."""

    def hang(self, now: float) -> None:
        self.partition.live_changed(alive(1, 2, 3), silent={LIFE})
        self.turn(now)

    def answer_again(self, now: float) -> None:
        self.partition.live_changed(alive(1, 2, 3))
        self.turn(now)


def flapping() -> Flapping:
    """The follower has hung twice."""
    driver = Flapping()
    for broker in (2, 3):
        driver.fetched(broker, 0)
    driver.hang(1.0)
    driver.answer_again(2.0)
    assert [w.joined for w in driver.writes] == [(), (3,)]
    driver.hang(3.0)
    return driver


def test_a_follower_that_flaps_is_taken_back_when_its_time_has_come() -> None:
    """CORRECTNESS E19, I10: and not at each of its answers. The leader wakes up for it."""
    driver = flapping()
    driver.answer_again(3.1)
    driver.fetched(3, 0, now=3.9)
    assert THIRD not in driver.partition.state.isr_ids
    assert driver.partition.next_wakeup() == 3.0 + PAUSE_S
    driver.turn(3.0 + PAUSE_S)
    assert THIRD in driver.partition.state.isr_ids
    assert driver.partition.next_wakeup() is None


def test_one_that_cannot_return_yet_wakes_nobody() -> None:
    driver = flapping()
    assert driver.partition.next_wakeup() is None
    driver.turn(30.0)
    assert driver.partition.next_wakeup() is None


def test_a_follower_that_is_needed_is_taken_back_at_once() -> None:
    """CORRECTNESS H5: without it nothing would commit, or there would be one copy only."""
    for min_insync, members in ((3, (1, 2, 3)), (1, (1, 3))):
        driver = Flapping(min_insync=min_insync, isr=members)
        for broker in members[1:]:
            driver.fetched(broker, 0)
        for now in (1.0, 3.0, 5.0):
            driver.partition.live_changed(alive(*(each for each in members if each != 3)))
            driver.turn(now)
            assert 3 not in driver.partition.state.isr_ids
            driver.answer_again(now + 0.1)
            assert driver.partition.state.isr_ids == members


def test_a_member_that_is_silent_and_stays_for_the_bound_alone_keeps_nobody_waiting() -> None:
    """CORRECTNESS H5: nothing commits before another one is in sync in its place."""
    driver = Flapping()
    for broker in (2, 3):
        driver.fetched(broker, 0)
    driver.hang(1.0)
    driver.answer_again(2.0)
    driver.hang(3.0)
    driver.partition.live_changed(alive(1, 2, 3), silent={BrokerEpoch(20)})
    driver.turn(3.1)
    assert driver.partition.state.isr_ids == (1, 3)
