"""The trail of one partition: the events that its `isr` znode keeps until `__state_changes` has them.

Every writer of the znode asks `extended` for the trail to write beside the state, and calls `written`
afterwards. A writer records all events that it finds in the znode, except those that it knows to be
recorded: the broker that wrote them may be dead.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from strandline.broker.core.state_changes import trail as core
from strandline.broker.events.replica_events import EventRecorder, RetryingRecorder
from strandline.ids import TopicPartition
from strandline.vocabulary.state_changes import StateChangeEvent

logger = structlog.get_logger(__name__)


class PartitionTrail:
    """One replica's trail. Nothing here awaits, or grows beyond what the znode may hold."""

    def __init__(self, name: TopicPartition, events_max: int) -> None:
        self._name = name
        self._events_max = events_max
        self.current: core.Trail = ()
        """The content of the znode when this broker last wrote it, or read it as its leader."""
        self._recorded: set[core.Identity] = set()
        """The events of `current` that are known to be in the log."""
        self._retrying = RetryingRecorder(self._holds, self._is_recorded)

    def extended(self, found: Sequence[StateChangeEvent], *events: StateChangeEvent) -> core.Trail:
        """The trail to write in place of `found`, with the events that the write makes happen."""
        trail, dropped = core.extend(found, events, self._recorded, self._events_max)
        if dropped:
            logger.error(
                "state changes wait for too long to be recorded: if this broker dies these are lost",
                partition=str(self._name),
                events=[event.id for event in dropped],
            )
        return trail

    def written(self, trail: Sequence[StateChangeEvent], recorder: EventRecorder) -> None:
        """The znode holds this trail; record its events that are not known to be recorded."""
        self.current = tuple(trail)
        self._recorded &= {event.identity for event in self.current}
        self._retrying.record(recorder, [e for e in self.current if e.identity not in self._recorded])

    def _holds(self, event: StateChangeEvent) -> bool:
        return event in self.current

    def _is_recorded(self, events: Sequence[StateChangeEvent]) -> None:
        held = {event.identity for event in self.current}
        self._recorded.update(event.identity for event in events if event.identity in held)
