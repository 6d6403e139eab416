"""Which requests of a queue later ones supersede, and that nothing is lost with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from strandline.ids import NO_BROKER, NO_EPOCH, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.coalescing import superseded
from strandline.vocabulary.state_changes import Command, End, RequestState, StateChange

START, CLOSE, DELETE = Command.START_REPLICA, Command.CLOSE_REPLICA, Command.DELETE_REPLICA
KEYS = [PartitionKey(TopicId(topic * 32), PartitionId(number)) for topic in "ab" for number in (0, 1)]
ENDED = End(RequestState.COMPLETED, at_ms=1)


def request(
    number: int, command: Command, epoch: int = 5, requester: int = 1, key: PartitionKey = KEYS[0]
) -> StateChange:
    return StateChange(str(number), command, "t", key, LeaderEpoch(epoch), BrokerId(requester), at_ms=0)


def numbered(*asked: tuple[Command, int, int]) -> list[StateChange]:
    """(command, epoch, requester) each."""
    return [request(number, *each) for number, each in enumerate(asked)]


def ids(*asked: tuple[Command, int, int]) -> set[str]:
    return set(superseded(numbered(*asked)))


def test_a_deletion_supersedes_all_before_it_and_nothing_behind_it() -> None:
    """CORRECTNESS Q4: also another deletion; never the start that comes after it."""
    assert ids((START, 5, 1), (DELETE, 5, 1), (CLOSE, 5, 1), (DELETE, -1, -1), (START, 6, 1)) == {
        "0",
        "1",
        "2",
    }


def test_the_last_report_of_the_highest_epoch_stays() -> None:
    """CORRECTNESS Q6, E6: a late request of an old leader supersedes nothing of the new one's."""
    assert ids((START, 5, 1), (CLOSE, 5, 1), (START, 6, 2), (CLOSE, 5, 1)) == {"0", "1"}
    assert ids((START, 6, 2), (CLOSE, 6, 2), (START, 6, 2)) == {"0", "1"}


def test_the_controllers_request_to_read_again_supersedes_no_leaders_request() -> None:
    """A leader's request has its epoch, which deposes others; the controller's has none."""
    assert ids((START, 5, 1), (START, 9, -1)) == set()
    assert ids((START, 5, -1), (START, 4, -1)) == {"0"}
    assert ids((START, NO_EPOCH, -1), (CLOSE, 5, 1)) == {"0"}
    assert ids((START, 5, -1), (START, 4, 1)) == set(), "the old leader's will not be executed"


def test_partitions_and_incarnations_have_nothing_to_do_with_each_other() -> None:
    """CORRECTNESS Q1, Q3: a deletion of the old topic leaves the new one of its name alone."""
    changes = [request(number, DELETE, key=key) for number, key in enumerate(KEYS)]
    assert superseded(
        [*changes, *(replace(c, request_id=c.request_id + "'") for c in changes[:1])]
    ).keys() == {"0"}
    assert superseded(changes) == {}


def test_an_ended_request_does_not_take_part() -> None:
    """A request has one end, and after that it says nothing more about the replica."""
    first, last = numbered((START, 5, 1), (DELETE, 5, 1))
    assert superseded([replace(first, end=ENDED), last]) == {}
    assert superseded([first, replace(last, end=ENDED)]) == {}


@dataclass(frozen=True)
class Model:
    """The state of a replica, as far as requests change it. An empty unused log counts as none."""

    in_use: bool
    records: bool
    epoch: int
    """The highest in which something was asked."""

    def after(self, change: StateChange) -> Model:
        if change.command is DELETE:
            return Model(in_use=False, records=False, epoch=NO_EPOCH)
        if change.requester == NO_BROKER:  # it has what ZooKeeper says; here: this replica
            return self if self.records or self.epoch >= 0 else replace(self, in_use=True)
        if change.leader_epoch < self.epoch:
            return self
        return replace(self, in_use=change.command is START, epoch=change.leader_epoch)


def outcome(begin: Model, changes: Sequence[StateChange]) -> Model:
    for change in changes:
        begin = begin.after(change)
    return begin


asked = st.tuples(st.sampled_from(Command), st.integers(0, 4), st.sampled_from([NO_BROKER, 1, 2])).filter(
    lambda it: not (it[0] is CLOSE and it[2] == NO_BROKER)
)


@given(
    st.lists(st.tuples(asked, st.sampled_from(KEYS[:2])), max_size=12),
    st.sampled_from([Model(False, False, -1), Model(True, True, 2), Model(False, True, 2)]),
)
def test_the_remaining_requests_lead_to_the_same_replica(
    queue: list[tuple[tuple[Command, int, int], PartitionKey]], begin: Model
) -> None:
    """CORRECTNESS Q4: for any queue, and any earlier state of the replica."""
    changes = [request(number, *each, key=key) for number, (each, key) in enumerate(queue)]
    gone = superseded(changes)
    left = [change for change in changes if change.request_id not in gone]
    for key in KEYS[:2]:
        everything = outcome(begin, [change for change in changes if change.key == key])
        assert outcome(begin, [change for change in left if change.key == key]) == everything
    assert superseded(left) == {}, "asked again of what is left"
