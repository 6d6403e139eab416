"""How long a throttled copy takes."""

from __future__ import annotations

import pytest

from strandline.config.limits import REASSIGNMENT_NEAR_BYTES
from strandline.ids import BrokerId, TopicId, TopicPartition
from strandline.vocabulary.admin import BalancePlan
from strandline.vocabulary.metadata import BalanceMove, throttled_ms

NEAR = REASSIGNMENT_NEAR_BYTES


@pytest.mark.parametrize(
    ("bytes_left", "copies", "expected_ms"),
    [(0, 1, 0), (NEAR, 1, 0), (NEAR + 500, 1, 5_000), (2 * NEAR + 500, 2, 5_000), (NEAR + 500, 2, 0)],
)
def test_only_what_is_far_from_the_end_is_held_back(bytes_left: int, copies: int, expected_ms: int) -> None:
    """CORRECTNESS I10: a replica that has nearly caught up is not slowed down."""
    assert throttled_ms(bytes_left, 100, copies=copies) == expected_ms


def test_the_largest_of_some_moves_tells_how_long_they_take() -> None:
    def move(number: int, after: tuple[int, ...], size: int) -> BalanceMove:
        before, brokers = (BrokerId(1),), tuple(BrokerId(each) for each in after)
        return BalanceMove(TopicPartition("orders", number), TopicId("t"), before, brokers, size)

    moves = (move(0, (2,), NEAR + 100), move(1, (2, 3), NEAR + 100), move(2, (1,), 9 * NEAR))
    assert BalancePlan(moves, ()).longest_ms(100) == 2_000, "two copies share it; one that is none is free"
    assert BalancePlan((), ()).longest_ms(100) == 0
