"""The measurements of a rebalance: partitions without an owner, consumers without records, and the end."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from strandline_lab.perf.rebalance import stride
from strandline_lab.perf.rebalance_times import Line, Ownership, Span, effects, silences, unowned


def said(at: float, member: str, event: str, *partitions: int) -> Line:
    return Line(at, member, event, partitions)


def test_a_partition_is_without_an_owner_from_its_revocation_to_its_next_assignment() -> None:
    """This holds for any new owner: in an eager rebalance most partitions return to their old one."""
    lines = [
        said(0, "a", "assigned", 0, 1, 2),
        said(10, "a", "revoked", 0, 1),
        said(12, "b", "assigned", 0),
        said(13, "a", "assigned", 1),
    ]
    assert unowned(lines, Span(9, 14)) == {0: 2, 1: 3}


def test_a_partition_that_was_never_owned_was_not_taken_from_a_member() -> None:
    """The time before the first assignment is the group's beginning, not a rebalance."""
    assert unowned([said(5, "a", "assigned", 0)], Span(0, 10)) == {}


def test_a_partition_with_overlapping_owners_has_no_pause() -> None:
    """Two members that both own it are wrong, but not a pause; it has none once both have let go."""
    lines = [
        said(0, "a", "assigned", 0),
        said(1, "b", "assigned", 0),
        said(2, "a", "revoked", 0),
        said(4, "b", "lost", 0),
        said(7, "a", "assigned", 0),
    ]
    assert unowned(lines, Span(0, 9)) == {0: 3}


def test_interruptions_of_another_change_do_not_count() -> None:
    lines = [
        said(0, "a", "assigned", 0),
        said(1, "a", "revoked", 0),
        said(2, "b", "assigned", 0),
        said(11, "b", "revoked", 0),
        said(15, "a", "assigned", 0),
    ]
    assert unowned(lines, Span(10, 15)) == {0: 4}


def test_silence_is_between_records_of_what_a_member_keeps() -> None:
    """Records of a partition that comes or goes say nothing about the work that could have gone on."""
    lines = [
        said(1, "a", "received", 0),
        said(2, "a", "received", 9),
        said(6, "a", "received", 0, 9),
        said(7, "a", "received", 0),
        said(1, "b", "received", 5),
        said(30, "b", "received", 5),
        said(31, "a", "received", 0),
    ]
    assert silences(lines, Span(3, 5), {"a": {0}, "b": {5}}) == {"a": 5, "b": 29}


def test_a_silence_that_has_not_ended_counts_as_far_as_it_went() -> None:
    """A member that stopped for good is not the one with the shortest silence."""
    lines = [said(1, "a", "received", 0), said(20, "b", "received", 1)]
    assert silences(lines, Span(3, 5), {"a": {0}}) == {"a": 19}


def test_a_change_is_recognized_by_moved_and_kept_partitions() -> None:
    """A cooperative rebalance: one partition moves from a to b, with a time without an owner; the others
    stay."""
    lines = [
        said(0, "a", "assigned", 0, 1),
        said(9, "a", "received", 0),
        said(10.2, "a", "revoked", 1),
        said(10.3, "a", "received", 0),
        said(10.7, "b", "assigned", 1),
        said(11, "a", "received", 0),
    ]
    found = effects(lines, Span(10, 10.7))
    assert round(found.settle_s, 6) == 0.7
    assert (found.moved, {n: round(s, 6) for n, s in found.unowned_s.items()}) == (1, {1: 0.5})
    assert {member: round(s, 6) for member, s in found.silent_s.items()} == {"a": 1.3}


def test_partitions_are_shared_when_each_has_one_owner_and_all_have_as_many() -> None:
    """Only then is a change over."""
    ownership = Ownership()
    assert not ownership.shared_by(["a"], 1)
    ownership.apply(said(0, "a", "assigned", 0, 1, 2))
    assert ownership.shared_by(["a"], 3)
    assert not ownership.shared_by(["a"], 4)
    assert not ownership.shared_by(["a", "b"], 3)
    ownership.apply(said(1, "b", "assigned", 2))
    assert not ownership.shared_by(["a", "b"], 3)
    ownership.apply(said(2, "a", "revoked", 2))
    assert ownership.shared_by(["a", "b"], 3)
    assert not ownership.shared_by(["b"], 3)
    assert not ownership.shared_by([], 3)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from(["assigned", "revoked", "lost", "received"]),
            st.sets(st.integers(0, 3)),
        ),
        max_size=30,
    )
)
def test_the_time_without_an_owner_agrees_with_looking_at_every_moment(
    steps: list[tuple[str, str, set[int]]],
) -> None:
    """Against the slow way: a partition that had an owner and gets one again lacks one at the moments
    between."""
    lines = [said(at, member, event, *sorted(names)) for at, (member, event, names) in enumerate(steps)]
    ownership, ever = Ownership(), set()
    without: dict[int, list[int]] = {}
    expected: dict[int, float] = {}
    for line in lines:
        ownership.apply(line)
        for partition in range(4):
            if ownership.owners.get(partition):
                gone = without.pop(partition, [])
                if gone:
                    expected[partition] = expected.get(partition, 0) + len(gone)
                ever.add(partition)
            elif partition in ever:
                without.setdefault(partition, []).append(1)
    assert unowned(lines, Span(-1, len(lines))) == expected


@given(st.integers(1, 3000))
def test_partitions_are_written_to_in_turn(partitions: int) -> None:
    """A partition that is left out would look silent forever."""
    step = stride(partitions)
    assert {number * step % partitions for number in range(partitions)} == set(range(partitions))


def test_neighbours_are_written_to_evenly() -> None:
    """A tenth of a thousand partitions, all beside each other, waits for its next record at most a few
    times as long as it would on the mean."""
    step = stride(1000)
    mine = [number for number in range(2000) if number * step % 1000 < 100]
    assert max(after - before for before, after in pairwise(mine)) <= 30
