"""Heartbeats of a member whose coordinator assigns: in full until one is answered, then short and held."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.config.consumer import ConsumerSettings
from strandline.consumer.core.assigned.schedule import AssignedSchedule
from strandline.consumer.core.heartbeat import Beat, LeaveOverdue, News, Refused, SendHeartbeat, Wait
from strandline.errors import LeaderHint, NotCoordinator, OutcomeUnknown
from strandline.ids import PartitionId, PartitionKey, TopicId
from strandline.vocabulary.groups import ConsumerBeat, ConsumerHeartbeat

FULL = ConsumerHeartbeat("g", "m", 0, None, None, 60_000, ("t",), None, None, ())
KEY = PartitionKey(TopicId("a" * 32), PartitionId(0))
OTHER = PartitionKey(TopicId("a" * 32), PartitionId(1))
LOST = OutcomeUnknown("no answer")


def joining(**settings: object) -> AssignedSchedule:
    given = {"group_id": "g", "max_poll_interval_ms": 60_000, "retry_backoff_ms": 125, **settings}
    made = AssignedSchedule("g", ConsumerSettings.model_validate(given))
    made.aim("a:1", 0)
    made.say(FULL, 0, 0)
    return made


def sent(made: AssignedSchedule, now: float) -> SendHeartbeat:
    todo = made.next(now, polled=True)
    assert isinstance(todo, SendHeartbeat)
    return todo


def joined(**settings: object) -> AssignedSchedule:
    made = joining(**settings)
    sent(made, 0)
    made.ended(ConsumerBeat("m", 3, 5_000, (KEY,)), 0)
    return made


def short(epoch: int, wait_ms: int = 5_000) -> ConsumerHeartbeat:
    return ConsumerHeartbeat("g", "m", epoch, max_wait_ms=wait_ms)


def test_a_member_joins_at_once_and_then_its_heartbeats_are_held() -> None:
    made = joining()
    assert sent(made, 0).request == FULL
    answer = ConsumerBeat("m", 3, 5_000, (KEY,))
    assert made.ended(answer, 0.1) == News(Beat("m", 0), answer)
    held = sent(made, 0.1)
    assert held.request == short(3)
    assert held.timeout_s == 10
    assert made.ended(ConsumerBeat("m", 3, 5_000), 5.1) is None
    assert sent(made, 5.1).request == short(3)


def test_an_answer_that_comes_early_without_news_is_no_reason_to_hurry() -> None:
    made = joined()
    sent(made, 1)
    made.ended(ConsumerBeat("m", 3, 5_000), 1.5)
    assert made.next(2, polled=True) == Wait(4)


def test_an_answer_that_says_that_there_is_news_is_asked_for_it_at_once() -> None:
    made = joined()
    sent(made, 1)
    assert made.ended(ConsumerBeat("m", 3, 0), 2) is None
    assert sent(made, 2).request == short(3)


def test_a_new_epoch_counts_for_the_next_heartbeat_though_the_loop_is_blocked() -> None:
    made = joined()
    sent(made, 1)
    news = made.ended(ConsumerBeat("m", 4, 5_000), 2)
    assert isinstance(news, News)
    assert sent(made, 2).request == short(4)


def test_what_is_said_cuts_the_heartbeat_that_is_held_and_names_the_last_epoch() -> None:
    made = joined()
    sent(made, 1)
    news = replace(FULL, epoch=2, owned=(KEY,))
    made.say(news, 1, 2)
    assert made.cut
    assert made.ended(LOST, 2) is None
    assert sent(made, 2).request == replace(news, epoch=3)


def test_a_failed_heartbeat_is_said_again_in_full_after_a_growing_pause() -> None:
    made = joined()
    first = sent(made, 1)
    assert made.ended(LOST, 2) == Refused(first.beat, "a:1", LOST)
    assert made.next(2, polled=True) == Wait(0.125)
    assert sent(made, 2.125).request == replace(FULL, epoch=3, owned=(KEY,))
    made.ended(LOST, 3)
    assert made.next(3, polled=True) == Wait(0.25)


def test_a_new_coordinator_hears_everything() -> None:
    made = joined()
    sent(made, 1)
    made.aim("b:2", 2)
    assert made.cut and made.ended(LOST, 2) is None
    again = sent(made, 2)
    assert (again.address, again.request) == ("b:2", replace(FULL, epoch=3, owned=(KEY,)))


def test_what_a_member_was_given_since_it_spoke_is_not_given_up_by_a_repetition() -> None:
    """G24: the member takes what it is given without a word, and what a heartbeat leaves out is given up."""
    made = joined()
    made.say(replace(FULL, epoch=3, owned=(KEY,)), 1, 1)
    sent(made, 1)
    made.ended(ConsumerBeat("m", 4, 5_000, (KEY, OTHER)), 2)
    sent(made, 2)
    made.ended(LOST, 3)
    assert sent(made, 4).request == replace(FULL, epoch=4, owned=(KEY, OTHER))
    made.ended(LOST, 5)
    made.say(replace(FULL, epoch=4, owned=(KEY,)), 2, 6)
    assert sent(made, 6).request == replace(FULL, epoch=4, owned=(KEY,)), "it has released the other one"


def test_what_is_said_before_an_answer_is_heard_gives_up_nothing_of_that() -> None:
    """G24: the answer is on its way from the thread of the heartbeats to the member."""
    made = joined()
    sent(made, 1)
    made.ended(ConsumerBeat("m", 4, 5_000, (KEY, OTHER)), 2)
    made.say(replace(FULL, epoch=3, topics=("t", "u"), owned=(KEY,)), 1, 2)
    assert sent(made, 2).request == replace(FULL, epoch=4, topics=("t", "u"), owned=(KEY, OTHER))


def test_a_member_that_joins_again_has_nothing() -> None:
    made = joined()
    made.stop()
    made.say(FULL, 1, 2)
    assert sent(made, 2).request == FULL


def test_a_coordinator_that_names_another_is_left_for_it() -> None:
    made = joined()
    sent(made, 1)
    made.ended(NotCoordinator("moved", leader=LeaderHint(2, "b", 2, 7)), 1)
    assert sent(made, 2).address == "b:2"


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_an_overdue_member_leaves_and_says_nothing_until_it_joins_again(
    instance: str | None, epoch: int
) -> None:
    made = joined(group_instance_id=instance)
    todo = made.next(100, polled=False)
    assert isinstance(todo, LeaveOverdue)
    assert todo.request == ConsumerHeartbeat("g", "m", epoch, instance)
    made.say(replace(FULL, epoch=3, owned=(KEY,)), 1, 100)
    assert made.next(100, polled=True) == Wait(None)
    made.say(replace(FULL, member="n"), 1, 101)
    assert sent(made, 101).request == replace(FULL, member="n")


def test_nothing_is_said_after_the_end() -> None:
    made = joined()
    made.close()
    made.say(FULL, 1, 1)
    assert made.next(1, polled=True) == Wait(None)
