"""Which log an offset belongs to.

A name outlives a topic, and a log can lose its end. So an offset that is kept anywhere (a commit, a position,
a checkpoint) is kept with the id of its topic and with the leader epoch of the record before it. Both are
compared with the log before the offset is used (KIP-320, KIP-516). Other facts of a topic are kept with its
id. This module is the only place that compares them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from strandline.ids import NO_EPOCH, NO_TOPIC_ID, TopicId


class EpochEnd(NamedTuple):
    """Where an epoch ends: the offset after its last record."""

    epoch: int
    end_offset: int


UNDEFINED: Final = EpochEnd(-1, -1)
"""The answer for an epoch that a log cannot place (T9): never a guess, never the log's end."""


class LogPosition(NamedTuple):
    """An offset, and the log that it belongs to."""

    offset: int
    """Of the next record to be read."""
    topic_id: TopicId = NO_TOPIC_ID
    """NO_TOPIC_ID: not known, as in what was kept before topics' ids were."""
    leader_epoch: int = NO_EPOCH
    """Of the record before `offset`; NO_EPOCH: not known, or nothing was read."""


class Match(Enum):
    """Whether a position belongs to a log."""

    SAME = "same log"
    """The record before the position is the one that was read: reading goes on here."""
    ANOTHER_TOPIC = "another topic"
    """The topic was deleted, and made anew under its name: the offset means nothing in this log."""
    CUT = "cut"
    """The log has lost the record before the position, in an election with a loss: go to its epoch's end."""


def same_topic(kept: TopicId, present: TopicId) -> bool:
    """False if both ids are known and differ."""
    return kept == present or not kept or not present


def is_foreign(kept: TopicId, present: TopicId | None) -> bool:
    """True if what is kept is not of the topic that has its name now; None: no topic has it."""
    return bool(kept) if present is None else not same_topic(kept, present)


def compare(kept: LogPosition, present: TopicId, end: EpochEnd) -> Match:
    """Whether a position belongs to the log with the id `present`, in which the largest epoch not above the
    position's ends at `end` (KIP-320). What is not known is not compared."""
    if not same_topic(kept.topic_id, present):
        return Match.ANOTHER_TOPIC
    if kept.leader_epoch == NO_EPOCH or (end.epoch == kept.leader_epoch and kept.offset <= end.end_offset):
        return Match.SAME
    return Match.CUT
