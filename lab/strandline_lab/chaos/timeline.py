"""Writes `timeline.jsonl`: what was done to the cluster and how it reacted, one line for each event."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from strandline.adapters.system.clock import SystemClock

ShowLine = Callable[[str], None]
"""Takes a line for people."""


class Timeline:
    """Appends events to a file at once, and shows them to people."""

    def __init__(self, path: Path, show: ShowLine) -> None:
        self._path = path
        self._show = show
        self._clock = SystemClock()
        self._began: float | None = None

    def note(self, event: str, **facts: Any) -> None:
        """Records an event that happens now."""
        line = {"at_ms": self._clock.wall_ms(), "event": event, **facts}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if event == "began":
            self._began = self._clock.monotonic()
        self._show(f"{self.elapsed_s:6.1f} s  {_in_words(event, facts)}")

    @property
    def elapsed_s(self) -> float:
        """Seconds since the round began; 0 before that."""
        return 0.0 if self._began is None else self._clock.monotonic() - self._began


def _in_words(event: str, facts: dict[str, Any]) -> str:
    who = ", ".join(facts.get("who", ()))
    detail = facts.get("detail", "")
    match event:
        case "fault_began":
            said = [f"{facts['kind']}: {who}" if who else facts["kind"], detail]
        case "fault_ended":
            said = [f"{facts['kind']} over: {who}" if who else f"{facts['kind']} asked for", detail]
        case "fault_skipped":
            said = [f"{facts['kind']} not done", detail]
        case "not_writable":
            said = ["not writable", ", ".join(facts["partitions"])]
        case "died":
            said = [f"{who} died", detail]
        case _:
            took = [f"after {facts['took_ms'] / 1000:.1f} s"] if "took_ms" in facts else []
            said = [" ".join([event.replace("_", " "), *took]), detail]
    return "; ".join(filter(None, said))
