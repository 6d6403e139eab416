"""What the console saw, as one sentence."""

from __future__ import annotations

from strandline.console.core.timeline.facts.observations import BACK, DRAINED, GONE, READY, SeenEvent


def sentence(event: SeenEvent) -> str:
    """What was seen."""
    match event.kind:
        case kind if kind == GONE:
            return f"Broker {event.broker} is gone: its session in ZooKeeper has ended."
        case kind if kind == BACK:
            return f"Broker {event.broker} is back."
        case kind if kind == DRAINED:
            return f"Broker {event.broker} is drained: it leads nothing until it is released."
        case kind if kind == READY:
            return f"Broker {event.broker} is no longer drained."
        case _:
            return f"Controller {event.broker} is active."
