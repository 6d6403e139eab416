"""Writes events into the internal topic `__state_changes`. Outlives ZooKeeper sessions, as replicas do."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from strandline.adapters.rpc.member_key import MemberKey
from strandline.broker.events.replica_events import OnRecorded
from strandline.broker.metadata.internal_topics import InternalTopics, state_changes_topic
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.state_changes.outbox import Outbox
from strandline.config.services.broker import BrokerSettings
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.state_changes import StateChangeEvent, event_key, event_value

FLUSH_S_MAX: Final = 1.0
"""The time for waiting events when the broker stops; those that keep the rest record it again later."""


class StateChangeRecorder:
    """Open from before the broker listens until after its last session. Fulfils `EventRecorder`."""

    def __init__(
        self,
        manager: ReplicaManager,
        topics: InternalTopics,
        endpoint: Endpoint,
        settings: BrokerSettings,
        key: MemberKey,
    ) -> None:
        self._clock = manager.host.clock
        self.events = topics.event_writer(state_changes_topic(settings), endpoint, settings, key)
        self._outbox = Outbox(manager.folder.path / "state_changes.outbox", self, files=manager.folder.files)

    async def __aenter__(self) -> Self:
        await self.events.start()
        self._outbox.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.events.stop()

    async def flush(self) -> None:
        """Try to write the waiting events before the broker stops."""
        await self.events.flush(FLUSH_S_MAX)

    def record(self, events: Sequence[StateChangeEvent], on_recorded: OnRecorded | None = None) -> None:
        """See `EventRecorder.record`."""
        at_ms = self._clock.wall_ms()  # retention uses a record's time, and an event may be an old one
        self.events.put_all([(event_key(e), event_value(e)) for e in events], at_ms, on_recorded)

    def record_durably(self, events: Sequence[StateChangeEvent]) -> None:
        """See `EventRecorder.record_durably`."""
        self._outbox.record_durably(events)
