"""The rules that a walk may break, one at a time, to prove that it would notice."""

from __future__ import annotations

from enum import Enum


class Rule(Enum):
    """The rules that keep requests and replicas in order. Most values name their row of
    docs/correctness.md."""

    TOPIC_ID = "Q1: a request means one incarnation of a topic"
    INCARNATION = "Q1, E6: a write to the znodes of a topic says which incarnation it means"
    END_BY_COMPARE_AND_SET = "Q2: the end of a request is written over what was read"
    RECORD_BEFORE_REMOVE = "Q2: a request leaves its queue only when its life is recorded"
    TRAIL = "E7: what happens to a partition is in the very write that makes it happen"
    ASSIGNED_VERSION = "E16: no broker is elected by an outdated AR"
    IN_ORDER = "Q2: requests of one partition are executed in their order, one at a time"
