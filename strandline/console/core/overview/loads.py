"""What brokers keep on disk and take in, from what leaders say of their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strandline.console.core.topics.rates import Described, Rate, Rates
from strandline.ids import TopicPartition


@dataclass(slots=True)
class Load:
    """`disk_bytes`: the logs of its replicas, as far as their leaders answered. `taken`: what producers write
    to the partitions that it leads; None until it was seen twice."""

    disk_bytes: int = 0
    taken: Rate | None = None


def loads(leaders: Mapping[TopicPartition, int], described: Described, rates: Rates) -> dict[int, Load]:
    """By broker. `leaders` are those of the partitions that were asked about."""
    found: dict[int, Load] = {}
    for name, answer in described.items():
        for replica in answer.replicas:
            load = found.setdefault(replica.broker, Load())
            load.disk_bytes += max(0, answer.size_bytes - max(0, replica.lag_bytes))
        rate, leader = rates.of(name), leaders.get(name)
        if rate is not None and leader is not None:
            load = found.setdefault(leader, Load())
            load.taken = rate if load.taken is None else load.taken + rate
    return found
