"""Who should lead instead of this broker: seed 003's checkLoadBalancing, over all that it leads.

A leader that is not the first of AR gives way to that one, once it has been in sync for a while: a replica
that comes and goes would take the leadership with it each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from strandline.ids import BrokerId, Offset, PartitionKey
from strandline.vocabulary.metadata import IsrMember, Registration


@dataclass(frozen=True, slots=True)
class Standing:
    """One leadership of this broker, as far as it matters here."""

    key: PartitionKey
    me: BrokerId
    assigned: tuple[BrokerId, ...]
    in_sync_since: Mapping[IsrMember, float]
    """The ISR of record; of each member the moment at which this leader first knew it there."""
    ends: Mapping[BrokerId, Offset]
    """How far each follower told in this epoch that its log reaches."""
    high_watermark: Offset
    reassigning: bool


def obstacle(standing: Standing, to: BrokerId, live: Mapping[BrokerId, Registration]) -> str | None:
    """Why that broker could not take over now, None if it could. `live` has no suspects."""
    registration = live.get(to)
    if to == standing.me:
        return f"broker {to} leads already"
    if registration is None:
        return f"broker {to} is not alive, or does not answer"
    if registration.shutting_down:
        return f"broker {to} is shutting down"
    if IsrMember(to, registration.epoch) not in standing.in_sync_since:
        return f"broker {to} is not in sync"
    end = standing.ends.get(to, Offset(-1))
    if end < standing.high_watermark:
        return f"broker {to} has told that it reaches {end}, {standing.high_watermark} is committed"
    return None


def to_balance(
    standings: Iterable[Standing],
    live: Mapping[BrokerId, Registration],
    drained: Set[BrokerId],
    now: float,
    in_sync_s: float,
) -> list[tuple[PartitionKey, BrokerId]]:
    """Which partitions another broker should lead, and who. It must have been in sync for `in_sync_s`."""
    found = []
    for standing in standings:
        if standing.reassigning or not standing.assigned:
            continue
        preferred = standing.assigned[0]
        if preferred in drained or obstacle(standing, preferred, live) is not None:
            continue
        if now - standing.in_sync_since[IsrMember(preferred, live[preferred].epoch)] >= in_sync_s:
            found.append((standing.key, preferred))
    return found
