"""Finds reassignments whose deadlines have passed, and says what each waits for.

Kafka's design V3 has the leader wait for replicas "or probably timeout and raise error". A leader waits only
a bounded time for replicas that close; this is the bound of the whole move, also for one without a leader.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline.controller.core.broker_list import listed
from strandline.controller.core.survey import Survey, SurveyedPartition
from strandline.vocabulary.metadata import Deadline, Reassignment


def deadline_of(timeout_ms: int, default_ms: int, now_ms: int, *, cancels: bool) -> Deadline | None:
    """The deadline of a request that is made now. `timeout_ms`: 0 for the default, less for none.

    A default of 0 is none too."""
    wanted_ms = timeout_ms or default_ms
    return Deadline(now_ms + wanted_ms, cancels) if wanted_ms > 0 else None


def overdue(survey: Survey, now_ms: int) -> Iterator[SurveyedPartition]:
    """Partitions whose reassignment has passed its deadline now, and those that are yet to be taken back."""
    for partition in survey.partitions:
        wanted = partition.reassignment
        if wanted is None or wanted.deadline is None or wanted.reverting:
            continue
        if now_ms >= wanted.deadline.at_ms and (wanted.deadline.cancels or not wanted.deadline.passed):
            yield partition


def waits_for(survey: Survey, partition: SurveyedPartition) -> str:
    """Why its reassignment is not complete, as far as ZooKeeper shows it."""
    wanted, in_sync = partition.wanted, partition.state.isr_ids
    if not survey.is_led(partition):
        return f"it has no leader; in sync {'was' if len(in_sync) == 1 else 'were'} broker {listed(in_sync)}"
    missing = [broker for broker in wanted if broker not in in_sync]
    if dead := [broker for broker in missing if broker not in survey.live]:
        return f"not alive: broker {listed(dead)}"
    if missing:
        return f"not in sync: broker {listed(missing)}"
    leaving = [broker for broker in in_sync if broker not in wanted and broker != partition.state.leader]
    if leaving:
        return f"not closed: broker {listed(leaving)}"
    return f"its leader, broker {partition.state.leader}, has not written the end"


def explained(wanted: Reassignment, why: str) -> str:
    """The text of the event."""
    assert wanted.deadline is not None, wanted
    took_s = (wanted.deadline.at_ms - wanted.at_ms) / 1000
    then = "it is taken back" if wanted.deadline.cancels else "it goes on"
    return f"not complete after {took_s:g} s: {why}; {then}"
