"""One broker's queue of requests, walked through crashes, lost answers and answers in any order."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import count, product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.broker.core.state_changes.queue import (
    LEGAL,
    Effect,
    EntryState,
    Execute,
    Read,
    Record,
    Remove,
    Settle,
    StateQueue,
    transition,
)
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.states import IllegalTransition
from strandline.vocabulary.coalescing import superseded
from strandline.vocabulary.state_changes import ANY_LIFE, Command, End, RequestState, StateChange

START, DELETE = Command.START_REPLICA, Command.DELETE_REPLICA
LIFE = BrokerEpoch(50)

EXPECTED = {
    "listed": {"reading"},
    "reading": {"read", "removing"},
    "read": {"executing", "settling", "settled", "deferred"},
    "executing": {"settling"},
    "settling": {"settled", "reading"},
    "settled": {"recording", "reading"},
    "recording": {"removing", "settled"},
    "removing": {"reading"},
    "deferred": set(),
}


def request(
    request_id: str,
    partition: int = 0,
    epoch: int = 5,
    command: Command = START,
    life: BrokerEpoch = ANY_LIFE,
) -> StateChange:
    key = PartitionKey(TopicId("0" * 32), PartitionId(partition))
    return StateChange(request_id, command, "t", key, LeaderEpoch(epoch), BrokerId(1), 0, life)


def a_queue(*, entries: int = 10, executions: int = 10, recordings: int = 10) -> StateQueue:
    return StateQueue(LIFE, entries_max=entries, executions_max=executions, recordings_max=recordings)


def executed(queue: StateQueue, entry: str, request_id: str) -> list[Effect]:
    queue.executed(entry, request_id, RequestState.COMPLETED, "", 2)
    return queue.step(2)


def ends(effect: Effect) -> dict[str, RequestState]:
    assert isinstance(effect, Settle | Record)
    return {change.request_id: change.end.state for change in effect.changes if change.end is not None}


# --- by hand ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("current", "wanted"), list(product(EntryState, EntryState)))
def test_only_the_transitions_of_the_table_are_legal(current: EntryState, wanted: EntryState) -> None:
    """Every one of the 81 pairs is either allowed or fails with the values."""
    assert {state.value for state in LEGAL} == set(EXPECTED)
    if wanted.value in EXPECTED[current.value]:
        assert transition("e", current, wanted) is wanted
    else:
        with pytest.raises(IllegalTransition, match=f"e: {current.value} → {wanted.value}"):
            transition("e", current, wanted)


def test_an_entry_goes_from_its_listing_to_its_end_in_this_order() -> None:
    """CORRECTNESS Q2: executed, then ended in the znode, then recorded, then removed."""
    queue = a_queue()
    queue.listed(["1"])
    assert queue.step(1) == [Read("1")]
    queue.read("1", [request("a"), request("b", partition=1)], 0)
    assert not queue.executed_all(["1"])
    assert queue.step(1) == [Execute("1", request("a")), Execute("1", request("b", partition=1))]
    assert executed(queue, "1", "b") == []
    (settle,) = executed(queue, "1", "a")
    assert queue.executed_all(["1"])
    end = End(RequestState.COMPLETED, 2, 1)
    changes = (replace(request("a"), end=end), replace(request("b", partition=1), end=end))
    assert settle == Settle("1", changes, 0)
    queue.settled("1", 1)
    assert queue.step(3) == [Record("1", changes)]
    queue.recorded("1")
    assert queue.step(4) == [Remove("1", 1)]
    queue.gone("1")
    assert queue.step(5) == []


def test_a_partition_that_never_finishes_delays_only_itself() -> None:
    """CORRECTNESS Q3: order is per partition, not per broker."""
    queue = a_queue()
    queue.listed(["1", "2", "3"])
    queue.step(1)
    queue.read("1", [request("stuck"), request("a", partition=1)], 0)
    queue.read("2", [request("behind it", epoch=4)], 0)
    queue.read("3", [request("b", partition=1, epoch=4), request("c", partition=2)], 0)
    assert [e.change.request_id for e in queue.step(1) if isinstance(e, Execute)] == ["stuck", "a", "c"]
    assert executed(queue, "3", "c") == []
    assert executed(queue, "1", "a") == [Execute("3", request("b", partition=1, epoch=4))]
    (settle,) = executed(queue, "3", "b")
    assert ends(settle) == {"b": RequestState.COMPLETED, "c": RequestState.COMPLETED}


def test_answers_in_another_order_change_no_order() -> None:
    """CORRECTNESS Q3: what was queued first is executed first, whenever it was read."""
    queue = a_queue()
    queue.listed(["2", "1"])
    assert queue.step(1) == [Read("1"), Read("2")]
    queue.read("2", [request("second", epoch=4)], 0)
    assert queue.step(1) == []
    queue.read("1", [request("first")], 0)
    assert queue.step(1) == [Execute("1", request("first"))]


def test_a_request_that_later_ones_supersede_is_not_executed() -> None:
    """CORRECTNESS Q4: and its end says so."""
    queue = a_queue()
    queue.listed(["1", "2"])
    queue.step(1)
    queue.read("1", [request("needless")], 0)
    queue.read("2", [request("last", command=DELETE)], 0)
    settle, execute = queue.step(1)
    assert ends(settle) == {"needless": RequestState.SUPERSEDED}
    assert execute == Execute("2", request("last", command=DELETE))


def test_a_malformed_entry_wedges_nothing() -> None:
    queue = a_queue()
    queue.listed(["1", "2"])
    queue.step(1)
    queue.malformed("1", 7)
    queue.read("2", [request("a")], 0)
    assert queue.executed_all(["1"])
    assert queue.step(1) == [Remove("1", 7), Execute("2", request("a"))]


def test_requests_for_a_later_life_are_left_alone() -> None:
    """CORRECTNESS E4: an earlier life does not execute them; the entries behind it are executed."""
    queue = a_queue()
    queue.listed(["1", "2"])
    queue.step(1)
    queue.read("1", [request("later", life=BrokerEpoch(51))], 0)
    queue.read("2", [request("mine", partition=1, life=LIFE)], 0)
    assert queue.step(1) == [Execute("2", request("mine", partition=1, life=LIFE))]
    queue.listed(["1", "2"])
    assert queue.step(1) == []
    assert queue.executed_all(["1"])


def test_an_end_that_another_process_wrote_counts() -> None:
    """CORRECTNESS Q2: the controller ended it while the broker was thought dead; a request has one end."""
    queue = a_queue()
    queue.listed(["1"])
    queue.step(1)
    queue.read("1", [request("a"), request("b", partition=1)], 0)
    queue.step(1)
    executed(queue, "1", "a")
    executed(queue, "1", "b")
    queue.refused("1")
    assert queue.step(2) == [Read("1")]
    theirs = replace(request("a"), end=End(RequestState.SUPERSEDED, 1, reason="theirs"))
    queue.read("1", [theirs, request("b", partition=1)], 4)
    (settle,) = queue.step(3)
    assert isinstance(settle, Settle)
    assert settle.version == 4
    assert ends(settle) == {"a": RequestState.SUPERSEDED, "b": RequestState.COMPLETED}


def test_without_room_in_the_record_execution_continues() -> None:
    """Execution never waits for `__state_changes`: its leader may be waiting for this broker."""
    queue = a_queue(recordings=1)
    names = [str(number) for number in range(5)]
    queue.listed(names)
    queue.step(1)
    for number, name in enumerate(names):
        queue.read(name, [request(name, partition=number)], 0)
    queue.step(1)
    for name in names:
        executed(queue, name, name)
    for name in names:
        queue.settled(name, 1)
    (record,) = queue.step(2)
    assert isinstance(record, Record)
    assert record.entry == "0"
    queue.not_recorded("0")
    others = queue.step(3)
    assert Read("1") in others, "it was forgotten while there was no room"
    assert "0" not in [effect.entry for effect in others], "not before the next listing"
    queue.listed(names)
    assert queue.executed_all(names)


# --- by walks -----------------------------------------------------------------------------------------

PARTITIONS, ENTRIES, EXECUTIONS, RECORDINGS = 3, 3, 2, 3


class Walk(RuleBasedStateMachine):
    """A queue in ZooKeeper, a broker that executes it and dies, and a controller that ends requests
    (CORRECTNESS Q2, Q3)."""

    @initialize()
    def begin(self) -> None:
        self.znodes: dict[str, tuple[list[StateChange], int]] = {}
        self.numbers = count()
        self.asked: list[str] = []
        """Ids, in the order of the queue."""
        self.ends: defaultdict[str, set[tuple[RequestState, int, str]]] = defaultdict(set)
        """As they were recorded."""
        self.ran: set[str] = set()
        self.now = 0
        self.crash(0)

    # --- the others ------------------------------------------------------------------------

    @rule(
        asked=st.lists(
            st.tuples(
                st.integers(0, PARTITIONS - 1), st.integers(1, 4), st.sampled_from([START, START, DELETE])
            ),
            min_size=1,
            max_size=4,
        )
    )
    def a_client_asks(self, asked: list[tuple[int, int, Command]]) -> None:
        changes = [request(str(next(self.numbers)), *each) for each in asked]
        self.asked += [change.request_id for change in changes]
        self.znodes[f"{next(self.numbers):06}"] = (changes, 0)

    @rule()
    def the_controller_settles(self) -> None:
        """Requests that later ones supersede; the controller does not know yet that the broker is alive."""
        queued = [change for name in sorted(self.znodes) for change in self.znodes[name][0]]
        gone = superseded(queued)
        self.now += 1
        end = End(RequestState.SUPERSEDED, self.now)
        for name, (changes, version) in self.znodes.items():
            if any(change.request_id in gone for change in changes):
                settled = [replace(c, end=end) if c.request_id in gone else c for c in changes]
                self.znodes[name] = (settled, version + 1)

    # --- the broker ------------------------------------------------------------------------

    @rule()
    def lists(self) -> None:
        self.queue.listed(list(self.znodes))
        self.turn()

    @rule(applied=st.integers(0, 3))
    def crash(self, applied: int) -> None:
        """Some of the unfinished writes happened, and the broker does not know which."""
        for effect in getattr(self, "pending", [])[:applied]:
            self.apply(effect)
        self.queue = a_queue(entries=ENTRIES, executions=EXECUTIONS, recordings=RECORDINGS)
        self.pending: list[Effect] = []
        self.executing: dict[PartitionKey, str] = {}
        self.last: dict[PartitionKey, int] = {}

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """Any of what is under way comes to its end."""
        effect = self.pending.pop(data.draw(st.integers(0, len(self.pending) - 1)))
        self.done(effect, lost=data.draw(st.booleans()))

    def done(self, effect: Effect, *, lost: bool) -> None:
        """`lost`: the first answer was, so it was done again; or there was no room for a record."""
        match effect:
            case Read(name):
                if name in self.znodes:
                    self.queue.read(name, *self.znodes[name])
                else:
                    self.queue.gone(name)
            case Execute(name, change):
                self.apply(effect)
                del self.executing[change.key]
                self.now += 1
                self.queue.executed(name, change.request_id, RequestState.COMPLETED, "", self.now)
            case Settle(name):
                answers = [self.apply(effect) for _ in range(2 if lost else 1)]
                if name not in self.znodes:
                    self.queue.gone(name)
                elif answers[-1]:
                    self.queue.settled(name, self.znodes[name][1])
                else:
                    self.queue.refused(name)
            case Record(name):
                if lost:
                    self.queue.not_recorded(name)
                else:
                    self.apply(effect)
                    self.queue.recorded(name)
            case Remove(name):
                if self.apply(effect):
                    self.queue.gone(name)
                else:
                    self.queue.refused(name)
        self.turn()

    def apply(self, effect: Effect) -> bool:
        """The effect on the world; False if it was refused."""
        match effect:
            case Execute(_, change):
                self.ran.add(change.request_id)
            case Settle(name, changes, version):
                if name not in self.znodes or self.znodes[name][1] != version:
                    return False
                assert all(change.end is not None for change in changes)
                stood = {change.request_id: change.end for change in self.znodes[name][0]}
                assert all(stood[c.request_id] in (None, c.end) for c in changes), "an end was changed"
                self.znodes[name] = (list(changes), version + 1)
            case Record(name, changes):
                assert list(changes) == self.znodes[name][0], "recorded is what stands in the znode"
                for change in changes:
                    assert change.end is not None
                    end = change.end
                    self.ends[change.request_id].add((end.state, end.at_ms, end.reason))
            case Remove(name, version):
                if name in self.znodes and self.znodes[name][1] != version:
                    return False
                self.znodes.pop(name, None)
        return True

    def turn(self) -> None:
        for effect in self.queue.step(self.now):
            self.pending.append(effect)
            if isinstance(effect, Execute):
                key, place = effect.change.key, self.asked.index(effect.change.request_id)
                assert key not in self.executing, "two requests of one partition at the same time"
                assert place > self.last.get(key, -1), "out of order"
                self.executing[key], self.last[key] = effect.change.request_id, place

    # --- what holds ------------------------------------------------------------------------

    @invariant()
    def no_request_has_two_ends(self) -> None:
        """CORRECTNESS Q2."""
        assert all(len(found) == 1 for found in self.ends.values()), self.ends

    @invariant()
    def the_bounds_hold(self) -> None:
        pending = getattr(self, "pending", [])
        assert sum(isinstance(effect, Execute) for effect in pending) <= EXECUTIONS
        recording = [len(effect.changes) for effect in pending if isinstance(effect, Record)]
        assert len(recording) <= 1 or sum(recording) <= RECORDINGS

    @invariant()
    def each_removed_entry_is_recorded(self) -> None:
        """Nothing is lost: a request is in the queue, or its end is in the record."""
        queued = {change.request_id for changes, _ in self.znodes.values() for change in changes}
        assert set(self.asked) <= queued | set(self.ends)

    def teardown(self) -> None:
        """Left to itself the broker works off everything, and each request has exactly one end."""
        if not hasattr(self, "znodes"):
            return
        for _ in range(20 * (len(self.znodes) + 2)):
            self.lists()
            while self.pending:
                self.done(self.pending.pop(0), lost=False)
        assert self.znodes == {}
        assert set(self.ends) == set(self.asked)
        for request_id, (end,) in ((id_, tuple(found)) for id_, found in self.ends.items()):
            assert end[0] is RequestState.SUPERSEDED or request_id in self.ran


Walk.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestWalk = Walk.TestCase
