"""The checks of an audit: their names, their meanings, and the sentences about findings.

A log keeps its guarantees if no check has a finding (CORRECTNESS: lost write, duplicate, non-monotonic send
and poll, poll-skip, aborted read, inconsistent offsets, a high watermark that goes back). `reference.py`
decides the findings for histories in memory, and the pipeline's audit for larger ones.

More checks apply to a whole cluster: `cluster.py` decides some, the laboratory's `auditing` others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class Check:
    """One way in which a log breaks its guarantees.

    `within_assignment`: judges a reader only between the assignment of a partition and its loss. When readers
    hand a partition over, the next one begins at the group's committed offset, and may receive records again
    that the previous one received.
    """

    name: str
    meaning: str
    within_assignment: bool = False


class Finding(NamedTuple):
    """A violation of a check. Its partition or offset is None if unknown."""

    check: str
    topic: str
    partition: int | None
    offset: int | None
    detail: str

    @property
    def sentence(self) -> str:
        """The whole finding in one line."""
        partition = "" if self.partition is None else f"-{self.partition}"
        offset = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.check}: {self.topic}{partition}{offset}: {self.detail}"


LOST: Final = Check(
    "lost",
    "A record was acknowledged, and is not in the log, though nothing was deleted there.",
)
DUPLICATED: Final = Check(
    "duplicated",
    "A value is in the log at more offsets than it was sent times.",
)
REORDERED: Final = Check(
    "reordered",
    "Records that one producer sent to a partition were acknowledged at offsets that fall, or a reader was "
    "returned offsets of a partition that do not rise.",
    within_assignment=True,
)
UNSEEN: Final = Check(
    "unseen",
    "A reader received a record from before a record of the log, and next one from after it.",
    within_assignment=True,
)
ABORTED: Final = Check(
    "aborted",
    "A record failed with an outcome that says that it was not appended, and is in the log, or was received.",
)
INCONSISTENT: Final = Check(
    "inconsistent",
    "An offset has two values: for two readers, for a reader and the log, or for a producer with an "
    "acknowledgement and either of them.",
)
WATERMARK: Final = Check(
    "watermark",
    "A high watermark went back: a reader received one that is not above a record that it had received, or "
    "less than an earlier one, or it received a record where the log ends.",
)
AMBIGUOUS: Final = Check(
    "ambiguous",
    "A value was sent twice, so it is unknown whether it is duplicated. No fault of the log: give each "
    "producer a --value-prefix of its own.",
)

CHECKS: Final = (LOST, DUPLICATED, REORDERED, UNSEEN, ABORTED, INCONSISTENT, WATERMARK, AMBIGUOUS)
"""The checks of histories and the log."""

REPLICAS: Final = Check(
    "replicas",
    "Below the high watermark, the log of an in-sync replica is not byte for byte that of the leader, is "
    "damaged, or ends before it; or its list of leader epochs is not what its batches say.",
)
LEADERSHIP: Final = Check(
    "leadership",
    "A leader is not in its own ISR or came from outside it, epochs fell, one epoch had two leaders or none, "
    "or a change of the ISR was not reported.",
)
FELL: Final = Check(
    "fell",
    "A leader reported a high watermark below one that a leader of the same or an earlier epoch had.",
)
TWO_OWNERS: Final = Check(
    "two-owners",
    "Two members of a group held a partition at one time, though the earlier one was not expelled.",
)
HANDOVER: Final = Check(
    "handover",
    "A member was assigned a partition that it held already, or gave one up that it did not hold.",
)
COMMITTED: Final = Check(
    "committed",
    "The committed offset of a group fell, or passed a record that no member of the group had received, or "
    "is below an acknowledged commit of a member.",
)
HANDLED: Final = Check(
    "handled",
    "A member gave up a partition in order while it still worked on a record of it.",
)
REQUESTS: Final = Check(
    "requests",
    "A state-change request has two ends, or none though the cluster has settled, or was never requested.",
)

LEADERLESS: Final = Check(
    "leaderless",
    "A broker hung while nothing else was wrong, and a partition that it led had no other leader in time.",
)

TORN: Final = Check(
    "torn",
    "Some records of a transaction are committed, and others of it are not.",
)
PROCESSED: Final = Check(
    "processed",
    "A record that a group processes in transactions has two committed outputs, or none though the committed "
    "offset of the group is above it, or one though it is not.",
)
HANGING: Final = Check(
    "hanging",
    "A transaction was still open after the longest timeout of a transaction.",
)

CLUSTER_CHECKS: Final = (
    REPLICAS, LEADERSHIP, LEADERLESS, FELL, TWO_OWNERS, HANDOVER, COMMITTED, HANDLED, REQUESTS, TORN,
    PROCESSED, HANGING,
)  # fmt: skip
"""The checks of a cluster's reports and disks."""

ALL_CHECKS: Final = (*CHECKS, *CLUSTER_CHECKS)

FOREIGN: Final = Check(
    "foreign",
    "A value is in the log that no producer sent, or in another partition than the one it was sent to.",
)
GAP: Final = Check(
    "gap",
    "An offset between the start and the end of the log has no record, though nothing was deleted.",
)

CLOSED_TOPIC_CHECKS: Final = (FOREIGN, GAP)
"""The checks of topics whose producers are all known and whose log is complete."""


def in_order(found: Iterable[Finding]) -> list[Finding]:
    """Sorts by check, topic, partition and offset; unknown values come first."""
    order = {check.name: number for number, check in enumerate((*ALL_CHECKS, *CLOSED_TOPIC_CHECKS))}

    def key(each: Finding) -> tuple[int, str, int, int, str]:
        partition = -1 if each.partition is None else each.partition
        offset = -1 if each.offset is None else each.offset
        return order[each.check], each.topic, partition, offset, each.detail

    return sorted(found, key=key)


# --- sentences about findings: names in braces stand for facts ---------------------------------

NOT_IN_LOG: Final = (
    "record {record} of {history} was acknowledged here, and the log, from {start} to {end}, does not have it"
)
NOWHERE_IN_LOG: Final = (
    "record {record} of {history} was acknowledged without an offset, and its value is nowhere in the log"
)
ALSO_ELSEWHERE: Final = (
    "the value of record {record} of {history} is also at offset {offset} of partition {partition}"
)
SENT_OUT_OF_ORDER: Final = (
    "record {record} of {history} was acknowledged here, and record {earlier}, sent before it, at {offset}"
)
LOGGED_OUT_OF_ORDER: Final = "the log has record {record} of {history} here, and record {later} before it"
READ_OUT_OF_ORDER: Final = "{history} received this offset after {offset}, within one assignment"
PASSED_OVER: Final = "{history} received offsets {before} and {after}, one after the other"
DENIED_IN_LOG: Final = "record {record} of {history} failed as {outcome}, and the log has it here"
DENIED_RECEIVED: Final = "record {record} of {history} failed as {outcome}, and {reader} received it here"
ACKED_OTHERWISE: Final = (
    "record {record} of {history} was acknowledged here, and the log has another value here"
)
RECEIVED_OTHERWISE: Final = "{history} received a value here, and the log has another one"
DISAGREEING: Final = "{history} and {other} have two values for this offset, and the log has none"
WATERMARK_TOO_LOW: Final = "{history} received {watermark} as the high watermark, after {known} was certain"
BEYOND_END: Final = "{history} received this record, and the log ends at {end}"
NEVER_SENT: Final = "the log has a value here that no producer sent"
SENT_ELSEWHERE: Final = (
    "record {record} of {history} was sent to partition {partition}, and the log has it here"
)
NO_RECORD: Final = "the log, from {start} to {end}, has no record here"
SENT_TWICE: Final = "record {record} of {history} and record {other_record} of {other} have the same value"
