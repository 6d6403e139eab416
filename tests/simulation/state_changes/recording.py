"""The way into `__state_changes`: it takes its time, has no room now and then, and forgets when it dies."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from strandline.broker.events.replica_events import OnRecorded
from strandline.broker.state_changes.outbox import Outbox
from strandline.vocabulary.state_changes import StateChangeEvent
from tests.simulation.state_changes.truth import Truth


class Recording:
    """The recorder of one process, also of the controller. Events given to `keep` are in `outbox`, if
    there is one."""

    def __init__(self, truth: Truth) -> None:
        self.under_way: deque[tuple[Sequence[StateChangeEvent], OnRecorded | None]] = deque()
        self.outbox: Outbox | None = None
        self.events = None
        self._truth = truth

    def record(self, events: Sequence[StateChangeEvent], on_recorded: OnRecorded | None = None) -> None:
        self.under_way.append((tuple(events), on_recorded))

    def record_durably(self, events: Sequence[StateChangeEvent]) -> None:
        assert self.outbox is not None
        self.outbox.record_durably(events)

    async def meet(self, brokers: object) -> None:
        """Handle an event of the controller's."""

    async def close(self) -> None:
        """The same."""

    def write_one(self) -> None:
        """The oldest gets into the log."""
        events, done = self.under_way.popleft()
        self._truth.recorded(events)
        if done is not None:
            done(True)

    def write_unheard(self) -> None:
        """It reached the log, and its writer is gone."""
        events, _ = self.under_way.popleft()
        self._truth.recorded(events)

    def drop_one(self) -> None:
        """There is no room for the oldest."""
        _, done = self.under_way.popleft()
        if done is not None:
            done(False)
