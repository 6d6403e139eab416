"""Plans are shown to one session, done once, and bounded in number and age."""

from __future__ import annotations

import pytest

from strandline.console.core.changes import (
    PLAN_AGE_MS_MAX,
    PLANS_MAX,
    PLANS_PER_SESSION_MAX,
    ROWS_SHOWN_MAX,
    Effect,
    End,
    Ended,
    Plans,
    State,
    Table,
)
from strandline.errors import (
    InvalidRequest,
    NotController,
    RequestTimedOut,
    ResourceNotFound,
    TopicAlreadyExists,
)

EFFECT = Effect("Do it", ("It is done.",), {"replicas": (1, 2)})
SEEN = EFFECT.fingerprint


def test_the_fingerprint_follows_the_facts_alone() -> None:
    assert Effect("Other words", (), {"replicas": [1, 2]}).fingerprint == SEEN
    assert Effect("Do it", ("It is done.",), {"replicas": [2, 1]}).fingerprint != SEEN


def test_a_plan_is_taken_once() -> None:
    plans = Plans[str]()
    plans.add("p", "alice", "change", EFFECT, 0)
    taken = plans.begin("p", "alice", seen=SEEN, typed="", now_ms=5)
    assert taken is not None and taken.began_ms == 5
    assert plans.begin("p", "alice", seen=SEEN, typed="", now_ms=6) is None
    plans.end(taken, Ended.done("It is done."))
    assert plans.begin("p", "alice", seen=SEEN, typed="", now_ms=7) is None
    assert plans.get("p", "alice", 7).state is State.ENDED


def test_an_effect_that_was_not_seen_is_not_done() -> None:
    plans = Plans[str]()
    plans.add("p", "alice", "change", EFFECT, 0)
    taken = plans.begin("p", "alice", seen=SEEN, typed="", now_ms=1)
    assert taken is not None
    other = Effect("Do it", (), {"replicas": (3,)})
    plans.show_anew(taken, other, 2)
    assert plans.get("p", "alice", 2).shown_anew
    assert plans.begin("p", "alice", seen=SEEN, typed="", now_ms=3) is None
    assert plans.begin("p", "alice", seen=other.fingerprint, typed="", now_ms=4) is not None


def test_what_is_to_be_typed_has_to_be_right() -> None:
    plans = Plans[str]()
    plans.add("p", "alice", "change", Effect("Delete", (), {}, typed="orders"), 0)
    seen = plans.get("p", "alice", 0).effect.fingerprint
    with pytest.raises(InvalidRequest, match="orders"):
        plans.begin("p", "alice", seen=seen, typed="order", now_ms=1)
    assert plans.begin("p", "alice", seen=seen, typed=" orders ", now_ms=1) is not None


def test_plans_are_bounded_in_number_age_and_session() -> None:
    plans = Plans[str]()
    for number in range(PLANS_PER_SESSION_MAX + 1):
        plans.add(f"a{number}", "alice", "change", EFFECT, 0)
    with pytest.raises(ResourceNotFound):
        plans.get("a0", "alice", 0)
    plans.get("a1", "alice", 0)
    with pytest.raises(ResourceNotFound):
        plans.get("a1", "bob", 0)
    for number in range(PLANS_MAX):
        plans.add(f"b{number}", f"session {number}", "change", EFFECT, 1)
    with pytest.raises(ResourceNotFound):
        plans.get("a1", "alice", 1)
    plans.get("b0", "session 0", 1 + PLAN_AGE_MS_MAX)
    with pytest.raises(ResourceNotFound, match="10 minutes"):
        plans.get("b0", "session 0", 2 + PLAN_AGE_MS_MAX)


def test_a_plan_under_way_is_not_forgotten() -> None:
    plans = Plans[str]()
    plans.add("p", "alice", "change", EFFECT, 0)
    taken = plans.begin("p", "alice", seen=SEEN, typed="", now_ms=0)
    assert taken is not None
    for number in range(PLANS_MAX):
        plans.add(f"a{number}", "alice", "change", EFFECT, PLAN_AGE_MS_MAX + 1)
    assert plans.get("p", "alice", PLAN_AGE_MS_MAX + 1).state is State.UNDER_WAY


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (TopicAlreadyExists("it exists"), End.REFUSED),
        (NotController("no controller"), End.FAILED_FOR_NOW),
        (RequestTimedOut("no answer"), End.UNKNOWN),
    ],
)
def test_an_error_says_how_a_change_ended(error: Exception, end: End) -> None:
    error.add_note("orders-1: another one")
    ended = Ended.by(error)  # type: ignore[arg-type]  # each is a StrandlineError
    assert ended.end is end and ended.error == type(error).__name__
    assert ended.sentences[1:] == ("orders-1: another one",)


def test_a_table_says_how_many_rows_it_leaves_out() -> None:
    table = Table.of("Rows", ["n"], [(number,) for number in range(ROWS_SHOWN_MAX + 7)])
    assert len(table.rows) == ROWS_SHOWN_MAX and table.more == 7
