"""The judge finds what is wrong with doctored histories, and nothing in sound ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from strandline import TopicPartition
from strandline_lab.simulation.workloads.counting.judge import Commit, History, faults, owner_faults

LINES, REPARTITION = "lines", "components-repartition"
A, B = b"ada", b"bob"
X, Y = b"x", b"y"


def users(offset: int, read: int, **counts: int) -> Commit:
    """A batch as the task writes it: its counts, and a position record."""
    by_key = {key.encode(): value for key, value in counts.items()}
    return Commit(offset, offset + len(counts) + 1, by_key, 1, {TopicPartition(LINES, 0): read})


def components(offset: int, read: int, **counts: int) -> Commit:
    return replace(users(offset, 0, **counts), read={TopicPartition(REPARTITION, 0): read})


def sound() -> History:
    """Four lines; the third was sent on twice."""
    history = History()
    history.lines[0] = [(A, X), (B, X), (A, Y), (A, X)]
    history.users[0] = [users(0, 2, ada=1, bob=1), users(3, 3, ada=2), users(5, 4, ada=3)]
    history.repartitioned[0] = [*enumerate((b"0", b"1", b"2", b"2", b"3"))]
    history.components[0] = [components(0, 3, x=2, y=1), components(3, 4), components(4, 5, x=3)]
    history.counts = [(X, 1), (X, 2), (Y, 1), (X, 2), (X, 3)]
    return history


def test_nothing_is_wrong_with_a_sound_history() -> None:
    assert faults(sound(), LINES, REPARTITION) == []


def _counted_twice(history: History) -> None:
    history.users[0][1] = users(3, 3, ada=3)
    history.users[0][2] = users(5, 4, ada=4)


def _never_counted(history: History) -> None:
    del history.users[0][2]


def _went_back(history: History) -> None:
    history.users[0][2:] = [users(5, 2, ada=1), users(7, 4, ada=3)]


def _two_writers(history: History) -> None:
    history.users[0][1] = replace(history.users[0][1], next_offset=6)


def _position_apart(history: History) -> None:
    history.users[0][1] = replace(history.users[0][1], positions=0)


def _repeat_counted(history: History) -> None:
    history.components[0][1] = components(3, 4, y=2)
    history.components[0][2] = components(5, 5, x=3)


def _wrong_key(history: History) -> None:
    history.users[0][1] = users(3, 3, bob=2)


def _never_came_out(history: History) -> None:
    history.counts.remove((Y, 1))


def _came_out_and_was_not(history: History) -> None:
    history.counts.append((X, 4))


@pytest.mark.parametrize(
    ("doctor", "said"),
    [
        (_counted_twice, "4 are counted of 3"),
        (_never_counted, "was counted"),
        (_went_back, "goes back from 3 to 2"),
        (_two_writers, "follows on one that ended at 6"),
        (_position_apart, "0 position records"),
        (_repeat_counted, "4 are counted of 3"),
        (_wrong_key, "b'bob' stands there 1 times"),
        (_never_came_out, "output: of b'y'"),
        (_came_out_and_was_not, "output: of b'x'"),
    ],
)
def test_every_fault_is_named(doctor: Callable[[History], None], said: str) -> None:
    history = sound()
    doctor(history)
    assert any(said in fault for fault in faults(history, LINES, REPARTITION))


def event(kind: str, at_ms: int, member: str, **facts: Any) -> dict[str, Any]:
    return {"event": kind, "at_ms": at_ms, "member": member, **facts}


ZERO = {"partitions": {LINES: [0]}}


@pytest.mark.parametrize(
    "events",
    [
        [event("assigned", 1, "a", **ZERO), event("assigned", 2, "b", **ZERO),
         event("revoked", 2, "a", **ZERO)],
        [event("assigned", 1, "a", **ZERO), event("member_left", 2, "a"), event("assigned", 3, "b", **ZERO)],
        [event("assigned", 1, "a", **ZERO), event("lost", 2, "a", **ZERO), event("assigned", 3, "b", **ZERO),
         event("lost", 4, "a", **ZERO), event("assigned", 5, "b", **ZERO)],
        [event("task_running", 1, "a", task="t-0"), event("task_suspended", 2, "a", task="t-0"),
         event("task_running", 3, "b", task="t-0"), event("task_learning", 3, "a", task="t-0")],
    ],
)  # fmt: skip
def test_a_partition_that_is_let_go_may_have_another_owner(events: list[dict[str, Any]]) -> None:
    assert owner_faults(events) == []


@pytest.mark.parametrize(
    "events",
    [
        [event("assigned", 1, "a", **ZERO), event("assigned", 2, "b", **ZERO),
         event("revoked", 3, "a", **ZERO)],
        [event("assigned", 1, "a", **ZERO), event("lost", 2, "b", **ZERO), event("assigned", 3, "b", **ZERO)],
        [event("task_running", 1, "a", task="t-0"), event("task_running", 2, "b", task="t-0")],
    ],
)  # fmt: skip
def test_two_owners_at_a_time_are_named(events: list[dict[str, Any]]) -> None:
    (fault,) = owner_faults(events)
    assert "is a's when" in fault
