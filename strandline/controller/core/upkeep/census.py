"""The cluster in numbers: how many partitions are in a state that operators should know about."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.controller.core.survey import Survey, SurveyedPartition


@dataclass(frozen=True, slots=True)
class Census:
    """Sums over a survey. A replica counts as in sync if it is listed in the life that is registered now."""

    topics: int
    partitions: int
    offline: int
    """No live broker leads them."""
    under_replicated: int
    under_min_insync: int
    not_preferred: int
    """Led, but not by the first assigned replica."""
    reassigning: int
    overdue: int
    """Of these, those whose deadline has passed."""
    brokers_alive: int
    brokers_gone: int
    """Brokers that were registered once and still have a queue."""
    brokers_drained: int


def take_census(survey: Survey) -> Census:
    offline = under_replicated = under_min_insync = not_preferred = reassigning = overdue = 0
    for partition in survey.partitions:
        in_sync = _in_sync(survey, partition)
        under_replicated += in_sync < _replication_factor(partition)
        under_min_insync += in_sync < partition.min_insync
        reassigning += partition.reassignment is not None
        overdue += partition.reassignment is not None and partition.reassignment.is_overdue
        if not survey.is_led(partition):
            offline += 1
        else:
            not_preferred += partition.assigned[:1] != (partition.state.leader,)
    return Census(
        topics=len(survey.topics),
        partitions=len(survey.partitions),
        offline=offline,
        under_replicated=under_replicated,
        under_min_insync=under_min_insync,
        not_preferred=not_preferred,
        reassigning=reassigning,
        overdue=overdue,
        brokers_alive=len(survey.live),
        brokers_gone=len(set(survey.known) - survey.live.keys()),
        brokers_drained=len(survey.drains),
    )


def _replication_factor(partition: SurveyedPartition) -> int:
    """As in Kafka, replicas that a reassignment adds are not missed while they catch up."""
    moving = partition.reassignment
    return len(partition.assigned if moving is None else moving.original)


def _in_sync(survey: Survey, partition: SurveyedPartition) -> int:
    live = survey.live
    return sum(
        1
        for member in partition.state.isr
        if member.broker in live and live[member.broker].epoch == member.broker_epoch
    )
