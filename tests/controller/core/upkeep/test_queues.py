"""Requests that are removed from a dead broker's queue, and those that stay (CORRECTNESS Q4, Q5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from strandline.controller.core.upkeep.queues import (
    Backlog,
    QueueEntry,
    backlog,
    ended,
    merge,
    settle,
    waiting_keys,
)
from strandline.ids import BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.coalescing import superseded
from strandline.vocabulary.state_changes import Command, End, RequestState, StateChange

TOPIC_ID = TopicId("a" * 32)
START, CLOSE, DELETE = Command.START_REPLICA, Command.CLOSE_REPLICA, Command.DELETE_REPLICA


def key(number: int) -> PartitionKey:
    return PartitionKey(TOPIC_ID, PartitionId(number))


def request(
    name: str, command: Command = START, partition: int = 0, epoch: int = 1, at_ms: int = 5
) -> StateChange:
    return StateChange(name, command, "t", key(partition), LeaderEpoch(epoch), BrokerId(1), at_ms)


def over(change: StateChange) -> StateChange:
    return replace(change, end=End(RequestState.COMPLETED, 9, 8))


def entries(*znodes: Sequence[StateChange]) -> list[QueueEntry]:
    return [QueueEntry(f"request-{n:010}", 0, 100, tuple(changes)) for n, changes in enumerate(znodes)]


def ends(settled: dict[QueueEntry, tuple[StateChange, ...]]) -> dict[str, str]:
    return {
        change.request_id: change.end.reason
        for changes in settled.values()
        for change in changes
        if change.end is not None
    }


def test_a_backlog_counts_what_has_not_ended_and_knows_the_oldest() -> None:
    found = entries([over(request("a", at_ms=1)), request("b", at_ms=3)], [request("c", at_ms=2)])
    assert backlog(found) == Backlog(2, 2, 2)
    assert backlog([]) == Backlog(0, 0, 0)
    assert waiting_keys(entries([over(request("a", partition=1)), request("b")])) == {key(0)}


def test_superseded_requests_end_with_a_reason_and_the_time() -> None:
    queue = entries(
        [request("a", epoch=1), request("x", partition=1)], [request("b", epoch=2)], [request("y", DELETE, 1)]
    )
    settled = settle(queue, (), 77, coalesce=True)
    assert set(ends(settled)) == {"a", "x"}
    assert list(settled) == [queue[0]]
    for change in settled[queue[0]]:
        assert change.end is not None
        assert (change.end.state, change.end.at_ms, change.end.received_at_ms) == (
            RequestState.SUPERSEDED,
            77,
            -1,
        )
        assert change.end.reason.startswith("its broker is away: ")


def test_a_small_queue_is_left_to_its_broker() -> None:
    queue = entries([request("a", epoch=1)], [request("b", epoch=2)])
    assert settle(queue, (), 77, coalesce=False) == {}


def test_requests_for_a_deleted_partition_end_but_its_deletion_does_not() -> None:
    """Q7: a broker with data of it must still delete it."""
    queue = entries([request("a"), request("b", DELETE), request("c", CLOSE), request("d", partition=1)])
    assert set(ends(settle(queue, {key(0)}, 77, coalesce=False))) == {"a", "c"}


def test_an_ended_request_never_ends_again() -> None:
    """Q5: a request has one end."""
    queue = entries([over(request("a")), request("b", DELETE)])
    assert settle(queue, {key(0)}, 77, coalesce=True) == {}


def test_an_entry_is_over_when_all_in_it_has_ended() -> None:
    one, other, empty = entries([over(request("a"))], [over(request("b")), request("c")], [])
    assert (ended(one), ended(other), ended(empty)) == (True, False, True)


def test_neighbours_are_put_together_in_order_without_what_is_recorded() -> None:
    a, b, c, d = over(request("a")), over(request("b")), request("c"), request("d")
    (merged,) = merge(entries([a, c], [b], [d]), {"a"}, bytes_max=1_000, entries_max=10)
    assert [change.request_id for change in merged.changes] == ["c", "b", "d"]
    assert merged.left_out == {"a"}


def test_a_znode_that_nothing_leaves_and_nothing_joins_is_not_written() -> None:
    assert merge(entries([request("a")]), (), bytes_max=1_000, entries_max=10) == []
    (alone,) = merge(entries([over(request("a")), request("b")]), {"a"}, bytes_max=1_000, entries_max=10)
    assert [change.request_id for change in alone.changes] == ["b"]


def test_runs_keep_within_bytes_and_znodes() -> None:
    queue = entries(*([request(str(n), partition=n)] for n in range(7)))
    by_bytes = merge(queue, (), bytes_max=250, entries_max=10)
    assert [len(each.entries) for each in by_bytes] == [2, 2, 2]
    by_count = merge(queue, (), bytes_max=10_000, entries_max=3)
    assert [len(each.entries) for each in by_count] == [3, 3]


COMMANDS = st.sampled_from([START, START, CLOSE, DELETE])


@given(
    st.lists(st.lists(st.tuples(COMMANDS, st.integers(0, 2), st.integers(0, 3), st.booleans()), max_size=4)),
    st.sets(st.integers(0, 2)),
)
def test_settling_and_merging_keeps_what_is_to_be_done_in_its_order(
    drawn: list[list[tuple[Command, int, int, bool]]], gone: set[int]
) -> None:
    """Q4, Q5: what is left to do after settling is what `superseded` leaves, and merging changes none of it;
    a second settling finds nothing."""
    numbers = iter(range(10_000))
    queue = entries(
        *(
            [
                over(made) if is_over else made
                for command, partition, epoch, is_over in znode
                for made in [request(str(next(numbers)), command, partition, epoch)]
            ]
            for znode in drawn
        )
    )
    every = [change for entry in queue for change in entry.changes]
    needless = superseded(every)
    absent = {key(number) for number in gone}
    wanted = [
        change.request_id
        for change in every
        if change.end is None
        and change.request_id not in needless
        and not (change.key in absent and change.command is not DELETE)
    ]
    settled = settle(queue, absent, 77, coalesce=True)
    now = [replace(entry, changes=settled.get(entry, entry.changes)) for entry in queue]
    assert [c.request_id for entry in now for c in entry.changes if c.end is None] == wanted
    assert settle(now, absent, 78, coalesce=True) == {}
    recorded = {c.request_id for entry in now for c in entry.changes if c.end is not None}
    merges = {each.entries[0]: each for each in merge(now, recorded, bytes_max=300, entries_max=2)}
    inner = {entry for each in merges.values() for entry in each.entries[1:]}
    left = [
        change.request_id
        for entry in now
        if entry not in inner
        for change in (merges[entry].changes if entry in merges else entry.changes)
        if change.end is None
    ]
    assert left == wanted
