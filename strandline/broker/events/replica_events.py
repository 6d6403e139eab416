"""Receives all events of the replicas here, and records them in `__state_changes`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from strandline.vocabulary.state_changes import StateChangeEvent

OnRecorded = Callable[[bool], None]
"""Called once: True when all the events are in the log, False if they were dropped for lack of room.
A caller that keeps the events records them again then; a second record of an event changes nothing."""

RETRY_S_MIN: Final = 0.5
RETRY_S_MAX: Final = 30.0


class EventRecorder(Protocol):
    """Records events. Never waits, and never fails its caller."""

    def record(self, events: Sequence[StateChangeEvent], on_recorded: OnRecorded | None = None) -> None: ...

    def record_durably(self, events: Sequence[StateChangeEvent]) -> None:
        """`record` for events that no znode holds: they are on this broker's disk when this returns, and are
        recorded again until they are in the log, by the broker's next life if need be."""
        ...


class RetryingRecorder:
    """Records events until they are in the log, with increasing pauses. `wanted` is asked before each
    repetition: an event that is not kept is not recorded again. `recorded` gets the events in the log."""

    def __init__(
        self,
        wanted: Callable[[StateChangeEvent], bool],
        recorded: Callable[[Sequence[StateChangeEvent]], None],
    ) -> None:
        self._wanted = wanted
        self._recorded = recorded
        self._pending: set[tuple[str, str]] = set()

    def record(self, recorder: EventRecorder, events: Sequence[StateChangeEvent]) -> None:
        """Record those of the events that are not being recorded already."""
        new = [event for event in events if event.identity not in self._pending]
        if new:
            self._pending.update(event.identity for event in new)
            self._try(recorder, new, RETRY_S_MIN)

    def _try(self, recorder: EventRecorder, events: list[StateChangeEvent], pause_s: float) -> None:
        recorder.record(events, partial(self._attempted, recorder, events, pause_s))

    def _attempted(
        self, recorder: EventRecorder, events: list[StateChangeEvent], pause_s: float, in_log: bool
    ) -> None:
        if in_log:
            self._pending.difference_update(event.identity for event in events)
            self._recorded(events)
        else:
            longer_s = min(2 * pause_s, RETRY_S_MAX)
            asyncio.get_running_loop().call_later(pause_s, self._retry, recorder, events, longer_s)

    def _retry(self, recorder: EventRecorder, events: list[StateChangeEvent], pause_s: float) -> None:
        self._pending.difference_update(event.identity for event in events)
        left = [event for event in events if self._wanted(event)]
        if left:
            self._pending.update(event.identity for event in left)
            self._try(recorder, left, pause_s)
