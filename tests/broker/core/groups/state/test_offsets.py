"""Committed offsets: only written ones are visible, in any order of results (G12)."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.groups.state.offsets import FIRST_LOADED, Offsets
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset
from tests.broker.core.groups.support.stage import partition

P0, P1 = partition(0), partition(1)


def at(offset: int, at_ms: int = 0) -> CommittedOffset:
    return CommittedOffset(offset, committed_at_ms=at_ms)


def written(offsets: Offsets, write_id: int, name: TopicPartition, committed: CommittedOffset) -> None:
    """A commit that was in flight is in the log."""
    offsets.replay(name, committed, write_id)
    offsets.not_writing([name])


def test_an_offset_is_not_seen_before_it_is_written() -> None:
    """CORRECTNESS G12"""
    offsets = Offsets()
    offsets.writing([P0])
    assert offsets.get(P0) is None
    assert offsets.busy
    written(offsets, 1, P0, at(5))
    assert offsets.get(P0) == at(5)
    assert not offsets.busy


def test_a_later_commit_is_not_undone_by_the_late_result_of_an_earlier_one() -> None:
    """CORRECTNESS G12: the log has them in the order of their writes."""
    offsets = Offsets()
    offsets.writing([P0])
    offsets.writing([P0])
    written(offsets, 2, P0, at(20))
    written(offsets, 1, P0, at(10))
    assert offsets.get(P0) == at(20)


def test_a_removed_offset_does_not_come_back_with_an_earlier_commit() -> None:
    offsets = Offsets()
    offsets.writing([P0])
    offsets.replay(P0, None, 2)
    written(offsets, 1, P0, at(10))
    assert offsets.get(P0) is None
    offsets.writing([P0])
    written(offsets, 3, P0, at(30))
    assert offsets.get(P0) == at(30)


def test_a_removal_leaves_what_was_committed_after_it() -> None:
    offsets = Offsets()
    offsets.replay(P0, at(1), FIRST_LOADED)
    offsets.writing([P0])
    written(offsets, 2, P0, at(20))
    offsets.replay(P0, None, 1)
    assert offsets.get(P0) == at(20)


def test_a_failed_commit_leaves_what_was_there() -> None:
    """CORRECTNESS G12"""
    offsets = Offsets()
    offsets.replay(P0, at(1), FIRST_LOADED)
    offsets.writing([P0, P1])
    offsets.not_writing([P0, P1])
    assert offsets.everything() == {P0: at(1)}
    assert not offsets.busy


def test_an_offset_that_is_being_committed_again_is_not_old() -> None:
    offsets = Offsets()
    offsets.replay(P0, at(1, at_ms=100), 1)
    offsets.replay(P1, at(1, at_ms=200), 2)
    assert offsets.older_than(100) == [P0]
    offsets.writing([P0])
    assert offsets.older_than(200) == [P1]


@dataclass(slots=True)
class Write:
    """A commit, or a removal (None), of these partitions. `there`: it is in the log; None while in flight."""

    names: list[TopicPartition]
    committed: CommittedOffset | None
    there: bool | None = None


NAMES = st.lists(st.sampled_from([partition(number) for number in range(3)]), min_size=1, unique=True)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["commit", "remove"]), NAMES, st.just(0)),
        st.tuples(st.sampled_from(["settle", "settle", "fail"]), st.just([]), st.integers(0, 4)),
    ),
    max_size=40,
)


@given(STEPS)
def test_writes_that_settle_in_any_order_leave_what_a_coordinator_loads(
    steps: list[tuple[str, list[TopicPartition], int]],
) -> None:
    """CORRECTNESS G12: at every point, the offsets are those of the settled writes in the log's order."""
    offsets = Offsets()
    writes: list[Write] = []
    for what, names, number in steps:
        if names:
            writes.append(Write(names, at(len(writes)) if what == "commit" else None))
            if what == "commit":
                offsets.writing(names)
            continue
        in_flight = [write_id for write_id, write in enumerate(writes) if write.there is None]
        if number >= len(in_flight):
            continue
        write_id, write = in_flight[number], writes[in_flight[number]]
        write.there = what == "settle"
        if write.there:
            for name in write.names:
                offsets.replay(name, write.committed, write_id)
        if write.committed is not None:
            offsets.not_writing(write.names)
        assert offsets.everything() == loaded(writes)
    assert offsets.busy == any(write.there is None and write.committed for write in writes)


def loaded(writes: list[Write]) -> dict[TopicPartition, CommittedOffset]:
    """The offsets of a coordinator that loads what is in the log."""
    offsets = Offsets()
    for position, write in enumerate(writes, FIRST_LOADED):
        for name in write.names if write.there else ():
            offsets.replay(name, write.committed, position)
    return offsets.everything()
