"""The events in an `isr` znode: all that may not be recorded yet, each once, within a bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.state_changes.events import elected, isr_changed, resigned, truncated
from strandline.broker.core.state_changes.trail import extend
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.metadata import IsrMember, PartitionState
from strandline.vocabulary.state_changes import RequestState, StateChangeEvent

KEY = PartitionKey(TopicId("a" * 32), PartitionId(3))


def led(epoch: int, *isr: int, leader: int = 1) -> PartitionState:
    members = tuple(IsrMember(BrokerId(b), BrokerEpoch(b * 10)) for b in isr)
    return PartitionState(BrokerId(leader), LeaderEpoch(epoch), members)


def won(epoch: int, *, at_ms: int = 0) -> StateChangeEvent:
    return elected("orders", KEY, led(epoch, 1), at_ms=at_ms, reason="first election")


def test_events_that_may_be_unrecorded_stay_before_the_new_one() -> None:
    """CORRECTNESS E7: nothing is dropped because its writer does not know."""
    assert extend([won(1)], [won(2)], set(), 16) == ((won(1), won(2)), ())


def test_recorded_events_leave_the_trail() -> None:
    assert extend([won(1), won(2)], [won(3)], {won(1).identity}, 16) == ((won(2), won(3)), ())


def test_an_event_that_is_there_already_is_not_added_twice() -> None:
    """A retry after a write with unknown outcome adds the same event at another time."""
    assert extend([won(1)], [won(1, at_ms=7)], set(), 16) == ((won(1),), ())


def test_beyond_the_bound_the_oldest_go_and_are_named() -> None:
    trail = [won(epoch) for epoch in range(4)]
    assert extend(trail, [won(4)], set(), 3) == ((won(2), won(3), won(4)), (won(0), won(1)))


@given(
    found=st.lists(st.integers(0, 20), unique=True),
    new=st.lists(st.integers(0, 20), unique=True),
    recorded=st.sets(st.integers(0, 20)),
    events_max=st.integers(1, 8),
)
def test_no_event_is_dropped_without_a_report(
    found: list[int], new: list[int], recorded: set[int], events_max: int
) -> None:
    """Each event is in the znode, or recorded, or named as dropped; never in two of them."""
    known = {won(epoch).identity for epoch in recorded}
    trail, dropped = extend([won(e) for e in found], [won(e) for e in new], known, events_max)
    kept = [event.epoch for event in (*dropped, *trail)]
    assert len(trail) <= events_max
    assert not dropped or len(trail) == events_max
    assert sorted(kept) == sorted((set(found) | set(new)) - recorded)
    assert kept == [e for e in dict.fromkeys(found + new) if e not in recorded]


def test_ids_are_made_of_facts_and_distinguish_events() -> None:
    """Readers take the first of one identity: two events never share one, and one that is recorded twice has
    one."""
    events = [
        won(1),
        won(2),
        resigned("orders", KEY, BrokerId(1), led(1, 1, leader=NO_BROKER), at_ms=0, reason="shutting down"),
        isr_changed("orders", KEY, led(1, 1, 2), 4, at_ms=0, reason="broker 3 is late"),
        isr_changed("orders", KEY, led(1, 1), 5, at_ms=0, reason="broker 2 is late"),
        *(
            truncated(
                "orders", KEY, BrokerId(broker), LeaderEpoch(1),
                first=first, end=9, lost=0, at_ms=0, reason="",
            )
            for broker, first in ((1, 5), (2, 5), (2, 6))
        ),
    ]  # fmt: skip
    assert len({event.identity for event in events}) == len(events)
    assert won(1, at_ms=5).identity == won(1).identity


def test_a_cut_that_was_refused_is_no_cut() -> None:
    """CORRECTNESS T11: a reader can distinguish a loss from a replica that stopped rather than lose."""
    done, refused = (
        truncated(
            "orders", KEY, BrokerId(2), LeaderEpoch(1),
            first=5, end=9, lost=4, at_ms=0, reason="", refused=refused,
        )
        for refused in (False, True)
    )  # fmt: skip
    assert (done.state, refused.state) == (RequestState.COMPLETED, RequestState.FAILED)
