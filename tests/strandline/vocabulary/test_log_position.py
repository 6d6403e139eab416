"""One rule says whether an offset belongs to a log (KIP-320, KIP-516)."""

from __future__ import annotations

import pytest

from strandline.ids import NO_EPOCH, NO_TOPIC_ID, TopicId
from strandline.vocabulary.log_position import UNDEFINED, EpochEnd, LogPosition, Match, compare, same_topic

OLD, NEW = TopicId("0" * 31 + "1"), TopicId("0" * 31 + "2")


@pytest.mark.parametrize(
    ("kept", "end", "match"),
    [
        (LogPosition(5, NEW, 3), EpochEnd(3, 9), Match.SAME),
        (LogPosition(9, NEW, 3), EpochEnd(3, 9), Match.SAME),
        (LogPosition(10, NEW, 3), EpochEnd(3, 9), Match.CUT),
        (LogPosition(5, NEW, 3), EpochEnd(2, 9), Match.CUT),
        (LogPosition(5, NEW, 3), UNDEFINED, Match.CUT),
        (LogPosition(5, NEW, NO_EPOCH), UNDEFINED, Match.SAME),
        (LogPosition(0, NO_TOPIC_ID, NO_EPOCH), UNDEFINED, Match.SAME),
        (LogPosition(10, NO_TOPIC_ID, 3), EpochEnd(3, 9), Match.CUT),
        (LogPosition(5, OLD, 3), EpochEnd(3, 9), Match.ANOTHER_TOPIC),
        (LogPosition(5, OLD, NO_EPOCH), EpochEnd(3, 9), Match.ANOTHER_TOPIC),
        (LogPosition(0, OLD, NO_EPOCH), UNDEFINED, Match.ANOTHER_TOPIC),
    ],
)
def test_a_position_belongs_to_the_log_that_has_the_record_before_it(
    kept: LogPosition, end: EpochEnd, match: Match
) -> None:
    """The id is compared first: offsets of two topics have nothing to do with each other."""
    assert compare(kept, NEW, end) is match


@pytest.mark.parametrize(("kept", "same"), [(NEW, True), (OLD, False), (NO_TOPIC_ID, True)])
def test_an_id_that_is_not_known_is_not_compared(kept: TopicId, same: bool) -> None:
    assert same_topic(kept, NEW) is same
    assert same_topic(NEW, kept) is same
