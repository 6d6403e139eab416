"""What is wrong in the cluster and is nobody's work in progress, and what mends it.

Brokers put right what they see themselves; this finds what fell between them. Nothing is done before it has
looked wrong for a while, for most of it is on its way to be right, and what did not help is tried again
after twice as long each time: whoever has to act may be unable to. Every mend is a word to somebody who
decides for himself, or removes what means nothing any more, so one too many changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from strandline.controller.core.survey import StandingReassignment, Survey, SurveyedPartition
from strandline.ids import BrokerEpoch, BrokerId, PartitionKey
from strandline.vocabulary.log_statements import current_statements, longest, missing

AGAIN_FACTOR_MAX: Final = 64
"""At most so many times the first wait lies between two tries."""


@dataclass(frozen=True, slots=True)
class CallElection:
    """Nobody leads, though `broker` could."""

    partition: SurveyedPartition
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class StartReplica:
    """`broker` is assigned and alive, is not in sync or led by nobody, and no request waits for it.

    Nobody whom a reassignment adds: that one catches up, and its request was written with the reassignment.
    """

    partition: SurveyedPartition
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class DropReassignment:
    """Of a topic that is gone."""

    standing: StandingReassignment


@dataclass(frozen=True, slots=True)
class DropNotices:
    """For a broker that is gone: when it returns it looks for itself."""

    broker: BrokerId
    count: int


Mend = CallElection | StartReplica | DropReassignment | DropNotices
Symptom = tuple[object, ...]


@dataclass(slots=True)
class _Case:
    due_ms: int
    wait_ms: int


class Mender:
    """Remembers since when what looks wrong; forgets what does not any more."""

    def __init__(self, after_ms: int) -> None:
        self._after_ms = after_ms
        self._cases: dict[Symptom, _Case] = {}

    def look(self, survey: Survey, queued: Mapping[BrokerId, Set[PartitionKey]], now_ms: int) -> list[Mend]:
        """What to mend now. `queued`: for which partitions requests wait that have not ended."""
        found = dict(_symptoms(survey, queued))
        self._cases = {
            symptom: self._cases.get(symptom) or _Case(now_ms + self._after_ms, self._after_ms)
            for symptom in found
        }
        return [mend for symptom, mend in found.items() if self._is_due(symptom, now_ms)]

    def _is_due(self, symptom: Symptom, now_ms: int) -> bool:
        case = self._cases[symptom]
        if now_ms < case.due_ms:
            return False
        case.wait_ms = min(2 * case.wait_ms, AGAIN_FACTOR_MAX * self._after_ms)
        case.due_ms = now_ms + case.wait_ms
        return True


def _symptoms(survey: Survey, queued: Mapping[BrokerId, Set[PartitionKey]]) -> Iterable[tuple[Symptom, Mend]]:
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
) -> Iterable[tuple[Symptom, Mend]]:
    led = survey.is_led(partition)
    heir = None if led else _heir(survey, partition)
    if heir is not None:
        epoch = partition.state.leader_epoch
        yield (CallElection, partition.key, epoch, heir), CallElection(partition, heir)
    if not led and heir is None:
        return  # nobody can lead, so nobody can be followed
    for broker in partition.assigned:
        registration = survey.live.get(broker)
        if (
            registration is not None
            and not registration.shutting_down
            and broker in partition.wanted  # else a reassignment closes it
            and (broker == heir or not _is_added(partition, broker))
            and not (led and _is_member(partition, broker, registration.epoch))
            and partition.key not in queued.get(broker, ())
        ):
            life = registration.epoch
            yield (StartReplica, partition.key, broker, life), StartReplica(partition, broker)


def _heir(survey: Survey, partition: SurveyedPartition) -> BrokerId | None:
    """The first live member of the ISR in AR order, one that is not drained if there is any.

    A member that came back in another life counts last: it alone knows whether its log is whole. One that
    said in `isr` that it cannot lead without a loss counts only if it may by `log_statements`; the others
    wait for a broker or for an operator, and no request helps them.
    """
    said = current_statements(partition.state, survey.live)
    unable = {statement.broker for statement in said}
    if not missing(partition.state, survey.live, said) and (best := longest(said, partition.assigned)):
        unable.discard(best.broker)
    members = [broker for broker in partition.assigned if broker in partition.state and broker not in unable]
    ranked = sorted(
        (broker for broker in members if broker in survey.live and not survey.live[broker].shutting_down),
        key=lambda broker: (not survey.is_live(partition, broker), survey.is_drained(broker)),
    )
    return ranked[0] if ranked else None


def _is_added(partition: SurveyedPartition, broker: BrokerId) -> bool:
    """By the reassignment under way, which asked it to start: a throttle may let it catch up for hours."""
    moving = partition.reassignment
    return moving is not None and broker not in moving.original


def _is_member(partition: SurveyedPartition, broker: BrokerId, life: BrokerEpoch) -> bool:
    return any(m.broker == broker and m.broker_epoch == life for m in partition.state.isr)
