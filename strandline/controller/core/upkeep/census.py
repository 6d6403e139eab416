"""The cluster in numbers: how many partitions are in a state that operators should know about."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.controller.core.survey import Survey


@dataclass(frozen=True, slots=True)
class Census:
    """Sums over a survey. What leaders count themselves is in the metrics of brokers."""

    topics: int
    partitions: int
    offline: int
    """No live broker leads them."""
    not_preferred: int
    """Led, but not by the first assigned replica."""
    overdue: int
    """Reassignments whose deadline has passed."""
    brokers_alive: int
    brokers_gone: int
    """Brokers that were registered once and still have a queue."""
    brokers_drained: int


def take_census(survey: Survey) -> Census:
    offline = not_preferred = overdue = 0
    for partition in survey.partitions:
        overdue += partition.reassignment is not None and partition.reassignment.is_overdue
        if not survey.is_led(partition):
            offline += 1
        else:
            not_preferred += partition.assigned[:1] != (partition.state.leader,)
    return Census(
        topics=len(survey.topics),
        partitions=len(survey.partitions),
        offline=offline,
        not_preferred=not_preferred,
        overdue=overdue,
        brokers_alive=len(survey.live),
        brokers_gone=len(set(survey.known) - survey.live.keys()),
        brokers_drained=len(survey.drains),
    )
