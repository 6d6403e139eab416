"""Which record a member of librdkafka may receive a second time, and which never."""

from __future__ import annotations

import pytest

from strandline_lab.chaos.kafka.repeats import Repeats


@pytest.fixture
def member() -> Repeats:
    """A member that has received two records of partition 0."""
    member = Repeats()
    member.rebalanced([0])
    assert not member.repeats(0, 7, b"seven")
    assert not member.repeats(0, 8, b"eight")
    return member


def test_the_last_record_before_a_rebalance_may_come_again_once(member: Repeats) -> None:
    member.rebalanced([])
    assert member.repeats(0, 8, b"eight")
    assert not member.repeats(0, 8, b"eight"), "a third time has no excuse"


@pytest.mark.parametrize(("offset", "value"), [(7, b"seven"), (8, b"another"), (9, b"nine")])
def test_no_other_record_is_excused(member: Repeats, offset: int, value: bytes) -> None:
    member.rebalanced([])
    assert not member.repeats(0, offset, value)
    assert not member.repeats(0, 8, b"eight"), "only the first record after the rebalance"


def test_nothing_is_excused_without_a_rebalance(member: Repeats) -> None:
    assert not member.repeats(0, 8, b"eight")


def test_a_partition_that_was_given_anew_begins_anew(member: Repeats) -> None:
    """Its history has a new assignment, which explains any offset."""
    member.rebalanced([0])
    assert not member.repeats(0, 8, b"eight")
