"""Writes folders as a chaos round leaves them, with as little in them as a test needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BEGAN_MS = 1_795_000_000_000
HEALED_MS = BEGAN_MS + 20_000
ENDED_MS = BEGAN_MS + 30_000

Line = Mapping[str, Any]


def moment(
    after_s: int, event: str, fault: int | None = None, kind: str = "", who: str = "", detail: str = ""
) -> Line:
    """A line of what was done, `after_s` after the beginning."""
    said: dict[str, Any] = {"at_ms": BEGAN_MS + after_s * 1000, "event": event, "detail": detail}
    return said if fault is None else {**said, "fault": fault, "kind": kind, "who": [who] if who else []}


MOMENTS: Sequence[Line] = (
    moment(0, "began", detail="3 faults in 20 s"),
    moment(5, "fault_began", 0, "kill", "broker 1"),
    moment(9, "fault_ended", 0, "kill", "broker 1"),
    moment(10, "fault_skipped", 1, "pause", detail="it is dead"),
    moment(12, "fault_began", 2, "chase", "broker 2", detail="leader"),
    moment(20, "healed"),
    moment(30, "ended"),
)


def observed(at_ms: int, leader: int, epoch: int, isr: Sequence[int], watermark: int = 0) -> Line:
    """A line of what an admin client saw of orders-0."""
    return {
        "at_ms": at_ms, "observer": "admin", "topic": "orders", "partition": 0,
        "leader": leader, "epoch": epoch, "isr": list(isr), "hw": watermark, "leo": watermark + 5,
    }  # fmt: skip


def elected(at_ms: int, broker: int, epoch: int, reason: str) -> Line:
    """An election of orders-0."""
    return {
        "version": 1, "id": f"elect-t-0-{epoch}", "command": "elect-leader", "state": "completed",
        "topic": "orders", "topic_id": "t", "partition": 0, "broker": broker, "epoch": epoch, "at": at_ms,
        "reason": reason, "isr": [broker],
    }  # fmt: skip


STATE_CHANGES: Sequence[Line] = (
    elected(BEGAN_MS - 500, 1, 1, "first election"),
    elected(BEGAN_MS + 8_000, 2, 2, "broker 1 is gone"),
)
OBSERVATIONS: Sequence[Line] = (
    observed(BEGAN_MS, 1, 1, [1, 2, 3]),
    observed(BEGAN_MS + 6_000, -1, 1, [1, 2, 3], 40),
    observed(BEGAN_MS + 6_500, 1, 1, [1, 2, 3], 40),  # another broker, which is behind
    observed(BEGAN_MS + 8_100, 2, 2, [2], 50),
)
GROUP_EVENTS: Sequence[Line] = tuple(
    {"version": 1, "event": event, "group": "billing", "generation": generation, "at_ms": BEGAN_MS + after_ms}
    for event, generation, after_ms in (("rebalance_started", 0, 1_000), ("generation_stable", 1, 1_200))
)
FINDING: Line = {"check": "lost", "topic": "orders", "partition": 0, "offset": 7, "detail": "it is gone"}


def write_round(folder: Path, *, findings: Sequence[Line] = (), moments: Sequence[Line] = MOMENTS) -> Path:
    """A round with one partition, one group and two faults."""
    folder.mkdir(parents=True)
    files = {
        "timeline": moments,
        "observations": OBSERVATIONS,
        "state-changes": STATE_CHANGES,
        "group-events": GROUP_EVENTS,
        "findings": findings,
    }
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "plan.json").write_text(json.dumps({"seed": 7}))
    (folder / "command.txt").write_text("strandline-lab chaos --seed 7\n")
    return folder
