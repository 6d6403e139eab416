"""`timeline.jsonl`: what was done to the cluster and what became of it, a line at once for each event."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from strandline.adapters.system.clock import SystemClock

Tell = Callable[[str], None]
"""Takes a line for people."""


class Timeline:
    """Appends to a file, and tells people the same."""

    def __init__(self, path: Path, tell: Tell) -> None:
        self._path = path
        self._tell = tell
        self._clock = SystemClock()
        self._began: float | None = None

    def note(self, event: str, **facts: Any) -> None:
        """Something happened, now."""
        line = {"at_ms": self._clock.wall_ms(), "event": event, **facts}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if event == "began":
            self._began = self._clock.monotonic()
        self._tell(f"{self.elapsed_s:6.1f} s  {_in_words(event, facts)}")

    @property
    def elapsed_s(self) -> float:
        """Since the round began; 0 before that."""
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
