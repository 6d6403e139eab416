"""The schedule of heartbeats: paced, for the current generation, until the application is overdue (G8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.config.consumer import ConsumerSettings
from strandline.consumer.core.heartbeat import (
    Beat,
    HeartbeatSchedule,
    LeaveOverdue,
    Overdue,
    Refused,
    SendHeartbeat,
    Wait,
)
from strandline.errors import LeaderHint, NotCoordinator, OutcomeUnknown, RebalanceInProgress
from strandline.vocabulary.groups import Heartbeat, Joined, LeaveGroup, LeavingMember, MemberIdGiven

BEAT = Beat("m", 1)
LOST = OutcomeUnknown("no answer")

Change = Callable[[HeartbeatSchedule], None]


def schedule(**settings: object) -> HeartbeatSchedule:
    """Of a member that knows its coordinator, but has not joined."""
    given = {"heartbeat_interval_ms": 1_000, "max_poll_interval_ms": 10_000, **settings}
    made = HeartbeatSchedule("g", ConsumerSettings.model_validate({"group_id": "g", **given}))
    made.aim("a:1", 0)
    return made


def beating(**settings: object) -> HeartbeatSchedule:
    made = schedule(**settings)
    made.start(BEAT, 0)
    return made


def sent(made: HeartbeatSchedule, now: float, *, polled: bool = True) -> SendHeartbeat:
    todo = made.next(now, polled=polled)
    assert isinstance(todo, SendHeartbeat)
    return todo


def test_the_first_heartbeat_is_due_at_once_and_the_next_after_the_interval() -> None:
    made = beating()
    todo = sent(made, 0)
    assert todo.request == Heartbeat("g", "m", 1, None, 1_000)
    assert (todo.beat, todo.address) == (BEAT, "a:1")
    assert made.ended(None, 0) is None
    assert made.next(0.25, polled=True) == Wait(0.75)
    assert sent(made, 1).beat == BEAT


def test_a_heartbeat_without_an_answer_ends_after_half_a_session() -> None:
    made = beating(session_timeout_ms=6_000, request_timeout_ms=30_000)
    assert sent(made, 0).timeout_s == 1 + 3


def test_nothing_is_sent_before_the_coordinator_is_known() -> None:
    made = HeartbeatSchedule("g", ConsumerSettings(group_id="g", max_poll_interval_ms=10_000))
    made.start(BEAT, 0)
    assert made.next(4, polled=False) == Wait(6)
    made.aim("b:2", 5)
    assert sent(made, 5).address == "b:2"


def test_nothing_is_sent_before_a_start_and_after_a_stop() -> None:
    made = schedule()
    assert made.next(0, polled=False) == Wait(None)
    made.start(BEAT, 0)
    made.stop()
    assert made.next(0, polled=False) == Wait(None) and not made.beating


def test_a_new_generation_is_due_at_once_and_the_same_one_changes_nothing() -> None:
    made = beating()
    _ = sent(made, 0)
    made.start(BEAT, 0.5)
    assert made.ended(None, 0) is None
    assert made.next(0.5, polled=True) == Wait(0.5)
    made.start(Beat("m", 2), 0.5)
    assert sent(made, 0.5).beat == Beat("m", 2)


def test_an_application_is_overdue_after_max_poll_interval() -> None:
    made = beating()
    _ = sent(made, 0)
    _ = made.ended(None, 0)
    todo = made.next(10, polled=False)
    leave = LeaveGroup("g", (LeavingMember("m", None, "no get call within max_poll_interval_ms=10000"),))
    assert isinstance(todo, LeaveOverdue)
    assert (todo.report, todo.address, todo.request) == (Overdue(BEAT, 10), "a:1", leave)
    assert made.next(11, polled=True) == Wait(None), "the next join starts again"
    made.start(Beat("n", 4), 12)
    assert sent(made, 21, polled=False).beat == Beat("n", 4), "the interval begins with the start"


def test_a_get_call_restarts_the_interval() -> None:
    made = beating()
    _ = sent(made, 9.5)
    _ = made.ended(None, 0)
    assert made.next(10.25, polled=False) == Wait(0.25)
    _ = sent(made, 19, polled=False)
    assert made.ended(None, 0) is None
    assert isinstance(made.next(19.5, polled=False), LeaveOverdue)


def test_a_heartbeat_is_not_held_beyond_the_moment_when_the_application_is_overdue() -> None:
    made = beating()
    _ = sent(made, 0)
    _ = made.ended(None, 0)
    assert sent(made, 9.9, polled=False).request.max_wait_ms == pytest.approx(100, abs=1)


def test_an_extension_counts_only_if_it_is_longer() -> None:
    made = beating()
    made.extend(15)
    _ = sent(made, 14, polled=False)
    _ = made.ended(None, 0)
    assert isinstance(made.next(15, polled=False), LeaveOverdue)
    made = beating()
    made.extend(5)
    assert isinstance(made.next(9, polled=False), SendHeartbeat)


def test_a_static_member_does_not_leave() -> None:
    """KIP-345: its session decides."""
    todo = beating(group_instance_id="i").next(10, polled=False)
    assert isinstance(todo, LeaveOverdue) and todo.request is None


def test_a_refused_heartbeat_is_reported() -> None:
    made = beating()
    _ = sent(made, 0)
    error = RebalanceInProgress("others join")
    assert made.ended(error, 0) == Refused(BEAT, "a:1", error)
    assert made.next(0, polled=True) == Wait(1), "it is not sent again at once"


def test_a_coordinator_that_names_another_is_followed() -> None:
    made = beating()
    _ = sent(made, 0)
    assert made.ended(NotCoordinator("moved", leader=LeaderHint(2, "b", 2, 7)), 0) is not None
    assert sent(made, 1).address == "b:2"


def aim_elsewhere(made: HeartbeatSchedule) -> None:
    made.aim("b:2", 0)


def be_overdue(made: HeartbeatSchedule) -> None:
    assert isinstance(made.next(10, polled=False), LeaveOverdue)


@pytest.mark.parametrize("change", [HeartbeatSchedule.stop, aim_elsewhere, HeartbeatSchedule.close])
def test_a_stop_and_another_coordinator_cut_the_heartbeat_in_flight(change: Change) -> None:
    """The end of a heartbeat that was cut says nothing about the coordinator."""
    made = beating()
    _ = sent(made, 0)
    assert not made.cut
    change(made)
    assert made.cut
    assert made.ended(LOST, 0) is None and not made.cut


def test_the_same_coordinator_cuts_nothing() -> None:
    made = beating()
    _ = sent(made, 0)
    made.aim("a:1", 0)
    assert not made.cut


def test_an_answered_join_starts_its_generation() -> None:
    made = beating()
    number = made.join_sent()
    made.join_answered(number, Joined("m", 2, "range", "m"), 3)
    assert sent(made, 3).beat == Beat("m", 2)


@pytest.mark.parametrize("answer", [None, MemberIdGiven("m2")])
def test_a_join_without_a_generation_starts_nothing(answer: MemberIdGiven | None) -> None:
    made = schedule()
    made.join_answered(made.join_sent(), answer, 0)
    assert not made.beating


@pytest.mark.parametrize("end", [HeartbeatSchedule.stop, HeartbeatSchedule.close, be_overdue])
def test_a_join_is_void_after_a_stop_a_close_and_an_overdue_application(end: Change) -> None:
    made = beating()
    number = made.join_sent()
    end(made)
    made.join_answered(number, Joined("m", 2, "range", "m"), 10)
    assert not made.beating


def test_a_join_is_void_after_a_later_one() -> None:
    made = schedule()
    first, _second = made.join_sent(), made.join_sent()
    made.join_answered(first, Joined("m", 2, "range", "m"), 0)
    assert not made.beating


def test_nothing_starts_after_the_close() -> None:
    made = beating()
    made.close()
    made.start(Beat("m", 9), 1)
    assert made.closed and made.next(1, polled=True) == Wait(None)
