"""How each broker is: alive, drained, what it leads and keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from strandline.console.core.overview.loads import Load
from strandline.console.core.seen import Seen
from strandline.ids import NO_BROKER


@dataclass(frozen=True, slots=True)
class BrokerLine:
    """One broker. `kind` is good, warn, bad, or quiet if it is not known now; `load` None: not known."""

    broker: int
    address: str
    """For a broker that is away, the last one that the console saw; empty if it saw none."""
    rack: str
    departed: bool
    """Whether the address and the rack are from before it went away."""
    kind: str
    words: str
    leads: int
    preferred: int
    """Partitions of which it is the preferred leader."""
    replicas: int
    queued: int | None
    load: Load | None


def broker_lines(seen: Seen, loads: dict[int, Load] | None) -> list[BrokerLine]:
    """All brokers that are alive, have replicas, or wait with a queue, by id."""
    leads: Counter[int] = Counter()
    preferred: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for topic in seen.topics:
        for partition in topic.partitions:
            if partition.leader != NO_BROKER:
                leads[partition.leader] += 1
            preferred.update(partition.replicas[:1])
            replicas.update(partition.replicas)
    described = {each.endpoint.id: each for each in seen.described}
    alive = {each.id: each for each in seen.brokers}
    departed = {each.id: each for each in seen.departed}
    lines = []
    for broker in sorted({*alive, *described, *replicas}):
        end, of_controller = alive.get(broker), described.get(broker)
        place = end or departed.get(broker)
        kind, words = ("good", "alive") if end is not None else ("bad", "away")
        if of_controller is not None and end is not None and of_controller.shutting_down:
            kind, words = "warn", "shutting down"
        if of_controller is not None and of_controller.drained:
            kind, words = ("warn" if kind == "good" else kind), f"{words}, drained"
        if seen.is_old:
            kind, words = "quiet", f"was {words}"
        lines.append(
            BrokerLine(
                broker,
                "" if place is None else place.address,
                "" if place is None else place.rack,
                place is not end,
                kind,
                words,
                leads[broker],
                preferred[broker],
                replicas[broker],
                None if of_controller is None else of_controller.queued_state_changes,
                None if loads is None else loads.get(broker),
            )
        )
    return lines
