"""The judge is judged: each check refuses a history that was doctored to break just what it is about
(CORRECTNESS .2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.errors import Outcome
from tests.integration.support.history import (
    History,
    Placed,
    Reader,
    Value,
    conflicting,
    faults,
    invented,
    lost,
    reordered,
    repeated,
    risen_from_the_dead,
    skipped,
    watermarks_going_back,
)

VALUES = [Value(0, producer, number) for number in range(3) for producer in range(2)]
LATE = Value(0, 0, 3)
"""Sent last, and failed."""


def sound() -> History:
    """Six records acknowledged and read by a follower and a fresh reader, a seventh that failed."""
    placed = [Placed(offset, value) for offset, value in enumerate(VALUES)]
    return History(
        sent=[*VALUES, LATE],
        acknowledged=list(placed),
        failed=[(LATE, Outcome.RETRIABLE)],
        readers=[Reader("follower", 0, placed[:4], [0, 2, 2, 4])],
        final=[Reader("fresh", 0, list(placed), [6])],
    )


def test_a_sound_history_passes() -> None:
    assert faults(sound()) == []


def test_a_value_survives_the_log() -> None:
    assert Value.decode(Value(2, 1, 40).encode()) == Value(2, 1, 40)
    with pytest.raises(ValueError, match="no workload"):
        Value.decode(b"something else")


def test_an_unknown_outcome_may_be_read_or_not() -> None:
    """Nobody promised anything about it, so either is right."""
    history = sound()
    history.failed = [(LATE, Outcome.UNKNOWN)]
    assert faults(history) == []
    history.final[0].records.append(Placed(6, LATE))
    assert faults(history) == []


def test_an_acknowledgement_without_an_offset_is_kept_if_the_record_is_read_once() -> None:
    """A repeat so late that the broker only knows that it has the record is a success."""
    history = sound()
    history.acknowledged[5] = Placed(-1, VALUES[5])
    assert faults(history) == []


def lose_the_last(history: History) -> None:
    del history.final[0].records[5]


def lose_one_without_an_offset(history: History) -> None:
    history.acknowledged[5] = Placed(-1, VALUES[5])
    lose_the_last(history)


def move_the_last(history: History) -> None:
    history.acknowledged[5] = Placed(7, VALUES[5])


def change_what_a_follower_read(history: History) -> None:
    history.readers[0].records[3] = Placed(3, VALUES[5])


def acknowledge_two_at_one_offset(history: History) -> None:
    history.acknowledged[5] = Placed(4, VALUES[5])


def repeat_one_at_the_end(history: History) -> None:
    history.final[0].records.append(Placed(6, VALUES[0]))


def swap_two_of_one_producer(history: History) -> None:
    records = history.final[0].records
    records[0], records[2] = Placed(0, VALUES[2]), Placed(2, VALUES[0])


def pass_over_one(history: History) -> None:
    del history.readers[0].records[1]


def go_back_to_one(history: History) -> None:
    history.readers[0].records.append(history.readers[0].records[2])


def raise_what_had_failed(history: History) -> None:
    history.final[0].records.append(Placed(6, LATE))


def raise_what_was_refused_for_good(history: History) -> None:
    history.failed = [(LATE, Outcome.FATAL)]
    raise_what_had_failed(history)


def invent_one(history: History) -> None:
    history.final[0].records.append(Placed(6, Value(0, 9, 0)))


def move_one_to_another_partition(history: History) -> None:
    history.readers.append(Reader("stray", 1, [Placed(0, VALUES[0])]))


def let_the_watermark_go_back(history: History) -> None:
    history.readers[0].watermarks.append(3)


@pytest.mark.parametrize(
    ("doctor", "check"),
    [
        (lose_the_last, lost),
        (lose_one_without_an_offset, lost),
        (move_the_last, lost),
        (change_what_a_follower_read, conflicting),
        (acknowledge_two_at_one_offset, conflicting),
        (repeat_one_at_the_end, repeated),
        (swap_two_of_one_producer, reordered),
        (pass_over_one, skipped),
        (go_back_to_one, skipped),
        (raise_what_had_failed, risen_from_the_dead),
        (raise_what_was_refused_for_good, risen_from_the_dead),
        (invent_one, invented),
        (move_one_to_another_partition, invented),
        (let_the_watermark_go_back, watermarks_going_back),
    ],
)
def test_a_doctored_history_is_refused(
    doctor: Callable[[History], None], check: Callable[[History], list[str]]
) -> None:
    """Each check finds its own kind of fault, and the verdict over all checks has it too."""
    history = sound()
    doctor(history)
    found = check(history)
    assert found
    assert set(found) <= set(faults(history))
