"""Random lives of the brokers that write one `isr` znode: every event is recorded in the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.broker.core.state_changes.events import isr_changed
from strandline.broker.events.replica_events import OnRecorded
from strandline.broker.events.trail import PartitionTrail
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch
from strandline.vocabulary.metadata import IsrMember, PartitionState
from strandline.vocabulary.state_changes import StateChangeEvent
from tests.broker.support.replicas import KEY, NAME

EVENTS_MAX = 1_000
BROKERS = (1, 2)


class Life:
    """One life of one broker: its trail of the partition, and the events that its recorder is sending."""

    def __init__(self) -> None:
        self.trail = PartitionTrail(NAME, EVENTS_MAX)
        self.under_way: deque[tuple[Sequence[StateChangeEvent], OnRecorded]] = deque()

    def record(self, events: Sequence[StateChangeEvent], on_recorded: OnRecorded | None = None) -> None:
        assert on_recorded is not None
        self.under_way.append((events, on_recorded))

    def record_durably(self, events: Sequence[StateChangeEvent]) -> None:
        raise AssertionError("an event in a znode needs no disk")


class Walk(RuleBasedStateMachine):
    """Leaders come and go, write, hear or do not hear of it, record or die first."""

    def __init__(self) -> None:
        super().__init__()
        self.lives = {broker: Life() for broker in BROKERS}
        self.leader = BROKERS[0]
        self.version = 0
        self.znode: tuple[StateChangeEvent, ...] = ()
        self.log: list[StateChangeEvent] = []
        self.happened: list[StateChangeEvent] = []

    @property
    def life(self) -> Life:
        return self.lives[self.leader]

    def write(self, *, applied: bool) -> tuple[StateChangeEvent, ...]:
        """A compare-and-set by the leader; the trail that it asked for."""
        member = IsrMember(BrokerId(self.leader), BrokerEpoch(1))
        state = PartitionState(BrokerId(self.leader), LeaderEpoch(1), (member,))
        event = isr_changed(*(NAME.topic, KEY), state, self.version + 1, at_ms=self.version, reason="")
        wanted = self.life.trail.extended(self.life.trail.current, event)
        if applied:
            self.znode, self.version = wanted, self.version + 1
            self.happened.append(event)
        return wanted

    def take_over(self, broker: int) -> None:
        """A claim: it extends what it finds in the znode."""
        self.leader = broker
        self.life.trail.written(self.znode, self.life)
        self.known()

    @rule(broker=st.sampled_from(BROKERS))
    def elect(self, broker: int) -> None:
        if broker != self.leader:
            self.take_over(broker)

    @rule()
    def known(self) -> None:
        """A write with a known outcome."""
        self.life.trail.written(self.write(applied=True), self.life)

    @rule(applied=st.booleans())
    def unknown(self, applied: bool) -> None:
        """A write whose outcome has to be looked up."""
        self.write(applied=applied)
        self.life.trail.written(self.znode, self.life)

    @rule(applied=st.booleans(), successor=st.sampled_from(BROKERS))
    def die(self, applied: bool, successor: int) -> None:
        """The leader dies between the write and the record, with all that its recorder had under way."""
        self.write(applied=applied)
        self.lives[self.leader] = Life()
        self.take_over(successor)

    @precondition(lambda self: any(life.under_way for life in self.lives.values()))
    @rule(data=st.data())
    def record_one(self, data: st.DataObject) -> None:
        broker = data.draw(st.sampled_from([b for b in BROKERS if self.lives[b].under_way]))
        self._record(self.lives[broker])

    def _record(self, life: Life) -> None:
        events, on_recorded = life.under_way.popleft()
        self.log += events
        on_recorded(True)

    @invariant()
    def nothing_is_forgotten(self) -> None:
        """CORRECTNESS E7: what happened is in the log or in the znode, at every moment."""
        assert set(self.happened) <= {*self.log, *self.znode}

    @invariant()
    def nothing_is_made_up(self) -> None:
        """CORRECTNESS E9: a write that was not made is never recorded."""
        assert {*self.log, *self.znode} <= set(self.happened)

    def teardown(self) -> None:
        """Once things quieten down the leader's recorder alone has everything that is missing."""
        while self.life.under_way:
            self._record(self.life)
        assert set(self.happened) == set(self.log)
        self.known()
        assert len(self.znode) == 1  # and what is recorded does not stay


TestWalk = Walk.TestCase
TestWalk.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
