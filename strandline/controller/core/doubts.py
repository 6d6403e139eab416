"""Doubts about replicas that a caller names: they are carried out, and the answer tells the caller."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from strandline.controller.core.broker_list import listed
from strandline.controller.core.topics import Brokers
from strandline.ids import BrokerId


def doubts(where: str, replicas: Sequence[int], brokers: Brokers) -> list[str]:
    """What may not be meant: brokers that are not alive, or that are emptied, and two replicas in one rack.

    Racks count if each broker that may get replicas has one, and there are as many as replicas.
    """
    named = [BrokerId(broker) for broker in replicas]
    found = []
    if dead := [broker for broker in named if broker not in brokers.staying]:
        found.append(f"{where}: not alive, so that nothing is copied there yet: broker {listed(dead)}")
    if emptied := [broker for broker in named if broker in brokers.emptied]:
        found.append(f"{where}: being drained, so that it moves away again: broker {listed(emptied)}")
    racks = {registration.endpoint.rack for registration in brokers.hosts}
    if "" in racks or len(racks) < len(named):
        return found
    together: defaultdict[str, list[BrokerId]] = defaultdict(list)
    for broker in named:
        if broker in brokers.live:
            together[brokers.live[broker].endpoint.rack].append(broker)
    found += [
        f"{where}: in the same rack {rack}, though there are {len(racks)} racks: brokers {listed(shared)}"
        for rack, shared in sorted(together.items())
        if len(shared) > 1
    ]
    return found
