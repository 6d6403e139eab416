"""Finds faults that no broker is repairing yet, and repairs them.

Brokers repair what they see themselves; this finds the rest. A symptom must persist for a while, since most
clear by themselves; a repair that did not help is retried with doubling waits, because the broker that has to
act may be unable to. Each repair is a hint to a broker that decides by itself, or removes something without
meaning, so repeating one is harmless.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from strandline.controller.core.survey import StandingReassignment, Survey, SurveyedPartition
from strandline.ids import NO_EPOCH, BrokerEpoch, BrokerId, PartitionKey
from strandline.vocabulary.log_statements import current_statements, longest, missing

RETRY_FACTOR_MAX: Final = 64
"""The bound of the wait between two tries, in multiples of the first wait."""


@dataclass(frozen=True, slots=True)
class CallElection:
    """There is no leader, though `broker` could lead."""

    partition: SurveyedPartition
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class StartReplica:
    """`broker` is assigned and alive, is not in sync or has no leader, and no request waits for it.

    Not for a replica that a reassignment adds: it catches up, and its request was written with the
    reassignment.
    """

    partition: SurveyedPartition
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class DropReassignment:
    """Its topic is gone."""

    standing: StandingReassignment


@dataclass(frozen=True, slots=True)
class DropNotices:
    """The broker is gone: when it returns it checks its partitions by itself."""

    broker: BrokerId
    count: int


Repair = CallElection | StartReplica | DropReassignment | DropNotices
Symptom = tuple[object, ...]


@dataclass(slots=True)
class _Case:
    due_ms: int
    wait_ms: int


class RepairPlanner:
    """Remembers since when each symptom exists; forgets those that have cleared."""

    def __init__(self, after_ms: int) -> None:
        self._after_ms = after_ms
        self._cases: dict[Symptom, _Case] = {}

    def plan(self, survey: Survey, queued: Mapping[BrokerId, Set[PartitionKey]], now_ms: int) -> list[Repair]:
        """The repairs that are due now. `queued`: the partitions of each broker's unended requests."""
        found = dict(_symptoms(survey, queued))
        self._cases = {
            symptom: self._cases.get(symptom) or _Case(now_ms + self._after_ms, self._after_ms)
            for symptom in found
        }
        return [repair for symptom, repair in found.items() if self._is_due(symptom, now_ms)]

    def _is_due(self, symptom: Symptom, now_ms: int) -> bool:
        case = self._cases[symptom]
        if now_ms < case.due_ms:
            return False
        case.wait_ms = min(2 * case.wait_ms, RETRY_FACTOR_MAX * self._after_ms)
        case.due_ms = now_ms + case.wait_ms
        return True


def _symptoms(
    survey: Survey, queued: Mapping[BrokerId, Set[PartitionKey]]
) -> Iterable[tuple[Symptom, Repair]]:
    for partition in survey.partitions:
        yield from _of_partition(survey, partition, queued)
    for standing in survey.reassignments:
        if survey.topics.get(standing.topic) != standing.topic_id:
            yield (DropReassignment, standing.topic, standing.partition), DropReassignment(standing)
    for broker, count in survey.noticed.items():
        if broker not in survey.live:
            yield (DropNotices, broker), DropNotices(broker, count)


def _of_partition(
    survey: Survey, partition: SurveyedPartition, queued: Mapping[BrokerId, Set[PartitionKey]]
) -> Iterable[tuple[Symptom, Repair]]:
    led = survey.is_led(partition)
    candidate = None if led else _candidate(survey, partition)
    if candidate is not None and not _is_new(partition, queued.get(candidate, ())):
        epoch = partition.state.leader_epoch
        yield (CallElection, partition.key, epoch, candidate), CallElection(partition, candidate)
    if not led and candidate is None:
        return  # no replica can lead, so none can follow
    for broker in partition.assigned:
        registration = survey.live.get(broker)
        if (
            registration is not None
            and not registration.shutting_down
            # A reassignment closes those that it removes: they open again only if no other can lead.
            and (broker == candidate or broker in partition.wanted)
            and (broker == candidate or not _is_added(partition, broker))
            and not (led and _is_member(partition, broker, registration.epoch))
            and partition.key not in queued.get(broker, ())
        ):
            life = registration.epoch
            yield (StartReplica, partition.key, broker, life), StartReplica(partition, broker)


def _is_new(partition: SurveyedPartition, queued: Container[PartitionKey]) -> bool:
    """True if it never had a leader, and this broker's start of it still waits: the broker claims it then. A
    notice would come too early, and many would, after thousands were created at once."""
    return partition.state.leader_epoch == NO_EPOCH and partition.key in queued


def _candidate(survey: Survey, partition: SurveyedPartition) -> BrokerId | None:
    """The first live member of the ISR in AR order, one that is not drained if there is any.

    A member that came back in another life ranks last: only it knows whether its log is whole. A member
    whose statement in `isr` says that it cannot lead without a loss counts only if it may by
    `log_statements`; the others wait for a broker or for an operator, and no request helps them.
    """
    statements = current_statements(partition.state, survey.live)
    unable = {statement.broker for statement in statements}
    if not missing(partition.state, survey.live, statements) and (
        best := longest(statements, partition.assigned)
    ):
        unable.discard(best.broker)
    members = [broker for broker in partition.assigned if broker in partition.state and broker not in unable]
    ranked = sorted(
        (broker for broker in members if broker in survey.live and not survey.live[broker].shutting_down),
        key=lambda broker: (not survey.is_live(partition, broker), survey.is_drained(broker)),
    )
    return ranked[0] if ranked else None


def _is_added(partition: SurveyedPartition, broker: BrokerId) -> bool:
    """True if the present reassignment adds it and has requested its start: it may catch up for hours."""
    moving = partition.reassignment
    return moving is not None and broker not in moving.original


def _is_member(partition: SurveyedPartition, broker: BrokerId, life: BrokerEpoch) -> bool:
    return any(m.broker == broker and m.broker_epoch == life for m in partition.state.isr)
