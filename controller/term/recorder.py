"""Where the controller tells what it asked for: records of the internal topic `__state_changes`.

Best effort, after the write: who carries a request out tells the whole of its life again. Brokers create the
topic when they have something to tell, as large as their settings say; until then, and until a broker is
alive to write to, the controller's events wait, up to a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.client.events.writer import Done, EventWriter
from strandline.config import ControllerSettings
from strandline.ids import STATE_CHANGES_TOPIC
from strandline.ports import Clock
from strandline.vocabulary.metadata import Registration
from strandline.vocabulary.state_changes import StateChangeEvent, event_key, event_value


class Recorder:
    """One epoch's. `record` never waits and never fails; `meet` and `close` are the epoch's."""

    def __init__(self, settings: ControllerSettings, clock: Clock, key: MemberKey) -> None:
        self._settings = settings
        self._key = key
        self._clock = clock
        self.events: EventWriter | None = None
        """None until the first broker was met."""
        self._early: deque[tuple[Sequence[StateChangeEvent], Done | None]] = deque()
        """Told before any broker was met."""
        self._early_events = 0

    def record(self, events: Sequence[StateChangeEvent], done: Done | None = None) -> None:
        """Have these written some time."""
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
            dropped, told = self._early.popleft()
            self._early_events -= len(dropped)
            if told is not None:
                told(False)

    async def meet(self, brokers: Iterable[Registration]) -> None:
        """These brokers are alive: any of them may be asked where the topic is."""
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
            transport=GrpcTransport(self._key),
            clock=self._clock,
        )
        while self._early:
            self._put(writer, *self._early.popleft())
        await writer.start()

    async def close(self) -> None:
        """What waits is left to those who carry the requests out."""
        if self.events is not None:
            await self.events.stop()

    def _put(self, writer: EventWriter, events: Sequence[StateChangeEvent], done: Done | None) -> None:
        at_ms = self._clock.wall_ms()  # retention goes by a record's time, and an event may be an old one
        writer.put_all([(event_key(e), event_value(e)) for e in events], at_ms, done)


async def _wait_for_it() -> None:
    """The brokers create the topic; that it is not there yet the next look tells."""
