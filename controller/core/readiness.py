"""Whether a broker is caught up, and may be stopped without a partition falling below its bound.

A process that answers is not a broker that is ready: a rolling restart that goes on too early takes the next
replica away while this one still catches up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.core.survey import Survey, SurveyedPartition
from strandline.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Readiness:
    ready: bool
    problems: Sequence[str]
    leaderships: int
    replicas: int


def check_broker(survey: Survey, broker: BrokerId, unended: int) -> Readiness:
    """`unended`: requests in its queue that have not ended. Problems name partitions and values."""
    problems = _problems_of_its_own(survey, broker, unended)
    hosted = [p for p in survey.partitions if broker in p.assigned or broker in p.state]
    for partition in hosted:
        problem = _problem(survey, partition, broker)
        if problem is not None:
            problems.append(f"{partition}: {problem}")
    leads = sum(partition.state.leader == broker for partition in hosted)
    return Readiness(not problems, problems, leads, len(hosted))


def _problems_of_its_own(survey: Survey, broker: BrokerId, unended: int) -> list[str]:
    problems = []
    registration = survey.live.get(broker)
    if registration is None:
        problems.append(f"broker {broker} is not registered")
    elif registration.shutting_down:
        problems.append(f"broker {broker} is shutting down")
    if unended:
        problems.append(f"broker {broker} has {unended} state-change requests in its queue")
    return problems


def _problem(survey: Survey, partition: SurveyedPartition, broker: BrokerId) -> str | None:
    """The first thing that stands against stopping this broker, the lasting ones first."""
    replicas, bound = len(partition.wanted), partition.min_insync
    if replicas <= bound:
        return (
            f"no broker of it can ever be stopped safely: its replication factor is {replicas} and "
            f"min.insync.replicas {bound}"
        )
    if not survey.is_led(partition):
        return "it has no leader"
    in_sync = [member for member in partition.state.isr_ids if survey.is_live(partition, member)]
    isr = ",".join(map(str, in_sync))
    if broker in partition.wanted and broker not in in_sync:
        return f"broker {broker} is not in sync: the ISR is {isr}"
    left = len([member for member in in_sync if member != broker])
    if left < bound:
        return f"the ISR {isr} without broker {broker} would be {left}, and min.insync.replicas is {bound}"
    return None
