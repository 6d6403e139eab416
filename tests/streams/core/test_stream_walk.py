"""Random scale-ups, scale-downs, crashes and orders of readiness, on any number of tasks."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.streams.core.stream_group import StreamGroup


class StreamGroupMachine(RuleBasedStateMachine):
    """Whoever leads knows what the members say and nothing else: to lose the leader is to lose a member."""

    @initialize(tasks=st.integers(0, 9))
    def begin(self, tasks: int) -> None:
        self.group = StreamGroup(*(f"T{n}" for n in range(tasks)))
        self.names = 0

    @rule()
    def start(self) -> None:
        if len(self.group.members) < 6:
            self.names += 1
            self.group.start(f"S{self.names}")

    @precondition(lambda self: self.group.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.group.leave(data.draw(st.sampled_from(sorted(self.group.members))))

    @precondition(lambda self: self.group.members)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.group.crash(data.draw(st.sampled_from(sorted(self.group.members))))

    @precondition(lambda self: self.learned())
    @rule(data=st.data(), ready=st.booleans())
    def catch_up_or_fall_behind(self, data: st.DataObject, ready: bool) -> None:
        name, task = data.draw(st.sampled_from(self.learned()))
        if ready:
            self.group.ready(name, task)
        else:
            self.group.members[name].fell_behind(task)

    @precondition(lambda self: self.group.asked)
    @rule()
    def rebalance(self) -> None:
        group = self.group
        ran = {task for task in group.tasks if group.running(task)}
        group.rebalance()
        if any(not member.leaving for member in group.members.values()):
            assert all(group.running(task) for task in group.tasks)
        else:
            assert {task for task in group.tasks if group.running(task)} == ran
        for name, received in group.received.items():
            assert not set(received.promoted) & set(received.started), name

    @rule()
    def settle(self) -> None:
        """Everybody catches up: it comes to rest in bounded rounds, even, and moves nothing then."""
        group = self.group
        for _ in range(len(group.tasks) + 3):
            for name, task in self.learned():
                group.ready(name, task)
            if not group.asked:
                break
            group.rebalance()
        assert not group.asked and not self.learned()
        staying = {name: m for name, m in group.members.items() if not m.leaving}
        if not staying:
            return
        assert staying.keys() == group.members.keys(), "who left has gone"
        loads = [len(member.assigned) for member in staying.values()]
        assert sum(loads) == len(group.tasks) and max(loads) - min(loads) <= 1
        before = {name: member.assigned for name, member in staying.items()}
        group.rebalance()
        assert {name: member.assigned for name, member in staying.items()} == before
        assert not self.learned()

    @invariant()
    def one_owner_and_one_learner(self) -> None:
        """CORRECTNESS S1."""
        members = self.group.members.values()
        owners = Counter(task for member in members for task in member.assigned)
        learners = Counter(task for member in members for task in member.learning)
        assert max(owners.values(), default=0) <= 1 and max(learners.values(), default=0) <= 1
        assert not any(member.assigned & member.learning.keys() for member in members)

    def learned(self) -> list[tuple[str, str]]:
        return [(name, task) for name, m in sorted(self.group.members.items()) for task in sorted(m.learning)]


TestStreamGroup = StreamGroupMachine.TestCase
TestStreamGroup.settings = settings(max_examples=100, stateful_step_count=40)
