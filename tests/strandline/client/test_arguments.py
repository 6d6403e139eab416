"""Callers' arguments are refused at the call, by name and value, and not later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strandline.client import arguments
from strandline.errors import InvalidRequest
from strandline.ids import TopicId, TopicPartition
from strandline.vocabulary.log_position import LogPosition

A = TopicPartition("t", 0)


@pytest.mark.parametrize("given", [3, None, b"g", "\ud800", ["g"]])
def test_an_invalid_text_is_refused(given: object) -> None:
    with pytest.raises(InvalidRequest, match=r"group = .*: give "):
        arguments.text("group", given)


def test_brokers_are_ids_each_named_once() -> None:
    assert arguments.brokers("replica of t-0", [3, 0, 1]) == (3, 0, 1)
    with pytest.raises(InvalidRequest, match="replica of t-0 = 0 is named twice: name each broker once"):
        arguments.brokers("replica of t-0", [0, 1, 0])
    with pytest.raises(InvalidRequest, match="replica of t-0 = -1: give a whole number"):
        arguments.brokers("replica of t-0", [-1])


@pytest.mark.parametrize("given", [-1, 2**63, True, 3.5, 3.0, "3", None, float("nan"), 10**400])
def test_an_invalid_offset_is_refused(given: object) -> None:
    with pytest.raises(
        InvalidRequest, match=r"offset of t-0 = .*: give a whole number from 0 to 92233720368"
    ):
        arguments.offset(A, given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("t", 2**31), r"number of a partition of topic 't' = 2147483648: give a whole number"),
        ((3, 1), r"topic of partition 1 = 3: give "),
    ],
)
def test_an_invalid_partition_is_described_in_words(given: object, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        arguments.partition(given)


def test_every_offset_is_taken_and_so_is_what_counts_as_a_whole_number() -> None:
    """As the integers of other libraries do."""

    class Seven:
        def __index__(self) -> int:
            return 7

    assert [arguments.offset(A, given) for given in (0, 2**63 - 1, Seven())] == [0, 2**63 - 1, 7]


NO_PARTITIONS: list[Any] = [
    *("tides", None, 3, ("t",), ("t", 0, 1), (3, 0), (b"t", 0), ("\ud800", 0), ["t", 0]),
    *(("t", "0"), ("t", -1), ("t", 2**31), ("t", True), ("t", 0.5)),
    TopicPartition(3, "x"),  # type: ignore[arg-type]  # the point
]


@pytest.mark.parametrize("given", NO_PARTITIONS)
def test_an_invalid_partition_is_refused(given: object) -> None:
    with pytest.raises(InvalidRequest, match="partition "):
        arguments.partition(given)


def test_a_pair_names_a_partition() -> None:
    named = arguments.partition(("t", 0))
    assert named == A and str(named) == "t-0"
    assert arguments.partitions([("t", 0), A]) == [A, A]


@pytest.mark.parametrize(
    ("check", "given"),
    [
        (arguments.partitions, "t"),
        (arguments.partitions, A),
        (arguments.partitions, None),
        (arguments.offsets, [A]),
        (arguments.offsets, 5),
        (arguments.offsets, None),
        (arguments.offsets, {"t": 3}),
        (arguments.offsets, {A: None}),
    ],
)
def test_invalid_partitions_or_offsets_are_refused(check: Callable[[Any], object], given: object) -> None:
    with pytest.raises(InvalidRequest, match=": give "):
        check(given)


ID = TopicId("0f" * 16)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        *((LogPosition(5, ID, epoch), "leader epoch") for epoch in (None, "x", 2**40, -2, True)),  # type: ignore[arg-type]  # the point
        *((LogPosition(5, topic_id), "topic id") for topic_id in (7, None, "0F" * 16, "0" * 31, "0" * 33)),  # type: ignore[arg-type]  # the point
        (LogPosition(-1, ID), "offset"),
        ((5, ID, 3), "offset"),
    ],
)
def test_an_invalid_position_is_refused(given: Any, what: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{what} of t-0 = .*: give "):
        arguments.position(A, given)
    with pytest.raises(InvalidRequest, match=f"{what} of t-0 = .*: give "):
        arguments.offsets({A: given})


def test_a_position_need_not_say_which_log_it_belongs_to() -> None:
    for given in (LogPosition(5), LogPosition(5, ID, 0), LogPosition(5, ID, 2**31 - 1)):
        assert arguments.position(A, given) == given
    assert arguments.position(A, 5) == LogPosition(5)
