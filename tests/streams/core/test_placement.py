"""Who runs and who learns what, rule by rule (seed 000)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from streams.core.placement import Claim, Share, place

TASKS = ("T1", "T2", "T3", "T4", "T5")


def runs(*tasks: str, leaving: bool = False, **learning: bool) -> Claim[str]:
    return Claim(frozenset(tasks), learning=learning, leaving=leaving)


def gave_up(*tasks: str, leaving: bool = False, keeps: tuple[str, ...] = ()) -> Claim[str]:
    return Claim(frozenset(keeps), frozenset(tasks), leaving=leaving)


def assigned(shares: Mapping[str, Share[str]]) -> dict[str, tuple[str, ...]]:
    return {name: share.assigned for name, share in shares.items()}


def learning(shares: Mapping[str, Share[str]]) -> dict[str, tuple[str, ...]]:
    return {name: share.learning for name, share in shares.items() if share.learning}


def test_a_first_group_shares_evenly_in_the_order_of_names() -> None:
    shares = place(TASKS, {"S2": Claim(), "S1": Claim(), "S3": Claim()})
    assert assigned(shares) == {"S1": ("T1", "T4"), "S2": ("T2", "T5"), "S3": ("T3",)}
    assert learning(shares) == {}


def test_a_learner_that_is_ready_takes_over_and_the_owner_is_told() -> None:
    shares = place(["T1", "T2"], {"S1": gave_up("T1", keeps=("T2",)), "S2": Claim(learning={"T1": True})})
    assert shares["S1"] == Share(("T2",), revoked=("T1",))
    assert shares["S2"] == Share(("T1",))


def test_an_owner_gets_back_what_nobody_is_ready_for() -> None:
    shares = place(["T1", "T2"], {"S1": gave_up("T1", keeps=("T2",)), "S2": Claim(learning={"T1": False})})
    assert shares["S1"] == Share(("T1", "T2"))
    assert shares["S2"] == Share(learning=("T1",))


def test_what_is_still_held_is_given_to_nobody_else() -> None:
    """CORRECTNESS S1: an owner that never heard of the learner has not revoked the task."""
    shares = place(["T1", "T2"], {"S1": runs("T1", "T2"), "S2": Claim(learning={"T1": True})})
    assert shares == {"S1": Share(("T1", "T2")), "S2": Share(learning=("T1",))}


def test_a_task_without_an_owner_goes_to_its_learner_ready_or_not() -> None:
    """CORRECTNESS S6: half a copy of its state is better than none."""
    shares = place(["T1", "T2"], {"S1": runs("T2"), "S2": Claim(learning={"T1": False})})
    assert assigned(shares) == {"S1": ("T2",), "S2": ("T1",)}


def test_who_leaves_gets_nothing_new_and_learns_nothing_more() -> None:
    shares = place(TASKS[:3], {"S1": runs("T1", leaving=True, T2=True), "S2": Claim()})
    assert assigned(shares) == {"S1": ("T1",), "S2": ("T2", "T3")}
    assert learning(shares) == {"S2": ("T1",)}


def test_with_nobody_left_to_stay_everybody_keeps_what_is_there() -> None:
    shares = place(TASKS, {"S1": runs("T1", leaving=True), "S2": gave_up("T2", leaving=True)})
    assert assigned(shares) == {"S1": ("T1",), "S2": ("T2",)}
    assert learning(shares) == {}


def test_tasks_of_who_leaves_are_dealt_in_turn_up_to_a_fair_share() -> None:
    members = {"S1": runs("T1", "T2"), "S2": runs("T3", "T4", "T5", leaving=True), "S3": Claim()}
    assert learning(place(TASKS, members)) == {"S1": ("T3",), "S3": ("T4", "T5")}


def test_two_that_learn_the_same_are_one_the_readier() -> None:
    shares = place(["T1"], {"S1": Claim(learning={"T1": False}), "S2": Claim(learning={"T1": True})})
    assert assigned(shares) == {"S1": (), "S2": ("T1",)}


def test_who_has_much_only_by_learning_gives_nothing_yet() -> None:
    learner: Claim[str] = Claim(learning={"T1": False, "T2": False, "T3": False})
    members = {"S1": runs("T1", "T2", "T3"), "S2": learner, "S3": Claim()}
    assert learning(place(TASKS[:3], members)) == {"S2": ("T1", "T2", "T3")}


names = st.sampled_from(["S1", "S2", "S3", "S4", "S5", "S6"])


@st.composite
def groups(draw: st.DrawFn) -> tuple[tuple[str, ...], dict[str, Claim[str]]]:
    """Any claims of which no two hold the same task."""
    tasks = tuple(f"T{n}" for n in range(draw(st.integers(0, 12))))
    members = sorted(draw(st.sets(names, min_size=1)))
    holders = {task: draw(st.sampled_from([*members, None])) for task in tasks}
    return tasks, {
        name: Claim(
            frozenset(mine := {t for t in tasks if holders[t] == name and draw(st.booleans())}),
            frozenset(t for t in tasks if holders[t] == name and t not in mine),
            {t: draw(st.booleans()) for t in tasks if holders[t] != name and draw(st.booleans())},
            leaving=draw(st.booleans()),
        )
        for name in members
    }


@given(groups())
def test_each_task_has_one_owner_at_most_one_learner_and_nobody_loses_what_he_holds(
    group: tuple[tuple[str, ...], dict[str, Claim[str]]],
) -> None:
    """CORRECTNESS S1."""
    tasks, members = group
    shares = place(tasks, members)
    owners = Counter(task for share in shares.values() for task in share.assigned)
    learners = Counter(task for share in shares.values() for task in share.learning)
    assert max(owners.values(), default=0) <= 1 and max(learners.values(), default=0) <= 1
    if any(not claim.leaving for claim in members.values()):
        assert set(owners) == set(tasks)
    for name, claim in members.items():
        assert claim.assigned <= set(shares[name].assigned)
        assert not set(shares[name].assigned) & set(shares[name].learning)
        if claim.leaving:
            assert set(shares[name].assigned) <= claim.assigned | claim.revoked
            assert shares[name].learning == ()


@given(groups())
def test_the_order_in_which_members_are_named_decides_nothing(
    group: tuple[tuple[str, ...], dict[str, Claim[str]]],
) -> None:
    tasks, members = group
    assert place(tasks[::-1], dict(reversed(members.items()))) == place(tasks, members)
