"""Records of events, for tests."""

from __future__ import annotations

import json
from typing import Any

from strandline.console.core.timeline.journal import Record

AT = 1_795_170_662_123


def elected(offset: int, broker: int, epoch: int, at_ms: int, **facts: Any) -> Record:
    """The election of a leader of orders-1."""
    return change(offset, "elect-leader", at_ms, id=f"elect-{epoch}", broker=broker, epoch=epoch, **facts)


def change(offset: int, command: str, at_ms: int, **facts: Any) -> Record:
    """A state change of orders-1, written when it happened."""
    fields = {
        "version": 1,
        "id": f"id-{offset}",
        "command": command,
        "topic": "orders",
        "topic_id": "ab" * 16,
        "partition": 1,
        "broker": 1,
        "epoch": 1,
        "state": "completed",
        "at": at_ms,
        **facts,
    }
    return Record(offset, at_ms, json.dumps(fields).encode())


def group_event(offset: int, event: str, at_ms: int, **facts: Any) -> Record:
    """An event of the group billing, written when it happened."""
    fields = {"version": 1, "event": event, "group": "billing", "generation": 7, "at_ms": at_ms, **facts}
    return Record(offset, at_ms, json.dumps(fields).encode())
