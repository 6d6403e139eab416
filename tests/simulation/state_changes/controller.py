"""A controller of the walk: the real one, complete, except for the recorder of its events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from strandline.adapters.rpc.member_key import MemberKey
from strandline.config.services import ControllerSettings
from strandline.controller.active import ActiveController
from strandline.controller.activity import Activity
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.vocabulary.metadata import Endpoint
from tests.simulation.state_changes.loop import VirtualClock
from tests.simulation.state_changes.recording import Recording
from tests.simulation.state_changes.zookeeper import SimulatedSession

if TYPE_CHECKING:
    from tests.simulation.state_changes.world import World

SETTINGS = ControllerSettings(
    reconcile_ms=1_000, standby_poll_ms=200, mend_after_ms=1_500, queue_coalesce_requests=3
)

Request = Callable[[ActiveController], Coroutine[Any, Any, object]]


class ControllerClock(VirtualClock):
    """One process's, by which its recorder is known."""

    def __init__(self, process: ControllerProcess) -> None:
        super().__init__(process.world.loop)
        self.process = process


def recorder(_: ControllerSettings, host: Host, key: MemberKey) -> Recording:
    """Stands in for `strandline.controller.term.recorder.RequestRecorder`: each epoch has its own."""
    process = cast(ControllerClock, host.clock).process
    process.recording = Recording(process.world.truth)
    return process.recording


class ControllerProcess:
    """Dies and lives again; nothing stays."""

    def __init__(self, controller_id: int, world: World) -> None:
        self.id = controller_id
        self.world = world
        self.coordination: SimulatedSession | None = None
        self.recording = Recording(world.truth)
        self._activity: Activity | None = None
        self._task: asyncio.Task[None] | None = None
        self._requests: set[asyncio.Task[None]] = set()

    @property
    def up(self) -> bool:
        return self._task is not None

    @property
    def active(self) -> ActiveController | None:
        return self._activity.active if self._activity is not None and self.up else None

    def start(self) -> None:
        assert not self.up
        self._task = self.world.loop.create_task(self._run())

    async def _run(self) -> None:
        host = replace(self.world.host, clock=ControllerClock(self))
        while True:
            endpoint = Endpoint(self.id, "host", 100 + self.id)
            self._activity = Activity(endpoint, SETTINGS, host, lambda: None)
            self.coordination = self.world.zookeeper.open_session(f"controller {self.id}")
            await self._activity._live(self.coordination)
            self.coordination.close_at_server()

    def ask(self, request: Request) -> None:
        """As a client would; what is refused is refused."""
        active = self.active
        assert active is not None

        async def carry_out() -> None:
            try:
                await request(active)
            except StrandlineError:
                return

        task = self.world.loop.create_task(carry_out())
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    def die(self, taken: int) -> None:
        """With `taken` of its requests under way at the server; its session stands until it expires."""
        assert self._task is not None
        if self.coordination is not None:
            self.coordination.die(taken)
        for task in (self._task, *self._requests):
            task.cancel()
        self._task = None

    def failure(self) -> BaseException | None:
        task = self._task
        return task.exception() if task is not None and task.done() else None
