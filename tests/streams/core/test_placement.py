"""Placement of running and learned tasks, rule by rule (Kafka's proposal for learner tasks)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from strandline.streams.core.placement import Claim, Share, learned_tasks, place

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


def test_a_ready_learner_takes_over_and_the_owner_is_notified() -> None:
    shares = place(["T1", "T2"], {"S1": gave_up("T1", keeps=("T2",)), "S2": Claim(learning={"T1": True})})
    assert shares["S1"] == Share(("T2",), revoked=("T1",))
    assert shares["S2"] == Share(("T1",))


def test_an_owner_gets_back_tasks_without_a_ready_learner() -> None:
    shares = place(["T1", "T2"], {"S1": gave_up("T1", keeps=("T2",)), "S2": Claim(learning={"T1": False})})
    assert shares["S1"] == Share(("T1", "T2"))
    assert shares["S2"] == Share(learning=("T1",))


def test_a_held_task_is_given_to_no_other_member() -> None:
    """CORRECTNESS S1: an owner that never heard of the learner has not revoked the task."""
    shares = place(["T1", "T2"], {"S1": runs("T1", "T2"), "S2": Claim(learning={"T1": True})})
    assert shares == {"S1": Share(("T1", "T2")), "S2": Share(learning=("T1",))}


def test_a_task_without_an_owner_goes_to_its_learner_ready_or_not() -> None:
    """CORRECTNESS S6: half a copy of its state is better than none."""
    shares = place(["T1", "T2"], {"S1": runs("T2"), "S2": Claim(learning={"T1": False})})
    assert assigned(shares) == {"S1": ("T2",), "S2": ("T1",)}


def test_a_leaving_member_gets_no_new_tasks_and_learns_none() -> None:
    shares = place(TASKS[:3], {"S1": runs("T1", leaving=True, T2=True), "S2": Claim()})
    assert assigned(shares) == {"S1": ("T1",), "S2": ("T2", "T3")}
    assert learning(shares) == {"S2": ("T1",)}


def test_if_no_member_stays_all_keep_their_tasks() -> None:
    shares = place(TASKS, {"S1": runs("T1", leaving=True), "S2": gave_up("T2", leaving=True)})
    assert assigned(shares) == {"S1": ("T1",), "S2": ("T2",)}
    assert learning(shares) == {}


def test_tasks_of_leaving_members_are_dealt_in_turn_up_to_a_fair_share() -> None:
    members = {"S1": runs("T1", "T2"), "S2": runs("T3", "T4", "T5", leaving=True), "S3": Claim()}
    assert learning(place(TASKS, members)) == {"S1": ("T3",), "S3": ("T4", "T5")}


def test_the_readier_of_two_learners_of_a_task_is_kept() -> None:
    shares = place(["T1"], {"S1": Claim(learning={"T1": False}), "S2": Claim(learning={"T1": True})})
    assert assigned(shares) == {"S1": (), "S2": ("T1",)}


def test_a_learner_of_many_tasks_gives_none_up_yet() -> None:
    learner: Claim[str] = Claim(learning={"T1": False, "T2": False, "T3": False})
    members = {"S1": runs("T1", "T2", "T3"), "S2": learner, "S3": Claim()}
    assert learning(place(TASKS[:3], members)) == {"S2": ("T1", "T2", "T3")}


# --- standbys -----------------------------------------------------------------------------------


def stands_by(*ready: str, runs: tuple[str, ...] = (), late: tuple[str, ...] = ()) -> Claim[str]:
    """`late`: what it keeps a copy of, and could not run now."""
    return Claim(frozenset(runs), standbys=dict.fromkeys(ready, True) | dict.fromkeys(late, False))


def standbys(shares: Mapping[str, Share[str]]) -> dict[str, tuple[str, ...]]:
    return {name: share.standbys for name, share in shares.items() if share.standbys}


def test_standbys_go_to_the_members_with_the_fewest_copies() -> None:
    shares = place(TASKS, {"S1": Claim(), "S2": Claim(), "S3": Claim()}, num_standbys=1)
    assert assigned(shares) == {"S1": ("T1", "T4"), "S2": ("T2", "T5"), "S3": ("T3",)}
    assert standbys(shares) == {"S1": ("T2", "T3"), "S2": ("T1",), "S3": ("T4", "T5")}


def test_with_too_few_members_there_are_fewer_standbys() -> None:
    assert standbys(place(TASKS, {"S1": Claim()}, num_standbys=2)) == {}
    two = place(["T1"], {"S1": Claim(), "S2": Claim()}, num_standbys=2)
    assert standbys(two) == {"S2": ("T1",)}


def test_a_leaving_member_keeps_no_standby() -> None:
    leaving = Claim(standbys={"T1": True}, leaving=True)
    shares = place(["T1"], {"S1": runs("T1"), "S2": leaving, "S3": Claim()}, num_standbys=1)
    assert standbys(shares) == {"S3": ("T1",)}


def test_stateless_tasks_have_no_standby() -> None:
    shares = place(["T1", "T2"], {"S1": Claim(), "S2": Claim()}, num_standbys=1, stateless={"T1"})
    assert standbys(shares) == {"S1": ("T2",)}


def test_standbys_under_way_stay_where_they_are_and_the_readiest_if_they_are_too_many() -> None:
    members = {"S1": runs("T1"), "S2": stands_by(late=("T1",)), "S3": stands_by("T1"), "S4": Claim()}
    assert standbys(place(["T1"], members, num_standbys=2)) == {"S2": ("T1",), "S3": ("T1",)}
    assert standbys(place(["T1"], members, num_standbys=1)) == {"S3": ("T1",)}
    assert standbys(place(["T1"], members, num_standbys=0)) == {}


def test_the_former_owner_becomes_the_standby_rather_than_a_new_learner() -> None:
    members = {"S1": gave_up("T1", keeps=("T2",)), "S2": Claim(learning={"T1": True}), "S3": runs("T3")}
    kept = standbys(place(TASKS[:3], members, num_standbys=1))
    assert [name for name, tasks in kept.items() if "T1" in tasks] == ["S1"]


def test_a_copy_that_is_there_is_worth_more_than_an_even_number_of_copies() -> None:
    handed_over: Claim[str] = Claim(frozenset({"T2"}), frozenset({"T1"}), standbys={"T3": True})
    members = {"S1": handed_over, "S2": Claim(learning={"T1": True}), "S3": runs("T3"), "S4": Claim()}
    assert standbys(place(TASKS[:3], members, num_standbys=1))["S1"] == ("T1", "T3")


def test_copies_that_are_kept_count_when_others_are_dealt() -> None:
    members = {"S1": runs("T1", "T2"), "S2": stands_by("T1", runs=("T3",)), "S3": runs("T4")}
    kept = standbys(place(TASKS[:4], members, num_standbys=1))
    assert kept == {"S1": ("T3", "T4"), "S2": ("T1",), "S3": ("T2",)}


def test_while_a_task_is_learned_from_a_staying_owner_one_standby_less_begins() -> None:
    members = {"S1": runs("T1", "T2"), "S2": Claim(learning={"T1": False}), "S3": runs("T3")}
    shares = place(TASKS[:3], members, num_standbys=1)
    assert learning(shares) == {"S2": ("T1",)}
    assert not any("T1" in kept for kept in standbys(shares).values())
    members["S1"] = runs("T1", "T2", leaving=True)
    assert "T1" in standbys(place(TASKS[:3], members, num_standbys=1))["S3"]


def test_a_task_without_an_owner_goes_to_a_ready_standby_before_its_learner() -> None:
    """CORRECTNESS S6: and the learner continues."""
    members = {"S1": Claim(learning={"T1": False}), "S2": stands_by("T1"), "S3": stands_by(late=("T1",))}
    shares = place(["T1"], members, num_standbys=1)
    assert assigned(shares)["S2"] == ("T1",)
    assert learning(shares) == {"S1": ("T1",)} and standbys(shares) == {"S3": ("T1",)}


def test_a_task_without_an_owner_goes_to_its_learner_before_a_standby_that_is_not_ready() -> None:
    members = {"S1": stands_by(late=("T1",)), "S2": Claim(learning={"T1": False})}
    assert assigned(place(["T1"], members, num_standbys=1)) == {"S1": (), "S2": ("T1",)}


def test_a_task_that_only_standbys_have_goes_to_the_one_with_the_least_load() -> None:
    members = {"S1": stands_by("T1", runs=("T2",)), "S2": stands_by("T1"), "S3": Claim()}
    assert assigned(place(TASKS[:2], members))["S2"] == ("T1",)
    members = {"S1": stands_by(late=("T1",)), "S2": Claim()}
    assert assigned(place(["T1"], members))["S1"] == ("T1",), "half a copy of its state is better than none"


def test_a_standby_that_is_ready_goes_before_one_with_less_load() -> None:
    members = {"S1": stands_by("T1", runs=("T2",)), "S2": stands_by(late=("T1",))}
    assert assigned(place(TASKS[:2], members))["S1"] == ("T1", "T2")


def test_standbys_of_the_same_tasks_share_them_when_the_owner_dies() -> None:
    members = {"S1": stands_by("T1", "T2"), "S2": stands_by("T1", "T2")}
    assert assigned(place(TASKS[:2], members)) == {"S1": ("T1",), "S2": ("T2",)}


def test_tasks_of_leaving_members_are_learned_by_their_standbys_up_to_a_fair_share() -> None:
    leaving = runs("T1", "T2", "T3", leaving=True)
    members = {"S1": leaving, "S2": Claim(), "S3": stands_by("T1", "T2", "T3")}
    assert learning(place(TASKS[:3], members, num_standbys=1)) == {"S2": ("T3",), "S3": ("T1", "T2")}


def test_the_least_loaded_standby_learns_the_task_that_it_holds() -> None:
    members = {"S1": runs("T1", "T2", "T3"), "S2": Claim(), "S3": stands_by("T2", late=("T1",))}
    assert learning(place(TASKS[:3], members, num_standbys=1)) == {"S2": ("T1",), "S3": ("T2",)}
    members["S3"] = stands_by(late=("T3",))
    assert learning(place(TASKS[:3], members, num_standbys=1)) == {"S2": ("T1",), "S3": ("T3",)}


def test_standbys_unbalance_nothing() -> None:
    """S2 stands by for all, and gets its share of it."""
    members = {"S1": runs("T1", "T2", "T3", "T4"), "S2": stands_by("T1", "T2", "T3", "T4"), "S3": Claim()}
    loads = Counter(name for name, share in place(TASKS[:4], members).items() for _ in share.learning)
    assert loads == {"S2": 1, "S3": 1}


def test_a_learned_task_counts_as_ready_if_its_learner_reported_so_as_a_standby() -> None:
    """CORRECTNESS S5."""
    members = {"S1": runs("T1", "T2"), "S2": stands_by("T2")}
    assert learned_tasks(place(TASKS[:2], members, num_standbys=1), members) == {"T2": True}


# --- any claims ---------------------------------------------------------------------------------

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
            {t: draw(st.booleans()) for t in tasks if holders[t] != name and draw(st.booleans())},
            draw(st.booleans()),
        )
        for name in members
    }


@given(groups())
def test_each_task_has_one_owner_at_most_one_learner_and_no_member_loses_a_held_task(
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


@given(groups(), st.integers(0, 3))
def test_each_task_has_as_many_standbys_as_possible_on_members_that_neither_run_nor_learn_it(
    group: tuple[tuple[str, ...], dict[str, Claim[str]]], wanted: int
) -> None:
    tasks, members = group
    shares = place(tasks, members, num_standbys=wanted)
    staying = [name for name, claim in members.items() if not claim.leaving]
    kept = Counter(task for share in shares.values() for task in share.standbys)
    for name, share in shares.items():
        assert not set(share.standbys) & {*share.assigned, *share.learning}
        assert not (share.standbys and members[name].leaving)
    for task in tasks:
        busy = [n for n in staying if task in (*shares[n].assigned, *shares[n].learning)]
        under_way = any(task in share.learning for share in shares.values())
        possible = min(wanted, len(staying) - len(busy))
        assert possible - under_way <= kept[task] <= possible


@given(groups())
def test_how_many_standbys_are_wanted_changes_nothing_else(
    group: tuple[tuple[str, ...], dict[str, Claim[str]]],
) -> None:
    """Rule 7 comes last, and nothing of the rest depends on how many standbys are wanted."""
    tasks, members = group
    with_them = place(tasks, members, num_standbys=2)
    again = place(tasks, members)
    assert {n: (s.assigned, s.learning) for n, s in with_them.items()} == {
        n: (s.assigned, s.learning) for n, s in again.items()
    }
