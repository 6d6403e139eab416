"""A member in every state that it can be in."""

from __future__ import annotations

from collections.abc import Callable

from strandline.errors import CoordinatorLoading, InvalidRequest
from strandline.vocabulary.parsing.consumer_protocol import Assignment, AssignmentError
from tests.consumer.core.support.one_member import NOW, One, parts
from tests.consumer.core.support.own_assignor import OwnAssignor


def searching(one: One) -> None:
    one.stable("t0 t1")
    one.feed(one.core.coordinator_lost(NOW))
    one.feed(one.core.subscribed(["t", "u"], NOW))


def joining(one: One) -> None:
    one.stable("t0 t1")
    one.feed(one.core.subscribed(["t", "u"], NOW))


def pausing(one: One) -> None:
    joining(one)
    one.feed(one.core.join_failed(one.number, CoordinatorLoading("reading"), NOW))


def assigning(one: One) -> None:
    joining(one)
    one.join(one.effects, leads=True, generation=2)


def releasing(error: AssignmentError) -> Callable[[One], None]:
    def release(one: One) -> None:
        one.stable("t0 t1")
        one.join_again()
        one.sync(Assignment(1, parts("t0"), parts("t1"), error))

    return release


def releasing_first(one: One) -> None:
    one.stable("t0 t1")
    (assignor,) = one.assignors
    assert isinstance(assignor, OwnAssignor)
    assignor.releases = frozenset(parts("t1"))
    one.feed(one.core.subscribed(["t", "u"], NOW))


def leaving(one: One) -> None:
    one.stable("t0 t1")
    one.feed(one.core.leave("closing", NOW))


def left(one: One) -> None:
    leaving(one)
    one.core.released(one.number, NOW)


STATES: dict[str, Callable[[One], object]] = {
    "unjoined": lambda one: None,
    "joining, looking for the coordinator": searching,
    "joining": joining,
    "joining, pausing": pausing,
    "assigning": assigning,
    "syncing": lambda one: one.stable("t0 t1").join_again(),
    "stable": lambda one: one.stable("t0 t1"),
    "stable, leading": lambda one: one.stable("t0 t1", leads=True),
    "releasing, then joins": releasing(AssignmentError.NEEDS_REJOIN),
    "releasing, then stays": releasing(AssignmentError.NONE),
    "releasing, before it joins": releasing_first,
    "releasing, then leaves": leaving,
    "overdue": lambda one: one.stable("t0 t1").core.poll_overdue(NOW),
    "left": left,
    "fatal": lambda one: one.stable("t0 t1").refuse("join", InvalidRequest("no")),
}


def at(state: str) -> One:
    one = One(assignors=[OwnAssignor("sticky")])
    STATES[state](one)
    assert state.startswith(one.core.state.value)
    return one
