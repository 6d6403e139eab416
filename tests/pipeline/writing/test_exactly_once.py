"""Several attempts at one task's rows, in any order of their steps: each row is in the log, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from strandline.errors import InvalidProducerEpoch, StrandlineError
from strandline.records import BatchHeader, RecordFields
from tests.pipeline.sink_world import Attempt, World

STEPS_MAX = 300
BATCH_BYTES = st.integers(1, 4).map(lambda records: 61 + 45 * records)


def rows_of(numbers: Sequence[int], at_ms: int) -> list[RecordFields]:
    """Rows that are equal where their numbers are."""
    return [(b"k%d" % (n % 2), b"v%d" % n, (), at_ms) for n in numbers]


def counted(records: Sequence[RecordFields]) -> Counter[bytes | None]:
    return Counter(value for _, value, _, _ in records)


def drawn_attempt(data: st.DataObject, world: World, numbers: Sequence[int]) -> Attempt:
    """The same rows, in another order, in other batches, with other times."""
    rows = rows_of(data.draw(st.permutations(numbers)), data.draw(st.sampled_from([1_000, 2_000])))
    first = data.draw(st.integers(0, len(rows)))
    calm = data.draw(st.booleans())
    return Attempt(
        world,
        [rows[:first], rows[first:]],
        bytes_max=data.draw(BATCH_BYTES),
        fate=lambda: 0 if calm else data.draw(st.sampled_from([0, 0, 0, 1, 2])),
        window_offsets=data.draw(st.integers(1, 6)),
    )


@settings(max_examples=400)
@given(data=st.data())
def test_each_row_is_in_the_log_once_for_any_concurrent_attempts_and_kills(
    data: st.DataObject,
) -> None:
    """(CORRECTNESS P1, P2) Rows in other orders, batches cut otherwise, answers and leaders lost, kills at
    any await: when one attempt has come to its end every row is there, and when all have, none is twice.
    """
    world = World()
    numbers = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=8))
    attempts = [drawn_attempt(data, world, numbers) for _ in range(data.draw(st.integers(1, 3)))]
    wanted = counted(rows_of(numbers, 0))
    for _ in range(STEPS_MAX):
        running = [attempt for attempt in attempts if not attempt.ended]
        if not running:
            break
        kind = data.draw(st.sampled_from("mmmmmmmmcccckln"))
        if kind == "m":
            moved = data.draw(st.sampled_from(running))
            moved.move()
            assert not isinstance(moved.failure, StrandlineError)
            if moved.done:
                assert counted(world.records()) >= wanted
        elif kind == "c":
            world.commit()
        elif kind == "k":
            data.draw(st.sampled_from(running)).crash()
        elif kind == "l":
            world.change_leader()
        else:
            world.add_noise()
    last = Attempt(world, [rows_of(numbers, 3_000)], bytes_max=200)
    for attempt in (last, *(a for a in attempts if not a.ended)):
        attempt.finish(world)
        assert attempt.writer.end().unmatched == 0
    event(f"found by others: {last.writer.end().matched > 0}")
    assert counted(world.records()) == wanted


@pytest.mark.parametrize("crash_at", range(30))
@pytest.mark.parametrize("again", [110, 160, 500])
def test_an_attempt_that_is_killed_after_any_of_its_steps_is_completed_by_the_next(
    crash_at: int, again: int
) -> None:
    world = World()
    world.add_noise()
    numbers = [0, 1, 2, 2, 3, 4, 5]
    first = Attempt(world, [rows_of(numbers, 1_000)], bytes_max=160)
    for _ in range(crash_at):
        if not first.ended:
            first.move()
            world.commit()
    if not first.ended:
        first.crash()
    second = Attempt(world, [rows_of(numbers[::-1], 2_000)], bytes_max=again)
    second.finish(world)
    assert counted(world.records()) == counted(rows_of(numbers, 0))
    assert second.writer.end().unmatched == 0


def test_a_batch_with_the_same_numbers_and_other_rows_is_not_taken_for_its_own() -> None:
    """(CORRECTNESS P2) Brokers answer as if it were: only its bytes show the difference."""
    world = World()
    one = Attempt(world, [rows_of([0, 1], 1_000)], bytes_max=500)
    two = Attempt(world, [rows_of([1, 2], 1_000)], bytes_max=500)
    one.finish(world)
    two.finish(world)
    assert counted(world.records()) == counted(rows_of([0, 1, 2], 0))
    written = two.writer.end()
    assert (written.records, written.matched, written.unmatched) == (2, 1, 1)


def test_records_that_this_attempt_does_not_have_are_counted() -> None:
    world = World()
    Attempt(world, [rows_of([0, 1, 2], 1_000)], bytes_max=500).finish(world)
    again = Attempt(world, [rows_of([2, 3], 1_000)], bytes_max=500)
    again.finish(world)
    assert counted(world.records()) == counted(rows_of([0, 1, 2, 3], 0))
    assert again.writer.end().unmatched == 2


def test_an_attempt_at_an_older_batch_writes_nothing_and_says_why() -> None:
    world = World()
    Attempt(world, [rows_of([0], 1_000)], bytes_max=500, batch=4).finish(world)
    zombie = Attempt(world, [rows_of([1], 1_000)], bytes_max=500, batch=3)
    with pytest.raises(InvalidProducerEpoch, match="given up, or the query's checkpoint was set back"):
        zombie.finish(world)
    assert counted(world.records()) == counted(rows_of([0], 0))


def test_the_same_rows_in_the_next_batch_are_other_rows() -> None:
    world = World()
    for batch in (3, 4, 32_767, 32_768, 32_769):
        Attempt(world, [rows_of([0, 1], 1_000)], bytes_max=500, batch=batch).finish(world)
    assert counted(world.records()) == Counter({b"v0": 5, b"v1": 5})


@pytest.mark.parametrize("forget_at", range(25))
def test_an_attempt_that_brokers_forget_meanwhile_still_writes_each_row_once(forget_at: int) -> None:
    world = World()
    attempt = Attempt(world, [rows_of([0, 1, 2, 3, 4, 5], 1_000)], bytes_max=160)
    for _ in range(forget_at):
        if not attempt.ended:
            attempt.move()
            world.commit()
    world.forget()
    attempt.finish(world)
    assert counted(world.records()) == counted(rows_of([0, 1, 2, 3, 4, 5], 0))


def test_the_rows_of_a_batch_are_asked_for_only_if_another_attempt_wrote() -> None:
    world = World()
    orders = ([0, 1, 2, 3], [3, 2, 1, 0])
    attempts = [Attempt(world, [rows_of(order, 1_000)], bytes_max=110) for order in orders]
    for attempt in attempts:
        attempt.finish(world)
    assert len(world.batches) > 1
    assert [attempt.asked for attempt in attempts] == [0, len(world.batches)]
    assert counted(world.records()) == counted(rows_of([0, 1, 2, 3], 0))


def test_a_forgotten_attempt_that_is_refused_looks_back_behind_its_own_records() -> None:
    """Numbers may have begun anew since, and the records before that must be found, too."""
    world = World()
    one, other = (Attempt(world, [rows_of([0, 1, 2, 3], 1_000)], bytes_max=110) for _ in range(2))
    for _ in range(3):  # up to where it has the first answer and not sent the next batch
        one.move()
        world.commit()
    assert len(world.batches) == 1
    while len(world.batches) < 2:
        other.move()
        world.commit()
    for _ in range(10):
        world.add_noise()
    world.forget()
    for attempt in (other, one):
        attempt.finish(world)
    assert counted(world.records()) == counted(rows_of([0, 1, 2, 3], 0))
    assert sum(BatchHeader.parse(batch).base_sequence == 0 for batch in world.batches) == 2


def test_times_are_compared_where_rows_have_them_and_not_where_they_were_only_dated() -> None:
    for timed, expected in ((True, 2), (False, 1)):
        world = World()
        for at_ms in (1_000, 2_000):
            Attempt(world, [rows_of([0], at_ms)], bytes_max=500, timed=timed).finish(world)
        assert len(world.records()) == expected


def test_if_all_written_records_are_deleted_the_rows_are_written_again() -> None:
    """Their end is unknown: so they are written under another identity, which repeats find again."""
    world = World()
    Attempt(world, [rows_of([0, 1], 1_000)], bytes_max=110).finish(world)
    world.lose(2)
    for _ in range(2):
        Attempt(world, [rows_of([0, 1], 2_000)], bytes_max=500).finish(world)
        assert counted(world.records()) == counted(rows_of([0, 1], 0))


def test_a_deleted_batch_of_which_a_broker_says_that_it_is_there_counts_as_written() -> None:
    world = World()
    Attempt(world, [rows_of([0, 1], 1_000)], bytes_max=110).finish(world)
    world.lose(1)
    Attempt(world, [rows_of([0, 1], 1_000)], bytes_max=110).finish(world)
    assert counted(world.records()) == counted(rows_of([1], 0))


def test_rows_behind_deleted_records_are_found_and_the_rest_follows() -> None:
    world = World()
    first = Attempt(world, [rows_of([0, 1, 2, 3], 1_000)], bytes_max=110)
    while len(world.batches) < 3:
        first.move()
        world.commit()
    first.crash()
    world.lose(1)
    again = Attempt(world, [rows_of([0, 1, 2, 3], 2_000)], bytes_max=500)
    again.finish(world)
    assert counted(world.records()) == counted(rows_of([0, 1, 2, 3], 0))
    assert BatchHeader.parse(world.batches[-1]).base_sequence == 3


def test_a_refusal_for_records_that_are_then_lost_keeps_the_identity() -> None:
    """A refusal for the sake of records that then go with their leader is no sign that records were deleted:
    the attempt whose records they were may write them again."""
    world = World()
    other = Attempt(world, [rows_of([0, 1], 1_000)], bytes_max=110)
    attempt = Attempt(world, [rows_of([1, 0], 1_000)], bytes_max=500)
    other.move()
    other.move()
    assert world.committed == 0 and len(world.batches) == 1
    for _ in range(4):
        attempt.move()
    world.change_leader()
    attempt.finish(world)
    other.finish(world)
    assert counted(world.records()) == counted(rows_of([0, 1], 0))
