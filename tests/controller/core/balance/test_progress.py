"""How far a balance is, and what begins next."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from strandline.config.limits import BALANCE_REASONS_BYTES_MAX
from strandline.controller.core.balance.progress import PROBLEMS_MAX, describe, next_step, settled
from strandline.controller.core.survey import Survey, SurveyedPartition
from strandline.ids import BrokerId, TopicId, TopicPartition
from strandline.vocabulary.admin import BalanceDescription
from strandline.vocabulary.metadata import Balance, BalanceMove, BalanceState, Drain
from tests.controller.core.support.surveys import TOPIC_ID, has_nothing, leads_nothing, partition, survey

MOVING_MAX = 2


def move(
    number: int, before: Sequence[int], after: Sequence[int], topic_id: TopicId = TOPIC_ID
) -> BalanceMove:
    name = TopicPartition("t", number)
    return BalanceMove(name, topic_id, tuple(map(BrokerId, before)), tuple(map(BrokerId, after)))


def running(*moves: BalanceMove, state: BalanceState = BalanceState.RUNNING) -> Balance:
    return Balance(state, moves, len(moves))


def after(balance: Balance, seen: Survey) -> Balance:
    return settled(balance, next_step(balance.moves, seen, moving_max=MOVING_MAX))


def described(balance: Balance, seen: Survey, *held_by: int) -> BalanceDescription:
    step = next_step(balance.moves, seen, moving_max=MOVING_MAX)
    return describe(settled(balance, step), step, set(map(BrokerId, held_by)))


def counts(of: BalanceDescription) -> tuple[int, int, int, int]:
    return of.done, of.moving, of.left, of.skipped


MOVES = (move(0, (1, 2), (3, 2)), move(1, (1, 2), (3, 2)), move(2, (2, 1), (3, 1)), move(3, (1, 2), (2, 1)))


def test_a_few_moves_begin_at_a_time_in_their_order() -> None:
    seen = survey(*(partition(each.name.partition, each.before) for each in MOVES))
    step = next_step(MOVES, seen, moving_max=MOVING_MAX)
    assert list(step.begin) == [*MOVES[:2]]
    by_hand = survey(*seen.partitions, partition(9, (1,), to=(2,)), partition(8, (1,), to=(2,)))
    assert next_step(MOVES, by_hand, moving_max=MOVING_MAX).begin == []
    assert next_step(MOVES, by_hand, moving_max=1).begin == []


def test_what_is_complete_stays_so_whatever_moves_it_on() -> None:
    seen = survey(partition(0, (3, 2)), partition(1, (1, 2), to=(3, 2)), *map(planned, MOVES[2:]))
    balance = after(running(*MOVES), seen)
    assert (balance.moves, balance.done, balance.state) == (MOVES[1:], 1, BalanceState.RUNNING)
    drained = survey(partition(0, (2, 1)), *seen.partitions[1:])
    assert counts(described(balance, drained)) == (1, 1, 2, 0)
    ended = after(balance, survey(*(partition(each.name.partition, each.after) for each in MOVES)))
    assert (ended.state, ended.moves, ended.done) == (BalanceState.COMPLETED, (), 4)


def planned(each: BalanceMove) -> SurveyedPartition:
    return partition(each.name.partition, each.before)


def test_the_reasons_of_skipped_moves_are_kept_after_the_end() -> None:
    other = move(1, (1, 2), (3, 2), TopicId("b" * 32))
    balance = after(running(MOVES[0], other), survey(partition(0, (1, 3)), partition(1, (1, 2))))
    assert (balance.state, balance.skipped) == (BalanceState.COMPLETED, 2)
    said = ("t-0 was moved to 1, 3 by others", "t-1 was deleted")
    assert described(balance, survey(partition(0, (3, 2)))).skipped_because == said


def test_reasons_have_a_bound_and_the_others_are_counted() -> None:
    moves = [move(number, (1, 2), (3, 2)) for number in range(5_000)]
    balance = after(running(*moves), Survey({}, (), {}, {}, ()))
    assert sum(map(len, balance.reasons)) <= BALANCE_REASONS_BYTES_MAX
    because = described(balance, survey()).skipped_because
    assert (because[0], because[-1]) == ("t-0 was deleted", "4900 more moves were skipped")
    balance = after(running(*moves[: PROBLEMS_MAX + 1]), Survey({}, (), {}, {}, ()))
    assert described(balance, survey()).skipped_because[-1] == "1 more move was skipped"


def test_a_partition_of_a_topic_that_is_there_is_not_taken_for_deleted() -> None:
    """It is being deleted, or an operator repairs its znodes."""
    (problem,) = described(running(MOVES[0]), survey()).problems
    assert problem == "t-0 waits: it is being deleted, or ZooKeeper has it damaged"
    assert after(running(MOVES[0]), survey()).moves == MOVES[:1]


def test_nothing_begins_to_a_broker_that_is_drained() -> None:
    seen = survey(*map(planned, MOVES), drains={3: has_nothing(3)})
    step = next_step(MOVES, seen, moving_max=MOVING_MAX)
    assert list(step.begin) == [MOVES[3]]
    assert step.skipped == [f"t-{number} stays: the replicas of broker 3 are drained" for number in (0, 1, 2)]
    assert step.in_doubt == []


@pytest.mark.parametrize(
    ("drain", "live"), [(leads_nothing(3), (1, 2, 3)), (None, (1, 2))], ids=["drained", "dead"]
)
def test_a_move_waits_for_a_broker_that_may_take_replicas_again(
    drain: Drain | None, live: Sequence[int]
) -> None:
    seen = survey(planned(MOVES[0]), live=live, dead=(3,), drains={} if drain is None else {3: drain})
    step = next_step(MOVES[:1], seen, moving_max=MOVING_MAX)
    assert (step.begin, step.skipped, list(step.waiting)) == ([], [], [MOVES[0]])
    assert step.problems[0].startswith("t-0 waits: broker 3 can get no replicas now")


def test_a_balance_says_which_drain_holds_it() -> None:
    seen = survey(*map(planned, MOVES))
    held = "no move begins while the drain of broker 1, 2 moves leaderships or replicas"
    assert described(running(*MOVES), seen, 2, 1).problems == (held,)
    assert described(running(*MOVES), seen).problems == ()
    moving = survey(partition(0, (1, 2), to=(3, 2)))
    assert described(running(MOVES[0]), moving, 2).problems == (), "nothing is left to begin"


def test_a_move_under_way_says_what_it_waits_for() -> None:
    dead = survey(partition(0, (1, 2), to=(3, 2)), live=(1, 2))
    assert described(running(MOVES[0]), dead).problems == ("t-0 waits: not alive: broker 3",)
    unled = survey(partition(0, (1, 2), [1], to=(3, 2)), live=(2, 3), dead=(1,))
    assert described(running(MOVES[0]), unled).problems == (
        "t-0 waits: it has no leader; in sync was broker 1",
    )


def test_of_a_cancelled_balance_those_moves_stay_that_are_under_way() -> None:
    seen = survey(partition(0, (3, 2)), partition(1, (1, 2), to=(3, 2)), *map(planned, MOVES[2:]))
    cancelled = after(running(*MOVES, state=BalanceState.CANCELLED), seen)
    assert cancelled.moves == MOVES[1:2]
    assert counts(described(cancelled, seen)) == (1, 1, 2, 0)
    taken_back = survey(partition(0, (2, 1)), *map(planned, MOVES[1:]))
    ended = after(cancelled, taken_back)
    assert (ended.state, ended.moves, ended.done, ended.skipped) == (BalanceState.CANCELLED, (), 1, 0)
