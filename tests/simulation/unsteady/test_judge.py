"""The judge of readers of a topic whose log does not only grow."""

from __future__ import annotations

import pytest

from strandline_lab.simulation.workloads.unsteady.judge import (
    Heard,
    by_itself,
    gone_back,
    in_a_group,
    of_two_kinds,
)


def heard(*records: tuple[int, int]) -> list[Heard]:
    """Records of partition 0 by offset and epoch: no two have the same value."""
    return [Heard(0, offset, epoch, b"%d in %d" % (offset, epoch)) for offset, epoch in records]


def numbered(partition: int, epoch: int) -> int:
    """Epochs from 10 on are those of the second topic, and so on."""
    return epoch // 10


def log(count: int, epoch: int) -> list[Heard]:
    return heard(*((offset, epoch) for offset in range(count)))


@pytest.mark.parametrize(
    ("received", "log"),
    [
        (log(3, 1), log(3, 1)),
        ([*log(3, 1), *log(2, 11)], log(2, 11)),
        ([*log(1, 1), *log(3, 21)], log(3, 21)),
        # A cut log, in which only what is new is read, and one that was cut deeper than what was read there.
        (heard((0, 1), (1, 1), (2, 1), (1, 3), (2, 3)), heard((0, 1), (1, 3), (2, 3))),
        (heard((0, 1), (1, 2), (1, 3), (0, 4)), heard((0, 4))),
    ],
)
def test_a_reader_that_follows_the_log_is_sound(received: list[Heard], log: list[Heard]) -> None:
    assert list(by_itself("reader", received, log, numbered)) == []
    assert list(in_a_group("group", [*received, *received], log, numbered)) == []
    assert list(of_two_kinds({"reader": received}, log)) == []


@pytest.mark.parametrize(
    ("received", "log", "said"),
    [
        (heard((0, 1), (2, 1)), log(3, 1), "offset 2 (epoch 1) came after offset 0 (epoch 1)"),
        (heard((1, 1)), log(2, 1), "offset 1 (epoch 1) came after nothing"),
        ([*log(2, 1), *log(2, 1)], log(2, 1), "offset 0 of epoch 1 came after that of epoch 1"),
        (heard((0, 2), (0, 1)), log(1, 1), "offset 0 of epoch 1 came after that of epoch 2"),
        (heard((0, 1), (1, 1), (2, 11)), log(3, 11), "offset 2 (epoch 11) of a topic came after offset 1"),
        (heard((0, 1), (1, 1), (2, 3)), heard((0, 1), (1, 3), (2, 3)), "it has read b'1 in 1' of epoch 1 at"),
        (log(2, 1), log(3, 1), "has read up to offset 2, and the log ends at 3"),
        (log(3, 1), log(2, 1), "has read up to offset 3, and the log ends at 2"),
    ],
)  # fmt: skip
def test_a_reader_that_skips_repeats_or_mixes_is_found(
    received: list[Heard], log: list[Heard], said: str
) -> None:
    (found,) = by_itself("reader", received, log, numbered)
    assert said in found


def test_a_group_that_skips_the_beginning_of_a_topic_is_found_though_that_is_gone() -> None:
    received = [*log(2, 1), *heard((2, 11), (3, 11)), *log(2, 21)]
    (found,) = in_a_group("group", received, log(2, 21), numbered)
    assert "have read offset 3 of topic 1 of this name, and none has read offset 0" in found


def test_a_group_that_lacks_records_of_the_log_is_found() -> None:
    received = heard((0, 1), (1, 1), (2, 3))
    (found,) = in_a_group("group", received, heard((0, 1), (1, 3), (2, 3)), numbered)
    assert "has read 1 of the 3 records of the log, first offset 1" in found


def test_one_place_with_two_values_is_found() -> None:
    other = [Heard(0, 0, 1, b"another value")]
    (found,) = of_two_kinds({"one": log(1, 1), "two": other}, [])
    assert found.startswith("two read b'another value' at offset 0 of partition 0 in epoch 1, and one has")


def test_a_reader_may_follow_a_log_that_is_again_as_it_was_before_it_was_cut() -> None:
    received = heard((0, 1), (1, 1), (1, 2), (1, 1), (2, 3))
    log = heard((0, 1), (1, 1), (2, 3))
    assert list(by_itself("reader", received, log, numbered, {0: [2, 3]})) == []
    (found,) = by_itself("reader", received, log, numbered, {0: [2], 1: [3]})
    assert "offset 1 of epoch 1 came after that of epoch 2" in found
    assert gone_back([received], log) == {0}
    assert gone_back([heard((0, 1), (1, 1), (5, 1))], log) == set()
