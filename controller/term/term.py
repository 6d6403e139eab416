"""The active controller's tools during one epoch; a new epoch gets a new object (E13)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_drains
from strandline.config.services import ControllerSettings
from strandline.controller.core.cluster import ClusterPicture
from strandline.controller.core.topics import Brokers
from strandline.controller.term.asked import asked_by
from strandline.controller.term.fenced_session import FencedSession, Happened
from strandline.controller.term.reading import read_brokers
from strandline.controller.term.recorder import RequestRecorder
from strandline.controller.term.unrecorded import UnrecordedEvents
from strandline.controller.term.writes import Multi, Stamp, Step, pack
from strandline.host import Host
from strandline.ids import BrokerId
from strandline.ports import Operation
from strandline.vocabulary.metadata import Endpoint


class Term:
    """Session, clock and recorder of one epoch, shared by all parts of the active controller."""

    def __init__(
        self,
        session: FencedSession,
        endpoint: Endpoint,
        settings: ControllerSettings,
        host: Host,
        key: MemberKey,
    ) -> None:
        self.session = session
        self.endpoint = endpoint
        self.settings = settings
        self.clock = host.clock
        self.new_id = host.new_id
        self._heard_of = host.heard_of
        self.picture = ClusterPicture()
        self.recorder = RequestRecorder(settings, host, key)
        self.unrecorded = UnrecordedEvents(session, self.recorder, host.new_id)
        self._queues: set[BrokerId] = set()
        """Brokers whose two queues are known to exist."""

    async def brokers(self) -> Brokers:
        """The brokers that may get replicas now. Each of them has its queues."""
        await self.session.sync()
        found = await read_brokers(self.session)
        await self._ensure_queues(found.known)  # a broker creates its own shortly after it registers
        for registration in found.live.values():
            self._heard_of(registration.endpoint)
        await self.recorder.meet(found.live.values())
        drains = await read_drains(self.session)
        return replace(found, emptied={broker for broker, drain in drains.items() if drain.replicas})

    def forget(self, broker: BrokerId) -> None:
        """The queues of this broker were removed."""
        self._queues.discard(broker)

    async def _ensure_queues(self, brokers: Iterable[BrokerId]) -> None:
        for broker in sorted(set(brokers) - self._queues):
            await self.session.ensure_path(znodes.state_queue(broker))
            await self.session.ensure_path(znodes.elections(broker))
            self._queues.add(broker)

    def stamp(self) -> Stamp:
        """Returns a stamp for requests that are made now."""
        return Stamp(self.clock.wall_ms(), self.new_id, asked_by())

    def pack(self, steps: Iterable[Step]) -> list[Multi]:
        """Packs these steps into as few multis as possible; at least one, which may be empty."""
        return pack(steps, self.settings.multi_bytes_max)

    async def write(
        self,
        multi: Multi,
        happened: Happened,
        *,
        before: Sequence[Operation] = (),
        after: Sequence[Operation] = (),
    ) -> None:
        """Writes a multi, and records that its requests were made. Raises as `FencedSession.write`."""
        await self._ensure_queues(broker for broker, _ in multi.requested)
        await self.session.write([*before, *multi.operations, *after], happened)
        self.recorder.record(multi.events())

    async def ask_once(self, multi: Multi) -> None:
        """Queues requests to read again, once. If the outcome is unknown, they are not queued again: a second
        copy would have an end of its own, and brokers reconcile with ZooKeeper anyway. Raises as
        `FencedSession.write`."""
        await self._ensure_queues(broker for broker, _ in multi.requested)
        if await self.session.write_once(multi.operations):
            self.recorder.record(multi.events())
