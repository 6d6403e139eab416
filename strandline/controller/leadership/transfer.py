"""Asks leaders to hand over by a notice in their election queues, and checks whether they did.

A leader drains first, so that producers see no error, and hands over only to an in-sync replica. It may also
refuse, so only the `isr` znode shows the result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.term.notices import leave_notices
from strandline.controller.term.reading import read_partitions
from strandline.controller.term.term import Term
from strandline.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionKey
from strandline.tasks import pipelined
from strandline.vocabulary.state_changes import AskedBy

LOOK_AGAIN_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Yielding:
    """A requested transfer: `leader`, who leads in `epoch`, hands over to `give_to`."""

    topic: str
    key: PartitionKey
    leader: BrokerId
    epoch: LeaderEpoch
    give_to: BrokerId
    by: AskedBy | None = None
    """The caller that asked for it; None: no caller did."""


async def yield_leaderships(
    term: Term, wanted: Sequence[Yielding], reason: str, *, wait_s: float
) -> list[Yielding]:
    """Asks, and waits up to the given time. Returns the transfers whose leader has not changed. Raises
    Deposed."""
    if wanted:
        await _ask(term, wanted, reason)
        crash_point("controller.yield.asked")
    left = list(wanted)
    deadline = term.clock.monotonic() + wait_s
    while left:
        moved = await pipelined(partial(_moved, term), left, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        left = [each for each, gone in zip(left, moved, strict=True) if not gone]
        if not left or term.clock.monotonic() >= deadline:
            break
        await term.clock.sleep(LOOK_AGAIN_S)
    return left


async def _ask(term: Term, wanted: Sequence[Yielding], reason: str) -> None:
    leaders: defaultdict[BrokerId, list[ElectionNotice]] = defaultdict(list)
    for each in wanted:
        notice = ElectionNotice(each.topic, each.key, each.epoch, each.give_to, reason, by=each.by)
        leaders[each.leader].append(notice)
    await leave_notices(term.session, leaders)


async def _moved(term: Term, each: Yielding) -> bool:
    """True if another broker leads, or the partition is gone."""
    found = await read_partitions(term.session, each.topic, [each.key.partition])
    return all(partition.state.leader not in (each.leader, NO_BROKER) for partition in found)
