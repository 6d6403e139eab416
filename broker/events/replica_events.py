"""Where everything that happens to replicas here is told: it becomes a record of `__state_changes`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from strandline.vocabulary.state_changes import StateChangeEvent

OnRecorded = Callable[[bool], None]
"""Called once: True when all the events are in the log, False if they had to be dropped for lack of room.
Whoever keeps them somewhere tells them again then; a second record of an event changes nothing."""

TELL_AGAIN_S_MIN: Final = 0.5
TELL_AGAIN_S_MAX: Final = 30.0


class Recorder(Protocol):
    """Never waits, and never fails whoever tells it something."""

    def record(self, events: Sequence[StateChangeEvent], on_recorded: OnRecorded | None = None) -> None: ...

    def keep(self, events: Sequence[StateChangeEvent]) -> None:
        """`record` what no znode tells: it is on this broker's disk when this returns, and is told again
        until it is recorded, by the broker's next life if need be."""
        ...


class Teller:
    """Tells events until they are recorded, with longer and longer breaks. `wanted` is asked before each
    repetition: what is kept no more is told no more. `recorded` is told what is in the log."""

    def __init__(
        self,
        wanted: Callable[[StateChangeEvent], bool],
        recorded: Callable[[Sequence[StateChangeEvent]], None],
    ) -> None:
        self._wanted = wanted
        self._recorded = recorded
        self._telling: set[tuple[str, str]] = set()

    def tell(self, recorder: Recorder, events: Sequence[StateChangeEvent]) -> None:
        """Those of the events that are not being told already."""
        new = [event for event in events if event.identity not in self._telling]
        if new:
            self._telling.update(event.identity for event in new)
            self._try(recorder, new, TELL_AGAIN_S_MIN)

    def _try(self, recorder: Recorder, events: list[StateChangeEvent], pause_s: float) -> None:
        recorder.record(events, partial(self._told, recorder, events, pause_s))

    def _told(self, recorder: Recorder, events: list[StateChangeEvent], pause_s: float, in_log: bool) -> None:
        if in_log:
            self._telling.difference_update(event.identity for event in events)
            self._recorded(events)
        else:
            longer_s = min(2 * pause_s, TELL_AGAIN_S_MAX)
            asyncio.get_running_loop().call_later(pause_s, self._again, recorder, events, longer_s)

    def _again(self, recorder: Recorder, events: list[StateChangeEvent], pause_s: float) -> None:
        self._telling.difference_update(event.identity for event in events)
        left = [event for event in events if self._wanted(event)]
        if left:
            self._telling.update(event.identity for event in left)
            self._try(recorder, left, pause_s)
