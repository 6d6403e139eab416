"""The rules that a walk may break, one at a time, to prove that it would notice."""

from __future__ import annotations

from enum import Enum


class Rule(Enum):
    """The rules that keep acknowledged records. Each value names its row of docs/correctness.md."""

    TRUNCATE_BY_EPOCH = "T1: a follower cuts where epochs part, not at its own HW"
    ASK_UNTIL_EPOCHS_AGREE = "T3: after a cut the follower asks again, until both logs agree"
    WRITE_EPOCH_AT_ELECTION = "T4: (epoch, LEO) is written down on becoming leader"
    CHECK_AT_EACH_EPOCH = "T5: every change of epoch is checked for divergence, even with the same leader"
    DROP_OTHER_SUBSCRIPTIONS = "T6: data of another subscription is not appended"
    CUT_BEFORE_WATERMARK = "T10: a follower takes no HW before its log was cut"
    COUNT_ONLY_THIS_EPOCH = "H2: only positions reported in the leader's own epoch count"
    WRITE_ISR_FIRST = "H3: the HW moves on a smaller ISR only when ZooKeeper has it"
    ENOUGH_IN_SYNC = "H5: the HW stands still below min.insync.replicas"
    QUEUE_DIES_WITH_EPOCH = "H6: what is queued at the end of a leadership is never acknowledged"
    REACH_EPOCH_START = "I1: a replica that joins the ISR has reached the start of the epoch"
    COMPARE_AND_SET = "I3: every write of the ISR is a compare-and-set"
    POSITION_OF_THIS_LIFE = "I6: a position belongs to the life that reported it"
    PROBE_SUSPECTS_AGAIN = "H10: a suspect is asked again and again, until it answers or is gone"
    TELL_THE_DEPOSED = "E1: a leader deposed unnoticed learns it from its successor, traffic or not"
    LIVES_END_WITH_POWER = "E2: a replica that may have lost its tail is no member of any ISR"
