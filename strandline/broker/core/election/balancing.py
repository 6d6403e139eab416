"""Finds the partitions that another broker should lead: checkLoadBalancing of Kafka's design V3.

A leader that is not the first of AR hands over to the first one, once that has been in sync for a while: a
replica that joins and leaves repeatedly would otherwise move the leadership each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from strandline.ids import BrokerId, Offset, PartitionKey
from strandline.vocabulary.metadata import IsrMember, Registration


@dataclass(frozen=True, slots=True)
class LedPartition:
    """The facts about one partition that this broker leads, as far as balancing needs them."""

    key: PartitionKey
    me: BrokerId
    assigned: tuple[BrokerId, ...]
    in_sync_since: Mapping[IsrMember, float]
    """The ISR of record; for each member, when this leader first saw it there (s, monotonic)."""
    ends: Mapping[BrokerId, Offset]
    """The log end offset that each follower reported in this epoch."""
    high_watermark: Offset
    reassigning: bool


def obstacle(led: LedPartition, to: BrokerId, live: Mapping[BrokerId, Registration]) -> str | None:
    """Why that broker could not take over now, None if it could. `live` has no suspects."""
    registration = live.get(to)
    if to == led.me:
        return f"broker {to} leads already"
    if registration is None:
        return f"broker {to} is not alive, or does not answer"
    if registration.shutting_down:
        return f"broker {to} is shutting down"
    if IsrMember(to, registration.epoch) not in led.in_sync_since:
        return f"broker {to} is not in sync"
    end = led.ends.get(to, Offset(-1))
    if end < led.high_watermark:
        return f"broker {to} has reported {end} as its log end, {led.high_watermark} is committed"
    return None


def to_balance(
    led_partitions: Iterable[LedPartition],
    live: Mapping[BrokerId, Registration],
    drained: Set[BrokerId],
    now: float,
    in_sync_s: float,
) -> list[tuple[PartitionKey, BrokerId]]:
    """Partitions that another broker should lead, with that broker, which was in sync for `in_sync_s`."""
    found = []
    for led in led_partitions:
        if led.reassigning or not led.assigned:
            continue
        preferred = led.assigned[0]
        if preferred in drained or obstacle(led, preferred, live) is not None:
            continue
        if now - led.in_sync_since[IsrMember(preferred, live[preferred].epoch)] >= in_sync_s:
            found.append((led.key, preferred))
    return found
