"""The active controller's tools during one epoch; a new epoch gets a new object (E13)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_drains
from strandline.config.services.controller import ControllerSettings
from strandline.controller.core.cluster import ClusterPicture
from strandline.controller.core.topics import Brokers
from strandline.controller.term.fenced_session import FencedSession, Happened
from strandline.controller.term.reading import read_brokers
from strandline.controller.term.recorder import RequestRecorder
from strandline.controller.term.unrecorded import UnrecordedEvents
from strandline.controller.term.writes import Multi, Stamp, Step, pack
from strandline.errors import InvalidReplicaAssignment
from strandline.host import Host
from strandline.ids import BrokerId
from strandline.ports import Check, Create, MultiFailed, NodeExists, NoNode, Operation
from strandline.serving.asked import asked_by
from strandline.vocabulary.metadata import Endpoint


class BrokerForgotten(InvalidReplicaAssignment):
    """A broker that was to get a replica is not known any longer. The write had no effect."""

    def __init__(self, broker: BrokerId, path: str) -> None:
        super().__init__(f"broker {broker} was forgotten meanwhile: {path} is gone")
        self.broker = broker


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
        for broker in sorted(found.known - self._queues):
            # A broker creates its own shortly after it registers. One that has left keeps the first of both.
            there = znodes.broker(broker) if broker in found.live else znodes.state_queue(broker)
            await self._ensure_queues(broker, Check(there))
        for registration in found.live.values():
            self._heard_of(registration.endpoint)
        await self.recorder.meet(found.live.values())
        drains = await read_drains(self.session)
        return replace(found, emptied={broker for broker, drain in drains.items() if drain.replicas})

    def forget(self, broker: BrokerId) -> None:
        """The queues of this broker were removed."""
        self._queues.discard(broker)

    async def _ensure_queues(self, broker: BrokerId, *there: Check) -> None:
        """Creates what is missing of both, unless these checks fail: the broker was forgotten meanwhile."""
        for path in (znodes.state_queue(broker), znodes.elections(broker)):
            if await self.session.exists(path) is not None:
                continue
            try:
                await self.session.write([*there, Create(path)], partial(self._exists, path))
            except MultiFailed as failed:
                if not isinstance(failed.cause, NoNode | NodeExists):
                    raise
                if isinstance(failed.cause, NoNode):
                    return
        self._queues.add(broker)

    async def _exists(self, path: str) -> bool:
        return await self.session.exists(path) is not None

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
        """Writes a multi, and records that its requests were made, and the events that it keeps. Raises as
        `FencedSession.write`, and BrokerForgotten."""
        await self._ensure_queues_for(multi)
        kept = self.unrecorded.keeping(multi.keeps)
        operations = [*before, *multi.operations, *kept, *after]
        try:
            await self.session.write(operations, happened)
        except MultiFailed as failed:
            path = operations[failed.index].path
            of = [each for each in multi.adds if f"{path}/".startswith(f"{znodes.state_queue(each)}/")]
            if of and isinstance(failed.cause, NoNode):
                raise BrokerForgotten(of[0], path) from failed
            raise
        self.recorder.record(multi.events())
        self.unrecorded.written(kept)

    async def _ensure_queues_for(self, multi: Multi) -> None:
        """Those of brokers that have replicas: an operator may have removed them."""
        requested = {broker for broker, _ in multi.requested}
        for broker in sorted(requested - multi.adds - self._queues):
            await self._ensure_queues(broker)

    async def ask_once(self, multi: Multi) -> None:
        """Queues requests to read again, once. If the outcome is unknown, they are not queued again: a second
        copy would have an end of its own, and brokers reconcile with ZooKeeper anyway. Raises as
        `FencedSession.write`."""
        await self._ensure_queues_for(multi)
        if await self.session.write_once(multi.operations):
            self.recorder.record(multi.events())
