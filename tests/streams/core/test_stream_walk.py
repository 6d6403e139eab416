"""Random scale-ups, scale-downs, crashes, assignments that are lost and orders of readiness, on any number of
tasks with any number of standbys. The same walk with a rule broken finds that: so the walk would notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from strandline.streams.core.member import Received, StreamMember
from strandline.streams.core.placement import Claim, Share, place
from tests.streams.core.stream_group import Place, StreamGroup

MEMBERS_MAX = 6


class StreamGroupMachine(RuleBasedStateMachine):
    """A leader knows only the members' reports: to lose the leader is to lose a member."""

    place: Place = staticmethod(place)
    member: type[StreamMember[str]] = StreamMember

    @initialize(tasks=st.integers(0, 9), standbys=st.integers(0, 2))
    def begin(self, tasks: int, standbys: int) -> None:
        self.standbys = standbys
        self.group = StreamGroup(
            *(f"T{n}" for n in range(tasks)), num_standbys=standbys, place=self.place, member=self.member
        )
        self.names = 0
        self.all_heard = True

    @rule()
    def start(self) -> None:
        if len(self.group.members) < MEMBERS_MAX:
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

    @precondition(lambda self: self.group.members)
    @rule(data=st.data())
    def is_expelled(self, data: st.DataObject) -> None:
        """It lives, and joins again; others may have its tasks by then."""
        self.group.members[data.draw(st.sampled_from(sorted(self.group.members)))].lost()
        self.group.asked = True

    @precondition(lambda self: self.copies())
    @rule(data=st.data(), ready=st.booleans())
    def catch_up_or_fall_behind(self, data: st.DataObject, ready: bool) -> None:
        name, task = data.draw(st.sampled_from(self.copies()))
        if ready:
            self.group.ready(name, task)
        else:
            self.group.members[name].fell_behind(task)

    @precondition(lambda self: self.group.asked)
    @rule()
    def rebalance(self) -> None:
        self.round()

    @precondition(lambda self: self.group.asked and self.copies())
    @rule(data=st.data())
    def rebalance_while_a_learner_catches_up(self, data: st.DataObject) -> None:
        name, task = data.draw(st.sampled_from(self.copies()))
        self.round(meanwhile={name: [task]})

    @precondition(lambda self: self.group.asked and self.group.members)
    @rule(data=st.data())
    def rebalance_that_not_all_hear_of(self, data: st.DataObject) -> None:
        self.round(deaf=data.draw(st.sets(st.sampled_from(sorted(self.group.members)), min_size=1)))

    @rule()
    def settle(self) -> None:
        """All members catch up: the group comes to rest in bounded rounds, even, and moves nothing then."""
        group = self.group
        for _ in range(len(group.tasks) + 4):
            for name, task in self.copies():
                group.ready(name, task)
            if not group.asked:
                break
            self.round()
        assert not group.asked and not self.learned()
        staying = {name: m for name, m in group.members.items() if not m.leaving}
        if not staying:
            return
        assert staying.keys() == group.members.keys(), "members that left are gone"
        loads = [len(member.assigned) for member in staying.values()]
        assert sum(loads) == len(group.tasks) and max(loads) - min(loads) <= 1
        kept = Counter(task for member in staying.values() for task in member.standbys)
        assert all(kept[task] == min(self.standbys, len(staying) - 1) for task in group.tasks)
        before = {name: (member.assigned, member.standbys) for name, member in staying.items()}
        self.round()
        assert {name: (member.assigned, member.standbys) for name, member in staying.items()} == before
        assert not self.learned() and not group.asked

    # --- what holds ----------------------------------------------------------------------------

    def round(self, *, deaf: Iterable[str] = (), meanwhile: Mapping[str, list[str]] | None = None) -> None:
        group = self.group
        ran = {task for task in group.tasks if group.running(task)}
        gave_up = {task for member in group.members.values() for task in member.revoked}
        deaf = set(deaf)
        group.rebalance(deaf=deaf, meanwhile=meanwhile)
        self.all_heard = not deaf
        if self.all_heard and any(not member.leaving for member in group.members.values()):
            assert all(group.running(task) for task in group.tasks)
        elif self.all_heard:
            assert ran <= {task for task in group.tasks if group.running(task)} <= ran | gave_up
        for name, claim in group.claims.items():
            assert claim.assigned <= set(group.shares[name].assigned), f"taken from {name}, which runs it"
        self.check_moves()
        self.check_received()
        group.note_owners()

    def check_moves(self) -> None:
        """A task with an owner moves only to a ready member, and one without an owner goes to a ready member
        if there is one."""
        claims = self.group.claims
        owners = {task: name for name, claim in claims.items() for task in claim.revoked}
        owners |= {task: name for name, claim in claims.items() for task in claim.assigned}
        for name, share in self.group.shares.items():
            for task in share.assigned:
                if task in owners and owners[task] != name:
                    assert claims[name].ready(task) or self.was_given_up_by(name, task)
                ready = [n for n, claim in claims.items() if claim.ready(task) and not claim.leaving]
                if task not in owners and ready:
                    assert name in ready, f"{task} went to {name}, and {ready} were ready"

    def was_given_up_by(self, name: str, task: str) -> bool:
        """A member that missed a move still claims to be the owner."""
        return task in self.group.claims[name].revoked

    def check_received(self) -> None:
        """CORRECTNESS S2: a member that continues with an open store has one, and it is whole."""
        group = self.group
        for name, received in group.received.items():
            claim = group.claims[name]
            copies = claim.learning.keys() | claim.standbys.keys()
            assert copies >= set(received.promoted) and not copies & set(received.started)
            assert claim.revoked >= set(received.resumed)
            assert all(group.ran[task] == name for task in received.resumed), "another one ran it meanwhile"

    @invariant()
    def one_owner_and_one_learner(self) -> None:
        """CORRECTNESS S1; and standbys are somewhere else, and no more than wanted."""
        members = self.group.members.values()
        owners = Counter(task for member in members for task in member.assigned)
        learners = Counter(task for member in members for task in member.learning)
        assert max(owners.values(), default=0) <= 1
        for member in members:
            assert not member.assigned & member.learning.keys()
            assert not member.assigned & member.standbys.keys()
            assert not member.learning.keys() & member.standbys.keys()
        if self.all_heard:
            kept = Counter(task for member in members for task in member.standbys)
            assert max(learners.values(), default=0) <= 1
            assert max(kept.values(), default=0) <= self.standbys

    @invariant()
    def a_ready_learner_waits_for_no_one(self) -> None:
        """CORRECTNESS S5: as long as one is ready, a rebalance is to come."""
        ready = [
            task for member in self.group.members.values() for task, it_is in member.learning.items() if it_is
        ]
        assert self.group.asked or not ready

    def learned(self) -> list[tuple[str, str]]:
        return [(name, task) for name, m in sorted(self.group.members.items()) for task in sorted(m.learning)]

    def copies(self) -> list[tuple[str, str]]:
        kept = [(name, task) for name, m in sorted(self.group.members.items()) for task in sorted(m.standbys)]
        return self.learned() + kept


TestStreamGroup = StreamGroupMachine.TestCase
TestStreamGroup.settings = settings(max_examples=100, stateful_step_count=40)


# --- each rule is needed ------------------------------------------------------------------------

Tasks = Iterable[str]
Claims = Mapping[str, Claim[str]]


def takes_what_is_held(tasks: Tasks, members: Claims, **more: Any) -> dict[str, Share[str]]:
    """A ready member gets the task, even if another one still runs it."""
    freed = {
        name: replace(claim, assigned=frozenset(), revoked=claim.assigned | claim.revoked)
        for name, claim in members.items()
    }
    return place(tasks, freed, **more)


def forgets_members_that_gave_up(tasks: Tasks, members: Claims, **more: Any) -> dict[str, Share[str]]:
    return place(tasks, {n: replace(claim, revoked=frozenset()) for n, claim in members.items()}, **more)


def waits_for_no_member(tasks: Tasks, members: Claims, **more: Any) -> dict[str, Share[str]]:
    """A learner gets it, ready or not."""
    hasty = {
        name: replace(claim, learning=dict.fromkeys(claim.learning, True)) for name, claim in members.items()
    }
    return place(tasks, hasty, **more)


def never_ready(tasks: Tasks, members: Claims, **more: Any) -> dict[str, Share[str]]:
    slow = {
        name: replace(claim, learning=dict.fromkeys(claim.learning, False)) for name, claim in members.items()
    }
    return place(tasks, slow, **more)


def two_learners(tasks: Tasks, members: Claims, **more: Any) -> dict[str, Share[str]]:
    shares = place(tasks, members, **more)
    learned = {task for share in shares.values() for task in share.learning}
    return {
        name: replace(share, learning=tuple(sorted(learned.difference(share.assigned, share.standbys))))
        for name, share in shares.items()
    }


def no_learner_for_a_leaving_member(tasks: Tasks, members: Claims, **more: Any) -> dict[str, Share[str]]:
    return place(tasks, {name: replace(claim, leaving=False) for name, claim in members.items()}, **more)


def no_balance(tasks: Tasks, members: Claims, **more: Any) -> dict[str, Share[str]]:
    """No member learns a task whose owner stays."""
    shares = place(tasks, members, **more)
    staying = {task for name, claim in members.items() if not claim.leaving for task in shares[name].assigned}
    return {
        name: replace(share, learning=tuple(task for task in share.learning if task not in staying))
        for name, share in shares.items()
    }


def cold_in_spite_of_standbys(tasks: Tasks, members: Claims, **more: Any) -> dict[str, Share[str]]:
    return place(tasks, {name: replace(claim, standbys={}) for name, claim in members.items()}, **more)


def one_standby_more(tasks: Tasks, members: Claims, *, num_standbys: int) -> dict[str, Share[str]]:
    return place(tasks, members, num_standbys=num_standbys + 1)


def one_standby_less(tasks: Tasks, members: Claims, *, num_standbys: int) -> dict[str, Share[str]]:
    return place(tasks, members, num_standbys=max(num_standbys - 1, 0))


def stands_by_for_itself(tasks: Tasks, members: Claims, **more: Any) -> dict[str, Share[str]]:
    shares = place(tasks, members, **more)
    return {name: replace(share, standbys=share.learning or share.standbys) for name, share in shares.items()}


def drops_tasks_without_a_copy(tasks: Tasks, members: Claims, **more: Any) -> dict[str, Share[str]]:
    known = {t for c in members.values() for t in (*c.assigned, *c.revoked, *c.learning, *c.standbys)}
    return place(known or tasks, members, **more)


def moves_standbys_about(tasks: Tasks, members: Claims, **more: Any) -> dict[str, Share[str]]:
    """A member that keeps a copy never keeps it for long."""
    standbys = {name: claim.standbys for name, claim in members.items()}
    shuffled = dict(zip(standbys, (*list(standbys.values())[1:], {}), strict=True)) if standbys else {}
    return place(
        tasks, {name: replace(claim, standbys=shuffled[name]) for name, claim in members.items()}, **more
    )


class NeverAsks(StreamMember[str]):
    def receive(
        self, share: Share[str], learned: Mapping[str, bool], *, in_turn: bool = True
    ) -> Received[str]:
        return replace(super().receive(share, learned, in_turn=in_turn), asks=False)


@pytest.mark.parametrize(
    "broken",
    [
        takes_what_is_held,
        forgets_members_that_gave_up,
        waits_for_no_member,
        never_ready,
        two_learners,
        no_learner_for_a_leaving_member,
        no_balance,
        cold_in_spite_of_standbys,
        one_standby_more,
        one_standby_less,
        stands_by_for_itself,
        drops_tasks_without_a_copy,
        moves_standbys_about,
        NeverAsks,
    ],
)
def test_a_walk_with_one_rule_broken_finds_that(broken: Any) -> None:
    """Each of these rules is needed, and the walk notices its absence."""
    changed = {"member": broken} if isinstance(broken, type) else {"place": staticmethod(broken)}
    machine = type("Broken", (StreamGroupMachine,), changed)
    unshrunk = settings(
        max_examples=500,
        stateful_step_count=40,
        phases=[Phase.generate],
        database=None,
        print_blob=False,
        derandomize=True,
    )
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(machine, settings=unshrunk)
