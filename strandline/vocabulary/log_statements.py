"""Decides which replica leads if no in-sync replica can lead without a loss, and what is known of
the loss (CORRECTNESS E2, E3).

After a loss of power in all machines no member of the ISR is sure to have all its records. Each
replica that returns and cannot lead writes the state of its log into `isr`: a `LogStatement`. A
partition without a leader gets no appends, so a statement stays true for the life of the broker
that made it. A claim is a compare-and-set on the same version of `isr` whose statements it was
decided on, so no statement can come in between.

A member that is sure to have all its records makes no statement: it runs for election. So as long
as a member is missing, or is alive and has made no statement, these rules elect no leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from strandline.ids import BrokerEpoch, BrokerId
from strandline.vocabulary.metadata import LogCondition, LogStatement, PartitionState, Registration

_MAY_LEAD_BY_LENGTH = frozenset({LogCondition.UNSURE, LogCondition.OUTSIDE})


def current_statements(
    state: PartitionState, live: Mapping[BrokerId, Registration], suspects: Set[BrokerEpoch] = frozenset()
) -> tuple[LogStatement, ...]:
    """The statements of brokers that are still alive in the registration in which they made them."""
    return tuple(
        statement
        for statement in state.statements
        if (registration := live.get(statement.broker)) is not None
        and registration.epoch == statement.broker_epoch
        and statement.broker_epoch not in suspects
    )


def missing(
    state: PartitionState, live: Mapping[BrokerId, Registration], statements: Sequence[LogStatement]
) -> list[str]:
    """The reasons why the longest log is not yet known, one for each member that has not returned
    with its log."""
    conditions = {each.broker: each.condition for each in statements}
    reasons = []
    for member in state.isr:
        match conditions.get(member.broker):
            case LogCondition.UNSURE:
                continue
            case None if member.broker in live:
                reasons.append(f"broker {member.broker} has not stated what its log has")
            case None:
                reasons.append(f"broker {member.broker} is not alive")
            case LogCondition.DAMAGED:
                reasons.append(f"the log of broker {member.broker} is damaged")
            case _:
                reasons.append(f"broker {member.broker} lost its log")
    return reasons


def silent_members(
    state: PartitionState, live: Mapping[BrokerId, Registration], statements: Sequence[LogStatement]
) -> tuple[BrokerId, ...]:
    """Members that are alive and have made no statement: any of them may still lead without a loss."""
    stated = {each.broker for each in statements}
    return tuple(m.broker for m in state.isr if m.broker in live and m.broker not in stated)


def longest(
    statements: Sequence[LogStatement], assigned: Sequence[BrokerId], *, absent: bool = False
) -> LogStatement | None:
    """The log with the highest last epoch, then the longest, then the first in AR. `absent`: also
    consider logs that were lost since their brokers were in sync."""
    able = [
        each
        for each in statements
        if each.broker in assigned
        and (each.condition in _MAY_LEAD_BY_LENGTH or (absent and each.condition is LogCondition.ABSENT))
    ]
    return max(able, key=lambda e: (e.last_epoch, e.log_end, -tuple(assigned).index(e.broker)), default=None)


@dataclass(frozen=True, slots=True)
class Loss:
    """The records that a leader with this log end lacks, as far as the statements show."""

    first: int
    """The LEO of the leader: all committed records from here on are missing."""
    end: int
    """The highest known HW: all records below it were committed for certain."""

    @property
    def certain(self) -> int:
        return self.end - self.first

    def __str__(self) -> str:
        if self.certain:
            return (
                f"committed records {self.first} to {self.end - 1} are missing; "
                f"more may be missing from {self.end} on"
            )
        return f"no committed record is known to be missing; some may be from {self.first} on"


def loss(log_end: int, statements: Sequence[LogStatement]) -> Loss:
    """`statements` are those of all replicas that made one: replicas outside the ISR may know a higher HW."""
    return Loss(log_end, max([log_end, *(each.high_watermark for each in statements)]))
