"""Records the controller's requests in the internal topic `__state_changes`.

Recording is best effort, and follows the write: the broker that carries a request out records its whole life
again. Brokers create the topic when they have events, with the size from their settings. Until then, or while
no broker is alive, the controller's events wait in a bounded buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from strandline.adapters.rpc.member_key import MemberKey
from strandline.client.events.writer import Done, EventWriter
from strandline.config.services.controller import ControllerSettings
from strandline.host import Host
from strandline.ids import STATE_CHANGES_TOPIC
from strandline.vocabulary.metadata import Registration
from strandline.vocabulary.state_changes import StateChangeEvent, event_key, event_value


class RequestRecorder:
    """Records one epoch's events. `record` never waits and never fails. The epoch's owner calls `meet` and
    `close`."""

    def __init__(self, settings: ControllerSettings, host: Host, key: MemberKey) -> None:
        self._settings = settings
        self._key = key
        self._host = host
        self._clock = host.clock
        self.events: EventWriter | None = None
        """None until it has found a broker."""
        self._early: deque[tuple[Sequence[StateChangeEvent], Done | None]] = deque()
        """Events from before it found a broker."""
        self._early_events = 0

    def record(self, events: Sequence[StateChangeEvent], done: Done | None = None) -> None:
        """Has these events written eventually."""
        if not events:
            if done is not None:
                done(True)
            return
        if self.events is not None:
            self._put(self.events, events, done)
            return
        self._early.append((events, done))
        self._early_events += len(events)
        while self._early_events > self._settings.events_waiting_max:
            dropped, on_dropped = self._early.popleft()
            self._early_events -= len(dropped)
            if on_dropped is not None:
                on_dropped(False)

    async def meet(self, brokers: Iterable[Registration]) -> None:
        """Connects through these live brokers, if it has no writer yet."""
        addresses = [broker.endpoint.address for broker in brokers]
        if not addresses:
            return
        if self.events is not None:
            self.events.reach(addresses)
            return
        writer = self.events = EventWriter(
            addresses,
            STATE_CHANGES_TOPIC,
            events_max=self._settings.events_waiting_max,
            prepare=_wait_for_it,
            transport=self._host.transport(self._key.shown),
            clock=self._clock,
        )
        while self._early:
            self._put(writer, *self._early.popleft())
        await writer.start()

    async def close(self) -> None:
        """Stops. Events that still wait are recorded by the brokers that carry the requests out."""
        if self.events is not None:
            await self.events.stop()

    def _put(self, writer: EventWriter, events: Sequence[StateChangeEvent], done: Done | None) -> None:
        at_ms = self._clock.wall_ms()  # retention uses a record's timestamp, and an event may be old
        writer.put_all([(event_key(e), event_value(e)) for e in events], at_ms, done)


async def _wait_for_it() -> None:
    """Does nothing: brokers create the topic, and the next look finds out whether it exists."""
