"""What the console saw, as one sentence."""

from __future__ import annotations

from strandline.console.core.timeline.facts import observations
from strandline.console.core.timeline.facts.observations import SeenEvent


def sentence(event: SeenEvent) -> str:
    """What was seen."""
    match event.kind:
        case observations.GONE:
            return f"Broker {event.broker} is gone: its session in ZooKeeper has ended."
        case observations.BACK:
            return f"Broker {event.broker} is back."
        case observations.DRAINED:
            return f"Broker {event.broker} is drained: it leads nothing until it is released."
        case observations.READY:
            return f"Broker {event.broker} is no longer drained."
        case observations.SILENT:
            return "No broker answered the console any longer: who led then is not known."
        case observations.ANSWERS:
            return "A broker answered the console again."
        case _:
            return f"Controller {event.broker} is active."
