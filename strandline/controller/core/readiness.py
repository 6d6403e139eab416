"""Decides whether a broker is caught up, and may be stopped without a partition falling below its bound.

A process that answers is not necessarily a broker that is ready: a rolling restart that continues too early
takes the next replica away while this one still catches up.
"""

from __future__ import annotations

from strandline.controller.core.broker_list import listed
from strandline.controller.core.survey import Survey, SurveyedPartition
from strandline.ids import BrokerId
from strandline.vocabulary.admin import BrokerCheck


def check_broker(survey: Survey, broker: BrokerId, unended: int) -> BrokerCheck:
    """`unended`: requests in its queue that have not ended. Problems name partitions and values."""
    passing = _problems_of_its_own(survey, broker, unended)
    permanent = []
    hosted = [p for p in survey.partitions if broker in p.assigned or broker in p.state]
    for partition in hosted:
        if (problem := _passing_problem(survey, partition, broker)) is not None:
            passing.append(f"{partition}: {problem}")
        if _is_never_safe(partition, broker):
            permanent.append(
                f"{partition}: no broker of it can ever be stopped safely: its replication factor is "
                f"{len(partition.wanted)} and min.insync.replicas {partition.min_insync}"
            )
    problems = [*passing, *permanent]
    leads = sum(partition.state.leader == broker for partition in hosted)
    return BrokerCheck(not problems, problems, leads, len(hosted), permanent)


def _problems_of_its_own(survey: Survey, broker: BrokerId, unended: int) -> list[str]:
    problems = []
    registration = survey.live.get(broker)
    if registration is None:
        problems.append(f"broker {broker} is not registered; alive: {listed(survey.live)}")
    elif registration.shutting_down:
        problems.append(f"broker {broker} is shutting down")
    if unended:
        problems.append(f"broker {broker} has {unended} state-change requests in its queue")
    return problems


def _is_never_safe(partition: SurveyedPartition, broker: BrokerId) -> bool:
    """It needs all its replicas in sync, so without one of them it takes no writes with acks=all."""
    return broker in partition.wanted and len(partition.wanted) <= partition.min_insync


def _passing_problem(survey: Survey, partition: SurveyedPartition, broker: BrokerId) -> str | None:
    """The first temporary problem with stopping this broker now.

    For a partition that is never safe: what would make it worse than it has to be.
    """
    if not survey.is_led(partition):
        return "it has no leader"
    in_sync = [member for member in partition.state.isr_ids if survey.is_live(partition, member)]
    isr = ",".join(map(str, in_sync))
    if broker in partition.wanted and broker not in in_sync:
        return f"broker {broker} is not in sync: the ISR is {isr}"
    left = len([member for member in in_sync if member != broker])
    others = len(partition.wanted) - 1
    if _is_never_safe(partition, broker):
        if left < others:
            return (
                f"the ISR {isr} without broker {broker} would be {left}, and its other replicas are {others}"
            )
    elif left < partition.min_insync:
        bound = partition.min_insync
        return f"the ISR {isr} without broker {broker} would be {left}, and min.insync.replicas is {bound}"
    return None
