"""Where everything that happens to replicas here is told: it becomes a record of `__state_changes`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from strandline.state_changes import StateChangeEvent

OnRecorded = Callable[[bool], None]
"""Called once: True when all the events are in the log, False if they had to be dropped for lack of room.
Whoever keeps them somewhere tells them again then; a second record of an event changes nothing."""


class Recorder(Protocol):
    """Never waits, and never fails whoever tells it something."""

    def record(self, events: Sequence[StateChangeEvent], on_recorded: OnRecorded | None = None) -> None: ...
