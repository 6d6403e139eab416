"""Positions move with what was handed out and by seek, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strandline.client.core.effects import (
    Arrived,
    DelayFetch,
    DoubtLeader,
    Effect,
    FindPosition,
    Refused,
    Reset,
    Waits,
)
from strandline.client.core.positions import FetchPlan, Positions
from strandline.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    OutcomeUnknown,
    StrandlineError,
    UnknownLeaderEpoch,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.log import Fetched
from strandline.vocabulary.log_position import LogPosition

A, B, C = (TopicPartition("t", number) for number in range(3))
LEADER, NEXT_LEADER = 1, 2


def standing_at(offset: int, *names: TopicPartition) -> Positions[str]:
    """Partitions led by LEADER in epoch 5, with a position."""
    positions: Positions[str] = Positions(partition_bytes=100, buffer_bytes=250)
    positions.assign(names)
    for name in names:
        positions.seek(name, offset)
        positions.led(name, LEADER, 5)
    return positions


def planned(positions: Positions[str], broker: int = LEADER) -> FetchPlan:
    plan = positions.plan(broker)
    assert plan is not None
    return plan


def answer(
    positions: Positions[str],
    plan: FetchPlan,
    *,
    name: TopicPartition = A,
    error: StrandlineError | None = None,
    hw: int = -1,
    records: bytes = b"",
) -> list[Effect]:
    return positions.answered(plan.number, [Fetched(name, error, hw, 0, records)])


def kinds(effects: list[Effect]) -> list[type[Any]]:
    return [type(effect) for effect in effects]


def test_a_partition_without_a_position_is_searched_for_by_policy_and_not_fetched() -> None:
    positions: Positions[str] = Positions(partition_bytes=100, buffer_bytes=250)
    (search,) = positions.assign([A])
    assert isinstance(search, FindPosition) and search.reset is Reset.POLICY
    positions.led(A, LEADER, 5)
    assert positions.plan(LEADER) is None
    assert positions.found(A, search.search, LogPosition(42))
    assert [(w.offset, w.leader_epoch) for w in planned(positions).wanted] == [(42, 5)]


def test_a_found_position_is_dropped_after_a_seek_or_a_later_search() -> None:
    positions: Positions[str] = Positions(partition_bytes=100, buffer_bytes=250)
    (first,) = positions.assign([A])
    (second,) = positions.unknown(A, Reset.LATEST)
    assert isinstance(first, FindPosition) and isinstance(second, FindPosition)
    assert not positions.found(A, first.search, LogPosition(1))
    positions.seek(A, 7)
    assert not positions.found(A, second.search, LogPosition(2))
    assert positions[A].position == 7


def test_a_search_survives_pause_and_resume() -> None:
    positions: Positions[str] = Positions(partition_bytes=100, buffer_bytes=250)
    (search,) = positions.assign([A])
    assert isinstance(search, FindPosition)
    positions.pause(A)
    positions.resume(A)
    assert positions.found(A, search.search, LogPosition(3))


def test_assigning_again_keeps_the_positions_of_what_stays() -> None:
    positions = standing_at(7, A)
    (search,) = positions.assign([B, A])
    assert isinstance(search, FindPosition) and search.name == B
    assert positions[A].position == 7


def test_one_fetch_a_partition_is_under_way_and_the_next_starts_behind_what_arrived() -> None:
    positions = standing_at(7, A, B)
    plan = planned(positions)
    assert [w.name for w in plan.wanted] == [A, B]
    assert positions.plan(LEADER) is None
    (arrived,) = answer(positions, plan, hw=20, records=b"records")
    assert arrived == Arrived(A, 7, b"records")
    positions.buffer(A, "batch", 10, 12)
    assert [(w.name, w.offset) for w in planned(positions).wanted] == [(A, 12), (B, 7)]
    assert positions[A].position == 7, "nothing was handed out yet"


@pytest.mark.parametrize("move", ["seek", "unassign", "search"])
def test_answers_to_fetches_from_before_the_partition_moved_are_dropped(move: str) -> None:
    positions = standing_at(7, A)
    plan = planned(positions)
    positions.buffer(A, "batch", 10, 12)
    incarnation = positions[A].incarnation
    state = positions[A]
    match move:
        case "seek":
            positions.seek(A, 7)
        case "unassign":
            positions.assign([])
        case _:
            positions.unknown(A, Reset.EARLIEST)
    assert answer(positions, plan, hw=20, records=b"records") == []
    assert not state.buffered and positions.buffered_bytes == 0
    assert state.incarnation != incarnation, "buffered records are not read any longer"


def test_a_paused_partition_keeps_what_was_fetched_and_what_is_under_way() -> None:
    """A pause costs no second fetch, as in Kafka (KAFKA-7548)."""
    positions = standing_at(7, A)
    positions.buffer(A, "batch", 10, 12)
    plan = planned(positions)
    incarnation = positions[A].incarnation
    positions.pause(A)
    (arrived,) = answer(positions, plan, hw=20, records=b"records")
    assert arrived == Arrived(A, 12, b"records")
    assert positions.plan(LEADER) is None, "nothing more is fetched"
    positions.resume(A)
    assert list(positions[A].buffered) == ["batch"] and positions[A].incarnation == incarnation
    assert [w.offset for w in planned(positions).wanted] == [12]


def test_paused_partitions_give_up_what_they_keep_when_others_need_the_room() -> None:
    """Else a consumer that pauses a full partition would never be handed out anything again."""
    positions = standing_at(7, A, B, C)
    positions.buffer(A, "batch", 200, 12)
    positions.buffer(B, "batch", 50, 12)
    positions.pause(A)
    positions.pause(B)
    assert [w.name for w in planned(positions).wanted] == [C]
    assert not positions[A].buffered and list(positions[B].buffered) == ["batch"]
    positions.resume(A)
    assert [(w.name, w.offset) for w in planned(positions).wanted] == [(A, 7)]


def test_with_nothing_to_fetch_a_full_buffer_of_paused_partitions_is_kept() -> None:
    positions = standing_at(7, A)
    positions.buffer(A, "batch", 300, 12)
    positions.pause(A)
    assert positions.plan(LEADER) is None
    assert list(positions[A].buffered) == ["batch"]


def test_a_change_of_leader_keeps_position_and_buffer_and_drops_the_old_leaders_answer() -> None:
    positions = standing_at(7, A)
    positions.buffer(A, "batch", 10, 12)
    plan = planned(positions)
    incarnation = positions[A].incarnation
    assert positions.led(A, NEXT_LEADER, 6)
    assert answer(positions, plan, hw=20, records=b"records") == []
    assert (positions[A].position, positions[A].incarnation) == (7, incarnation)
    assert [(w.offset, w.leader_epoch) for w in planned(positions, NEXT_LEADER).wanted] == [(12, 6)]
    assert positions.plan(LEADER) is None


def test_the_high_watermark_never_goes_back() -> None:
    """CORRECTNESS H1: a new leader may know less for a moment, or (-1) nothing."""
    positions = standing_at(0, A)
    for reported, known in [(-1, None), (5, 5), (-1, 5), (3, 5), (8, 8)]:
        answer(positions, planned(positions), hw=reported)
        assert positions[A].high_watermark == known


def test_an_offset_out_of_range_is_replaced_by_policy() -> None:
    positions = standing_at(7, A)
    error = OffsetOutOfRange("7 is outside 10..20")
    (search,) = answer(positions, planned(positions), error=error)
    assert isinstance(search, FindPosition)
    assert (search.reset, search.error, positions[A].position) == (Reset.POLICY, error, None)


def test_an_offset_out_of_range_waits_for_what_is_buffered_before_it() -> None:
    """Also for what is being handed out, and is in no buffer. The broker is asked again after pauses."""
    positions = standing_at(7, A)
    positions.buffer(A, "batch", 10, 12)
    outside = OffsetOutOfRange("12 is outside")
    assert answer(positions, planned(positions), error=outside) == [DelayFetch(A, 1)]
    assert positions.plan(LEADER) is None
    positions.backed_off(A, 1)
    assert positions.take(positions[A], 10) == "batch"
    assert answer(positions, planned(positions), error=outside) == [DelayFetch(A, 2)]
    positions.backed_off(A, 2)
    assert positions[A].position == 7
    positions[A].position = 12
    assert kinds(answer(positions, planned(positions), error=outside)) == [FindPosition]


@pytest.mark.parametrize(
    "error", [NotLeaderOrFollower("no"), FencedLeaderEpoch("old"), OutcomeUnknown("gone")]
)
def test_a_leader_that_refuses_is_doubted_and_asked_again_only_after_a_pause(error: StrandlineError) -> None:
    positions = standing_at(7, A)
    pause, doubt = answer(positions, planned(positions), error=error)
    assert (pause, doubt) == (DelayFetch(A, 1), DoubtLeader(A, error))
    assert positions.plan(LEADER) is None
    positions.backed_off(A, 1)
    assert [w.offset for w in planned(positions).wanted] == [7]


@pytest.mark.parametrize("error", [OffsetNotAvailable("not yet"), UnknownLeaderEpoch("not yet")])
def test_a_leader_that_is_not_ready_is_asked_again_without_doubting_it(error: StrandlineError) -> None:
    """KIP-207, KIP-320: it is the right one, it only does not know enough yet."""
    positions = standing_at(7, A)
    assert kinds(answer(positions, planned(positions), error=error)) == [DelayFetch, Waits]


def test_a_new_leader_ends_the_pause() -> None:
    positions = standing_at(7, A)
    answer(positions, planned(positions), error=NotLeaderOrFollower("no"))
    positions.led(A, NEXT_LEADER, 6)
    assert planned(positions, NEXT_LEADER)


def test_a_permanent_error_is_reported_and_tried_again_only_after_a_pause() -> None:
    positions = standing_at(7, A)
    effects = answer(positions, planned(positions), error=CorruptMessage("CRC"))
    assert kinds(effects) == [Refused, DelayFetch]
    assert positions.plan(LEADER) is None


def test_the_pauses_grow_while_what_comes_is_damaged() -> None:
    """An answer without an error is no success before something of it is buffered, or it says that all is
    read."""
    positions = standing_at(7, A)
    for attempt in (1, 2):
        assert kinds(answer(positions, planned(positions), records=b"damaged")) == [Arrived]
        effects = positions.refuse(A, CorruptMessage("CRC"))
        assert effects[-1] == DelayFetch(A, attempt)
        assert positions.plan(LEADER) is None
        positions.backed_off(A, attempt)
    answer(positions, planned(positions), hw=9)
    answer(positions, planned(positions), records=b"damaged")
    assert positions.refuse(A, CorruptMessage("CRC"))[-1] == DelayFetch(A, 3), "it was left out, not read"
    positions.backed_off(A, 3)
    answer(positions, planned(positions), records=b"whole")
    positions.buffer(A, "whole", 5, 8)
    assert positions.refuse(A, CorruptMessage("CRC"))[-1] == DelayFetch(A, 1)


def test_a_partition_that_is_blocked_is_fetched_again_once_it_is_moved_or_paused() -> None:
    positions = standing_at(7, A)
    moves: list[Callable[[], None]] = [lambda: positions.seek(A, 9), lambda: positions.pause(A)]
    for move in moves:
        positions.buffer(A, "undecodable", 5, 9)
        positions.block(A)
        assert (positions[A].position, positions[A].fetch_offset, list(positions[A].buffered)) == (7, 7, [])
        assert positions.plan(LEADER) is None
        move()
        positions.resume(A)
        assert planned(positions).wanted[0].offset == positions[A].position
        positions.seek(A, 7)


def test_a_broken_stream_frees_what_was_asked_on_it() -> None:
    positions = standing_at(7, A, B)
    planned(positions)
    effects = positions.lost(LEADER, OutcomeUnknown("reset"))
    assert kinds(effects) == [DelayFetch, DoubtLeader, DelayFetch, DoubtLeader]
    for name in (A, B):
        positions.backed_off(name, 1)
    assert len(planned(positions).wanted) == 2


def test_fetching_stops_while_the_buffer_is_full_and_each_partition_has_its_share() -> None:
    positions = standing_at(0, A, B)
    positions.buffer(A, "batch", 130, 10)
    assert [w.name for w in planned(positions).wanted] == [B], "A has more than its share"
    positions.lost(LEADER, OutcomeUnknown("reset"))
    positions.buffer(B, "batch", 120, 10)
    positions.backed_off(B, 1)
    assert positions.plan(LEADER) is None
    assert positions.take(positions[A], 130) == "batch"
    assert [w.name for w in planned(positions).wanted] == [B, A]


def test_partitions_take_turns() -> None:
    """The partition that was handed out last is asked last, so that a busy partition starves no other."""
    positions = standing_at(0, A, B)
    positions.buffer(A, "batch", 10, 10)
    positions.take(positions[A], 10)
    assert [state.name for state in positions] == [B, A]
    assert [w.name for w in planned(positions).wanted] == [B, A]


def test_a_partition_that_an_answer_has_no_room_for_is_asked_for_first_next_time() -> None:
    """It is behind by what it lacks, although no record of it came."""
    positions = standing_at(0, A, B)
    left_out, served = Fetched(B, None, 7, 0, b""), Fetched(A, None, 20, 0, b"records")
    effects = positions.answered(planned(positions).number, [served, left_out])
    assert effects == [Arrived(A, 0, b"records")]
    assert (positions[B].high_watermark, positions[B].position) == (7, 0)
    positions.buffer(A, "batch", 10, 10)
    positions.take(positions[A], 10)
    assert [(w.name, w.offset) for w in planned(positions).wanted] == [(B, 0), (A, 10)]
