"""A group's committed offsets: they rise, and every record below them was received."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.auditing.checks import COMMITTED
from strandline.ids import TopicPartition
from strandline_lab.auditing.commits import Committed, KafkaTenure, findings

LANE = ("orders", 0)
TOLD = [Committed(at, "g", "orders", 0, offset) for at, offset in ((1, 2), (2, 2), (3, 5), (4, 6))]
RECEIVED = {"g": {LANE: {0, 1, 2, 3, 4, 5, 6}}}
LOG = {LANE: list(range(8))}


def test_commits_that_follow_the_received_records_are_correct() -> None:
    assert findings(TOLD, RECEIVED, LOG) == []


def test_a_group_that_began_in_the_middle_need_not_receive_earlier_records() -> None:
    assert findings(TOLD, {"g": {LANE: {4, 5}}}, LOG) == []
    assert findings(TOLD, {"g": {}}, LOG) == []


def test_a_committed_offset_that_fell_is_found() -> None:
    """G1."""
    (found,) = findings([*TOLD, replace(TOLD[2], at_ms=9, offset=4)], RECEIVED, LOG)
    assert (found.check, found.partition, found.offset) == (COMMITTED.name, 0, 4)
    assert found.detail == "group g had 6 at 4, and this at 9"


def test_offsets_of_other_groups_and_partitions_are_not_compared() -> None:
    others = [replace(TOLD[0], group="h", at_ms=9), replace(TOLD[0], partition=1, at_ms=9)]
    assert findings([*TOLD, *others], RECEIVED, LOG) == []


def test_a_record_that_was_committed_and_that_no_member_received_is_found() -> None:
    """G6, G14: a commit without its records is a loss that no log knows of."""
    (found,) = findings(TOLD, {"g": {LANE: {0, 1, 2, 4, 5}}}, LOG)
    assert (found.check, found.offset) == (COMMITTED.name, 3)
    assert found.detail == "group g has committed 6, and none of its members received this record"


def test_an_offset_without_a_record_is_not_missed() -> None:
    assert findings(TOLD, {"g": {LANE: {0, 1, 2, 4, 5}}}, {LANE: [0, 1, 2, 4, 5, 6, 7]}) == []


def test_an_offset_behind_the_end_of_the_log_is_found() -> None:
    (found,) = findings([replace(TOLD[3], offset=9)], {"g": {LANE: set(range(8))}}, LOG)
    assert found.detail == "group g has committed this, and the last record of the log is 7"


def test_an_acknowledged_commit_that_the_group_does_not_have_is_found() -> None:
    """G12. Only by what was asked for after the acknowledgement, and of the same group and partition."""
    acked = Committed(1, "g", "orders", 0, 7)
    late = replace(TOLD[3], at_ms=9_000)
    (found,) = findings([*TOLD, late], RECEIVED, LOG, [acked])
    assert (found.check, found.offset) == (COMMITTED.name, 7)
    assert found.detail == "a commit of this was acknowledged at 1, and group g had 6 at 9000"
    for well in (replace(acked, offset=6), replace(acked, at_ms=8_999), replace(acked, group="h")):
        assert findings([*TOLD, late], RECEIVED, LOG, [well]) == []


# --- Kafka clients that send an older commit again --------------------------------------------------

SEEN = [Committed(at, "g", "orders", 0, offset) for at, offset in ((1, 2), (4, 6), (7, 4), (9, 4))]
"""The offset fell from 6 to 4 between 4 and 7."""


def kafka(
    *acknowledged: tuple[int, int], received_at: int = 0, group: str = "g", number: int = 0
) -> KafkaTenure:
    """A Kafka client that received offsets 0 to 6 at this time, and got these answers: when, and to which."""
    return KafkaTenure(
        group,
        TopicPartition("orders", number),
        dict.fromkeys(range(7), received_at),
        [Committed(at, group, "orders", number, offset) for at, offset in acknowledged],
    )


@pytest.mark.parametrize(
    "acknowledged",
    [
        ((2, 2), (3, 6), (6, 4)),
        ((3, 6), (3, 4)),
        ((2, 2), (6, 4)),
    ],
    ids=["after the newer one", "at the same time", "the newer one was never answered"],
)
def test_an_older_commit_that_a_kafka_client_sent_again_is_no_fault(
    acknowledged: tuple[tuple[int, int], ...],
) -> None:
    """librdkafka resends it as its coordinator moves: Kafka's coordinators store it too."""
    assert findings(SEEN, RECEIVED, LOG, kafka=[kafka(*acknowledged)]) == []
    back = [*SEEN, Committed(12, "g", "orders", 0, 6)]
    assert findings(back, RECEIVED, LOG, kafka=[kafka(*acknowledged, (11, 6))]) == []


@pytest.mark.parametrize(
    "tenure",
    [
        kafka((2, 4), (3, 6)),
        kafka((2, 4), (4, 6), (6, 5)),
        kafka((3, 6), (6, 4), received_at=5),
        kafka((3, 6), (6, 4), group="h"),
        kafka((3, 6), (6, 4), number=1),
    ],
    ids=[
        "a coordinator forgot the newer one",
        "it sent another one",
        "the newer one is another member's",
        "another group",
        "another partition",
    ],
)
def test_any_other_older_offset_is_found(tenure: KafkaTenure) -> None:
    """G1, G12."""
    (found, *_) = findings(SEEN, RECEIVED, LOG, kafka=[tenure])
    assert (found.check, found.offset) == (COMMITTED.name, 4)
    assert found.detail == "group g had 6 at 4, and this at 7"


def test_an_older_commit_that_a_member_of_strandline_sent_again_is_found() -> None:
    """G1."""
    again = kafka((3, 6), (6, 4)).acknowledged
    assert {each.offset for each in findings(SEEN, RECEIVED, LOG, again)} == {4}


def test_what_falls_below_the_older_commit_is_found() -> None:
    tenure = kafka((3, 6), (6, 4))
    (found,) = findings([*SEEN, Committed(12, "g", "orders", 0, 3)], RECEIVED, LOG, kafka=[tenure])
    assert (found.offset, found.detail) == (3, "group g had 4 at 7, and this at 12")


def test_an_acknowledged_commit_of_a_kafka_client_that_the_group_does_not_have_is_found() -> None:
    """G12. What it took back by an older commit of its own is not missed."""
    late = replace(SEEN[2], at_ms=9_000)
    assert findings([late], RECEIVED, LOG, kafka=[kafka((3, 6), (6, 4))]) == []
    (found,) = findings([late], RECEIVED, LOG, kafka=[kafka((2, 4), (3, 6))])
    assert found.detail == "a commit of this was acknowledged at 3, and group g had 4 at 9000"


# --- what falls --------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 6), max_size=8))
def test_offsets_fell_if_and_only_if_they_are_not_in_order(offsets: list[int]) -> None:
    answers = [Committed(at, "g", "orders", 0, offset) for at, offset in enumerate(offsets)]
    assert bool(findings(answers, {}, {})) == (offsets != sorted(offsets))
