"""The commit queue against a model (Kafka's design V3; CORRECTNESS H6)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strandline.broker.core.replication.commit_queue import CommitQueue
from strandline.ids import LeaderEpoch, Offset


def test_requests_commit_in_order_once_the_watermark_reaches_their_end() -> None:
    queue: CommitQueue[str] = CommitQueue(LeaderEpoch(3), 10)
    queue.push(Offset(5), 100.0, "a")
    queue.push(Offset(9), 100.0, "b")
    assert queue.committed(Offset(4)) == []
    assert queue.committed(Offset(5)) == ["a"]
    assert queue.committed(Offset(9)) == ["b"]
    assert len(queue) == 0


def test_entries_left_when_leadership_ends_are_never_committed() -> None:
    """CORRECTNESS H6: a drained queue gives nothing to any later watermark."""
    queue: CommitQueue[str] = CommitQueue(LeaderEpoch(3), 10)
    queue.push(Offset(5), 100.0, "a")
    assert queue.drain() == ["a"]
    assert queue.committed(Offset(1_000)) == []


def test_a_repeat_that_ends_below_is_answered_after_earlier_requests() -> None:
    queue: CommitQueue[str] = CommitQueue(LeaderEpoch(3), 10)
    queue.push(Offset(9), 100.0, "new")
    queue.push(Offset(5), 100.0, "repeat")
    assert queue.committed(Offset(5)) == []
    assert queue.committed(Offset(9)) == ["new", "repeat"]


def test_a_full_queue_refuses_loudly() -> None:
    queue: CommitQueue[str] = CommitQueue(LeaderEpoch(3), 1)
    queue.push(Offset(5), 100.0, "a")
    assert queue.full
    with pytest.raises(AssertionError, match="over its bound 1"):
        queue.push(Offset(6), 100.0, "b")


class CommitQueueMachine(RuleBasedStateMachine):
    """Every request leaves exactly once, and as committed only when the watermark covers it."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: CommitQueue[int] = CommitQueue(LeaderEpoch(1), 50)
        self.waiting: dict[int, tuple[int, float]] = {}
        self.left: set[int] = set()
        self.watermark = 0
        self.now = 0.0
        self.next = 0

    @rule(ahead=st.integers(0, 20), timeout_s=st.floats(0.1, 5))
    def push(self, ahead: int, timeout_s: float) -> None:
        if self.queue.full:
            return
        end, deadline = self.watermark + ahead, self.now + timeout_s
        self.queue.push(Offset(end), deadline, self.next)
        self.waiting[self.next] = (end, deadline)
        self.next += 1

    @rule(by=st.integers(0, 20))
    def advance(self, by: int) -> None:
        self.watermark += by
        done = self.queue.committed(Offset(self.watermark))
        assert done == sorted(done)
        for ticket in done:
            assert self.waiting[ticket][0] <= self.watermark
            self._leave(ticket)

    @rule(seconds=st.floats(0, 3))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for ticket in self.queue.expired(self.now):
            assert self.waiting[ticket][1] <= self.now
            self._leave(ticket)
        assert all(deadline > self.now for _, deadline in self.waiting.values())

    @rule()
    def end(self) -> None:
        for ticket in self.queue.drain():
            self._leave(ticket)
        assert not self.waiting

    def _leave(self, ticket: int) -> None:
        assert ticket not in self.left
        self.left.add(ticket)
        del self.waiting[ticket]

    @invariant()
    def deadlines_are_not_missed(self) -> None:
        assert len(self.queue) == len(self.waiting)
        if self.waiting:
            next_deadline = self.queue.next_deadline
            assert next_deadline is not None
            assert next_deadline <= min(deadline for _, deadline in self.waiting.values())


TestCommitQueueMachine = CommitQueueMachine.TestCase
