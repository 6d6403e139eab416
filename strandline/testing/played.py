"""What both clusters for tests have in common: clients, applications, waiting, and the end."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from strandline.client.admin.admin import Admin
from strandline.consumer.consumer import Consumer
from strandline.consumer.core.assignors.assignor import Assignor
from strandline.host import Host
from strandline.producer.producer import Producer
from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.world import World
from strandline.streams.storage.memory_stores import MemoryDisk
from strandline.testing.application import Application, Main
from strandline.testing.conditions import reached
from strandline.testing.errors import MemberFailed, NotPossible
from strandline.testing.faults import Faults
from strandline.testing.logs import ServiceLogs
from strandline.testing.members import FIRST_ID, Running, Shape
from strandline.testing.znodes_seen import ZnodesSeen

if TYPE_CHECKING:
    from strandline.streams import Streams, Topology

T = TypeVar("T")

READY_S_MAX: Final = 30.0
REACHED_S: Final = 30.0
"""The limit of `run_until` unless the test gives one."""


class PlayedCluster(Faults):
    """Real brokers, controllers and clients in one process, on a played network, ZooKeeper and disks.

    It is used as a context manager. At the end it raises MemberFailed if a broker or a controller met a
    defect, or if an application failed and the test did not look at its error.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._own_settings: Sequence[Mapping[str, Any]] = ()
        """Of single brokers."""
        self._stores = MemoryDisk()
        self._logs = ServiceLogs()

    # --- start and end -----------------------------------------------------------------------

    def _need_ended(self) -> None:
        """Raises NotPossible while it runs. After its end it may be started again, as another cluster."""
        if self._running is not None:
            raise NotPossible(f"this {type(self).__name__} runs already")

    def _open(self, world: World) -> None:
        """Start everything in this world. Raises SettingsError; then nothing of it is left."""
        self._stores = MemoryDisk()
        self._logs.install()
        try:
            self._running = self._start(world)
        except BaseException:
            world.loop.close()
            self._logs.restore()
            raise

    def _start(self, world: World) -> Running:
        cluster = Cluster(
            world,
            brokers=self._shape.brokers,
            controllers=self._shape.controllers,
            broker_settings=self._shape.broker_settings,
            controller_settings=self._shape.controller_settings,
            own_settings=self._own_settings,
            first_id=FIRST_ID,
        )
        test = world.new_process("test", world.new_machine())
        host = self._client_host(test.host)
        return Running(world, cluster, host, test, ZnodesSeen(world.zookeeper))

    def _close(self, *, check: bool) -> None:
        """End everything at once. Raises MemberFailed if `check`."""
        running, failures = self._now, self._failures()
        self._running = None
        running.world.loop.close()
        self._logs.restore()
        if check and failures:
            raise MemberFailed("\n".join(failures))

    def _failures(self) -> list[str]:
        applications = [each for each in self._now.applications if each.unseen_error is not None]
        return self._now.world.defects + [f"application {each.name} {each.state}" for each in applications]

    def _client_host(self, host: Host) -> Host:
        """The host of clients on the test's own event loop."""
        return host

    @abstractmethod
    def _check_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Raises NotPossible where the cluster cannot be used; None: no loop runs."""

    def _inside(self) -> None:
        _ = self._now
        try:
            self._check_loop(asyncio.get_running_loop())
        except RuntimeError as error:
            if isinstance(error, NotPossible):
                raise
            self._check_loop(None)

    # --- clients -----------------------------------------------------------------------------

    def producer(self, **settings: Any) -> Producer:
        """A producer of the test. It still has to be started: `async with cluster.producer() as producer`."""
        self._inside()
        return Producer(self.bootstrap, host=self.host, **settings)

    def consumer(self, *, assignors: Sequence[str | Assignor] | None = None, **settings: Any) -> Consumer:
        """A consumer of the test, not started yet."""
        self._inside()
        return Consumer(self.bootstrap, host=self.host, assignors=assignors, **settings)

    def admin(self, **settings: Any) -> Admin:
        """An admin client of the test, not started yet."""
        self._inside()
        return Admin(self.bootstrap, host=self.host, **settings)

    def streams(
        self,
        topology: Topology,
        *,
        application_id: str,
        state_dir: str | Path = "/state",
        **settings: Any,
    ) -> Streams:
        """A member of a stream application, not started yet. Its stores are in memory: `state_dir` only tells
        the members on one host apart. Needs `pip install 'strandline[streams]'`."""
        from strandline.streams import Streams

        self._inside()
        return Streams(
            topology,
            self.bootstrap,
            application_id=application_id,
            state_dir=state_dir,
            host=self.host,
            open_stores=self._stores.open,
            **settings,
        )

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and wait until each partition has its leader and all of its replicas in sync.

        Without `replication_factor` each broker gets a replica, but no more than three do.
        """
        factor = replication_factor or min(len(self.broker_ids), 3)
        async with self.admin() as admin:
            await admin.create_topic(name, partitions, factor, config or {})
        everywhere = range(partitions)

        def in_sync() -> bool:
            return all(len(self.in_sync(name, number)) == factor for number in everywhere)

        await self.run_until(in_sync, what=f"every replica of topic {name} is in sync")

    def application(self, name: str, main: Main) -> Application:
        """Run `main(host)` as a process on a machine of its own, which can be killed, paused and cut off.

        It runs on the cluster's loop, also in a MemoryCluster: without sockets, subprocesses and threads.
        """
        self._inside()
        application = Application(name, main, self._now.world)
        self._now.applications.append(application)
        for isolated in self._now.isolated:
            self._cut_both_ways(isolated, application.machine.host)
        return application

    # --- wait --------------------------------------------------------------------------------

    async def run_until(
        self,
        condition: Callable[[], T | Awaitable[T]],
        timeout_s: float = REACHED_S,
        *,
        what: str = "",
    ) -> T:
        """Wait until a function, or a coroutine function, returns something true, and return that.

        Raises ConditionNotReached, which shows the last value and the state of each member; `what` names the
        condition there. Raises what the condition raises, except Vacant, which means that it is not true yet.
        """
        self._inside()
        return await reached(condition, timeout_s, what, self.describe)

    async def _wait_ready(self) -> None:
        """Raises MemberFailed if a broker or a controller cannot start."""

        def ready() -> bool:
            for process in [*self._now.cluster.brokers, *self._now.cluster.controllers]:
                if process.defect is not None:
                    raise MemberFailed(f"{process.name} could not start: {process.defect}")
            return self.is_ready()

        await self.run_until(ready, READY_S_MAX, what="all brokers and a controller serve")

    async def finished(self, application: Application, timeout_s: float = REACHED_S) -> None:
        """Wait until an application has ended. Raises its error."""
        await self.run_until(
            lambda: not application.runs, timeout_s, what=f"application {application.name} has ended"
        )
        application.raise_error()
