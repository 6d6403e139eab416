"""The rebalances that a group's events tell of, in the order in which a coordinator writes them."""

from __future__ import annotations

from typing import Any

from strandline.console.core.groups.rebalances import (
    NAMES_MAX,
    REBALANCES_MAX,
    Departed,
    Departure,
    End,
    History,
    Moves,
    rebalances,
)
from strandline.ids import TopicPartition


class Log:
    """Events of one group, a second apart."""

    def __init__(self) -> None:
        self.events: list[tuple[str | None, dict[str, Any]]] = []

    def add(self, event: str, generation: int, **fields: Any) -> Log:
        at_ms = len(self.events) * 1_000
        self.events.append(
            (
                f"group/0/{len(self.events)}",
                {"event": event, "group": "g", "generation": generation, "at_ms": at_ms, **fields},
            )
        )
        return self

    def generation(self, number: int) -> Log:
        return (
            self.add("generation_ended", number - 1)
            .add("generation_started", number, reason="r")
            .add("generation_stable", number)
        )

    def read(self) -> History:
        return rebalances(self.events)


def names(*numbers: int) -> set[TopicPartition]:
    return {TopicPartition("t", number) for number in numbers}


def test_a_member_that_joins_causes_a_rebalance_which_gives_it_partitions() -> None:
    log = Log().add("member_joined", 1, member="b", reason="subscribed to t")
    log.add("rebalance_started", 1, reason="member b joined", caused_by="b")
    log.add("revoked", 1, member="a", partitions={"t": [1]}).generation(2)
    log.add("assigned", 2, member="b", partitions={"t": [1]})
    (only,) = log.read().rebalances
    assert (only.reason, only.caused_by, only.generation, only.end) == ("member b joined", "b", 2, End.STABLE)
    assert (only.began_ms, only.ended_ms, only.took_ms) == (1_000, 5_000, 4_000)
    assert only.event == "group/0/1"
    assert only.changes.joined == {"b": "subscribed to t"}
    assert only.changes.moves == {"a": Moves(gave_up=names(1)), "b": Moves(got=names(1))}


def test_who_left_who_was_silent_and_who_was_too_slow_is_told_apart() -> None:
    log = Log()
    for member, reason in (
        ("a", "left: the consumer was closed"),
        ("b", "not heard of for 10000 ms"),
        ("c", "did not join again within 300000 ms"),
        ("d", "member e took the place of instance till-1"),
        ("f", "the group is Dead"),
    ):
        log.add("member_left", 1, member=member, reason=reason)
    log.add("rebalance_started", 1, reason="member a left", caused_by="a")
    (only,) = log.read().rebalances
    assert [(each.member, each.how) for each in only.changes.left.values()] == [
        ("a", Departure.LEFT),
        ("b", Departure.TIMED_OUT),
        ("c", Departure.TOO_SLOW),
        ("d", Departure.REPLACED),
        ("f", Departure.REMOVED),
    ]
    assert only.changes.left["b"] == Departed("b", Departure.TIMED_OUT, "not heard of for 10000 ms")
    assert only.end is End.UNDER_WAY


def test_what_a_dead_member_owned_is_lost_and_goes_to_another_in_the_next_generation() -> None:
    log = Log().add("lost", 3, member="b", reason="not heard of for 1 ms", partitions={"t": [0, 2]})
    log.add("member_left", 3, member="b", reason="not heard of for 1 ms")
    log.add("rebalance_started", 3, reason="member b was not heard of", caused_by="b").generation(4)
    log.add("rebalance_started", 4, reason="again").generation(5)
    log.add("assigned", 4, member="a", partitions={"t": [0, 2]})
    newest, older = log.read().rebalances
    assert older.changes.moves == {"b": Moves(lost=names(0, 2)), "a": Moves(got=names(0, 2))}
    assert not newest.changes.moves


def test_a_rebalance_that_another_one_interrupts_did_not_end() -> None:
    log = Log().add("rebalance_started", 1, reason="one").add("generation_ended", 1)
    log.add("generation_started", 2).add("rebalance_started", 2, reason="two").generation(3)
    newest, older = log.read().rebalances
    assert (older.end, older.generation, older.took_ms) == (End.INTERRUPTED, 2, None)
    assert (newest.end, newest.generation) == (End.STABLE, 3)


def test_the_last_member_ends_the_group_and_the_next_one_begins_it_again() -> None:
    """No generation begins without members, so none is announced."""
    log = Log().add("member_left", 1, member="a", reason="left")
    log.add("rebalance_started", 1, reason="member a left").add("generation_ended", 1)
    assert [each.end for each in log.read().rebalances] == [End.EMPTY]
    log.add("member_joined", 2, member="b").add("rebalance_started", 2, reason="member b joined")
    log.add("generation_started", 3).add("generation_stable", 3)
    newest, older = log.read().rebalances
    assert (older.end, older.generation) == (End.EMPTY, None)
    assert (newest.end, newest.generation, list(newest.changes.joined)) == (End.STABLE, 3, ["b"])


def test_events_that_begin_in_the_middle_still_tell_the_rest() -> None:
    """The topic keeps seven days, and the window less."""
    log = Log().add("generation_started", 8, reason="member b joined", caused_by="b")
    log.add("generation_stable", 8).add("assigned", 8, member="b", partitions={"t": [0]})
    (only,) = log.read().rebalances
    assert (only.began_ms, only.generation, only.end, only.reason) == (None, 8, End.STABLE, "member b joined")
    assert only.at_ms == 1_000
    assert only.changes.moves == {"b": Moves(got=names(0))}


def test_an_instance_that_returns_changes_members_without_a_rebalance() -> None:
    """KIP-345: the other members do not notice."""
    log = Log().add("rebalance_started", 1).generation(2)
    log.add("member_left", 2, member="a", reason="member b took the place of instance till")
    log.add("member_joined", 2, member="b")
    history = log.read()
    assert not history.rebalances[0].changes
    assert list(history.since.joined) == ["b"]
    assert history.since.left["a"].how is Departure.REPLACED


def test_unknown_events_and_unknown_shapes_hide_nothing_else() -> None:
    log = Log().add("member_promoted", 1, member="a").add("rebalance_started", 1, reason="r")
    for partitions in (None, 3, [1], {"t": 1}, {"t": ["x", True]}):
        log.add("revoked", 1, member="a", partitions=partitions)
    log.add("revoked", 1, partitions={"t": [4]}).add("task_running", 1, member="a", task="t-1")
    (only,) = log.read().rebalances
    assert only.changes.moves == {"a": Moves(), "": Moves(gave_up=names(4))}


def test_the_newest_rebalances_and_a_bounded_number_of_names_are_kept() -> None:
    log = Log()
    for number in range(REBALANCES_MAX + 3):
        log.add("rebalance_started", number, reason=f"r{number}")
    for number in range(NAMES_MAX + 1):
        log.add("member_joined", 99, member=f"m{number}")
    log.add("revoked", 99, member="a", partitions={"t": list(range(NAMES_MAX + 1))})
    history = log.read()
    assert len(history.rebalances) == REBALANCES_MAX
    newest = history.rebalances[0]
    assert newest.reason == f"r{REBALANCES_MAX + 2}"
    assert len(newest.changes.joined) == len(newest.changes.moves["a"].gave_up) == NAMES_MAX
    assert newest.changes.cut


def test_an_epoch_ends_when_all_members_are_there_and_names_who_was_waited_for() -> None:
    """Of a group whose coordinator assigns: what a member gets later is a part of it, too."""
    log = Log().add("member_joined", 3, member="b", type="consumer")
    log.add("rebalance_started", 3, reason="member b joined", caused_by="b", type="consumer")
    log.add("generation_started", 3).add("revoking", 3, member="a", partitions={"t": [1]})
    log.add("revoked", 2, member="a", partitions={"t": [1]})
    log.add("assigned", 3, member="b", partitions={"t": [1]})
    log.add("generation_stable", 3, reason="member a gave partitions up last", caused_by="a")
    (only,) = log.read().rebalances
    assert (only.generation, only.end, only.waited_for, only.took_ms) == (3, End.STABLE, "a", 5_000)
    assert only.changes.moves == {"a": Moves(gave_up=names(1)), "b": Moves(got=names(1))}
    log.add("lost", 3, member="b", partitions={"t": [1]}, reason="was silent for 45000 ms")
    log.add("member_left", 4, member="b", reason="was silent for 45000 ms")
    log.add("rebalance_started", 4, reason="member b was silent", caused_by="b")
    log.add("generation_started", 4).add("assigned", 4, member="a", partitions={"t": [1]})
    log.add("generation_stable", 4)
    last = log.read().rebalances[0]
    assert last.changes.left["b"].how is Departure.TIMED_OUT
    assert (last.waited_for, last.changes.moves["a"].got) == ("", names(1))
