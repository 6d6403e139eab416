"""A position belongs to one log (KIP-320, KIP-516)."""

from __future__ import annotations

import pytest

from strandline.client.core.effects import Cut, FindPosition, MadeAnew, Reset
from strandline.client.core.positions import FetchPlan, Position, Positions
from strandline.ids import NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.vocabulary.log import Fetched
from strandline.vocabulary.log_position import UNDEFINED, EpochEnd, LogPosition

A = TopicPartition("t", 0)
OLD, NEW = TopicId("0" * 31 + "1"), TopicId("0" * 31 + "2")
LEADER = 1


def reading(at: LogPosition) -> tuple[Positions[str], Position[str]]:
    """One partition that is read from there on."""
    positions: Positions[str] = Positions(partition_bytes=100, buffer_bytes=1_000)
    ((search,),) = [positions.add([A])]
    assert isinstance(search, FindPosition)
    assert positions.found(A, search.search, at)
    positions.led(A, LEADER, 9)
    return positions, positions[A]


def planned(positions: Positions[str]) -> FetchPlan:
    plan = positions.plan(LEADER)
    assert plan is not None
    return plan


def asked(positions: Positions[str]) -> LogPosition:
    (wanted,) = planned(positions).wanted
    return LogPosition(wanted.offset, wanted.topic_id, wanted.last_epoch)


def test_a_fetch_says_which_log_its_offset_belongs_to() -> None:
    """CORRECTNESS G19: what is fetched ahead has the epoch of its own batch."""
    positions, state = reading(LogPosition(5, OLD, 3))
    positions.buffer(A, "5 to 7", 10, 8, epoch=3)
    positions.buffer(A, "8 to 9", 10, 10, epoch=7)
    assert asked(positions) == LogPosition(10, OLD, 7)
    assert [state.log.at(offset).leader_epoch for offset in (5, 6, 8, 9, 10)] == [3, 3, 3, 7, 7]
    positions.seek(A, 6)
    assert state.log.at(6) == LogPosition(6, OLD, NO_EPOCH)


def test_a_position_that_the_log_has_lost_goes_to_the_end_of_its_epoch() -> None:
    """CORRECTNESS G19: the lag is of what is left, and a warning is due."""
    positions, state = reading(LogPosition(20, OLD, 3))
    state.high_watermark = 20
    plan = planned(positions)
    effects = positions.answered(plan.number, [Fetched(A, diverging=EpochEnd(2, 12))])
    assert effects == [Cut(A, 12, 20, 2)]
    assert (state.position, state.processed, state.lag) == (12, 12, None)
    assert asked(positions) == LogPosition(12, OLD, 2)


def test_what_was_fetched_ahead_and_is_lost_is_fetched_again() -> None:
    """CORRECTNESS G19: nothing that was handed out is lost, so no warning is due."""
    positions, state = reading(LogPosition(5, OLD, 3))
    positions.buffer(A, "5 to 7", 10, 8, epoch=5)
    plan = planned(positions)
    assert positions.answered(plan.number, [Fetched(A, diverging=EpochEnd(3, 6))]) == []
    assert not state.buffered
    assert asked(positions) == LogPosition(5, OLD, 3)
    positions.buffer(A, "5", 10, 6, epoch=4)
    assert state.log.at(6) == LogPosition(6, OLD, 4)


@pytest.mark.parametrize("ends", [12, 15, 900])
def test_an_epoch_that_ended_here_before_it_ends_there_is_read_on_where_it_ended_here(ends: int) -> None:
    """CORRECTNESS G19: a log that was cut, and grew, is replaced by the one that it had been before."""
    positions, _ = reading(LogPosition(0, OLD))
    positions.buffer(A, "0 to 9", 10, 10, epoch=3)
    positions.buffer(A, "10 to 12", 10, 13, epoch=5)
    state = positions[A]
    state.position = 13
    plan = planned(positions)
    assert positions.answered(plan.number, [Fetched(A, diverging=EpochEnd(3, ends))]) == [Cut(A, 10, 13, 3)]
    assert asked(positions) == LogPosition(10, OLD, 3)


def test_a_consumer_that_goes_back_knows_the_epochs_of_what_it_has_read_before() -> None:
    """CORRECTNESS G19: the leader names an epoch of which nothing was read here, and the next answer may lead
    further back."""
    positions, state = reading(LogPosition(0, OLD))
    positions.buffer(A, "0 to 4", 10, 5, epoch=2)
    positions.buffer(A, "5 to 9", 10, 10, epoch=3)
    positions.buffer(A, "10 to 12", 10, 13, epoch=5)
    state.position = 13
    plan = planned(positions)
    assert positions.answered(plan.number, [Fetched(A, diverging=EpochEnd(4, 15))]) == [Cut(A, 10, 13, 4)]
    plan = planned(positions)
    assert [(wanted.offset, wanted.last_epoch) for wanted in plan.wanted] == [(10, 3)]
    assert positions.answered(plan.number, [Fetched(A, diverging=EpochEnd(2, 7))]) == [Cut(A, 5, 10, 2)]
    assert asked(positions) == LogPosition(5, OLD, 2)


@pytest.mark.parametrize("ends", [20, 21, 900])
def test_a_log_that_parted_from_a_commit_at_an_unknown_offset_is_read_from_its_start(ends: int) -> None:
    """CORRECTNESS G19: of the records before a commit only the epoch of the last is known."""
    positions, _ = reading(LogPosition(20, OLD, 5))
    plan = planned(positions)
    (search,) = positions.answered(plan.number, [Fetched(A, diverging=EpochEnd(3, ends))])
    assert isinstance(search, FindPosition) and search.reset is Reset.EARLIEST


def test_a_log_that_cannot_place_the_epoch_is_read_from_its_start() -> None:
    positions, _ = reading(LogPosition(20, OLD, 3))
    plan = planned(positions)
    (search,) = positions.answered(plan.number, [Fetched(A, diverging=UNDEFINED)])
    assert isinstance(search, FindPosition) and search.reset is Reset.EARLIEST


def test_a_topic_that_was_made_anew_is_read_from_its_first_record() -> None:
    """CORRECTNESS G19: nothing of the old log counts for the new one, a fetch under way neither."""
    positions, state = reading(LogPosition(20, OLD, 3))
    state.saved(20)
    plan = planned(positions)
    anew, search = positions.learned("t", NEW)
    assert anew == MadeAnew(A, OLD, NEW)
    assert isinstance(search, FindPosition) and search.reset is Reset.EARLIEST
    assert (state.topic_id, state.position, state.committed, state.epochs) == (NEW, None, None, [])
    assert positions.answered(plan.number, [Fetched(A, None, 30, 0, b"old")]) == []
    assert positions.learned("t", NEW) == []


@pytest.mark.parametrize("topic", ["t", "other"])
def test_an_id_that_is_learned_later_moves_nothing(topic: str) -> None:
    positions, state = reading(LogPosition(20))
    assert positions.learned(topic, NEW) == []
    assert (state.position, state.topic_id) == (20, NEW if topic == "t" else NO_TOPIC_ID)
