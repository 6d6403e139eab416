"""Executes the state-change requests in this broker's own queue.

The core's `queue` decides the order; this module carries it out. A broker that dies between any two steps
repeats the earlier ones: execution changes nothing the second time, the end of a request is written by one
compare-and-set, and a repeated record has the same identity (CORRECTNESS Q2).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.broker.core.state_changes.queue import Execute, Read, Record, Remove, Settle, StateQueue
from strandline.broker.facts.assignments import Assignments
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.session_context import SessionContext
from strandline.broker.state_changes.execution import ExecutionResult, Executor, Topic, read_topic
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ids import BrokerEpoch
from strandline.ports import BadVersion, ConnectionLost, NoNode
from strandline.tasks import pipelined
from strandline.vocabulary.state_changes import RequestState, StateChange, life_of

logger = structlog.get_logger(__name__)

ENTRIES_HELD_MAX: Final = 200
EVENTS_OF_A_LIFE: Final = 3
REASON_LENGTH_MAX: Final = 120
"""The length of an end's reason: a thousand of them have to fit in one znode."""
TRY_AGAIN_S: Final = 0.1

T = TypeVar("T")


class StateChangeReceiver:
    """Receives the requests of one session. `run` is its task."""

    def __init__(
        self,
        context: SessionContext,
        vacant: Callable[[Replica], None],
    ) -> None:
        self._manager = context.manager
        self._session = context.coordination
        self._recorder = context.recorder
        self._clock = context.clock
        self.executor = Executor(context, vacant)
        self._path = znodes.state_queue(context.me)
        self._queue: StateQueue
        self._list_requested = asyncio.Event()
        self._changed = asyncio.Event()
        self._stepped = asyncio.Event()

    async def open(self, life: BrokerEpoch) -> None:
        """Ensure the folder and set the watch. `life` is this broker's, which is registered by now."""
        self._queue = StateQueue(
            life,
            entries_max=ENTRIES_HELD_MAX,
            executions_max=ZOOKEEPER_READS_IN_FLIGHT_MAX,
            # Half of the room: events that happen meanwhile need the rest.
            recordings_max=max(1, self._manager.settings.events_waiting_max // (2 * EVENTS_OF_A_LIFE)),
        )
        await self._session.ensure_path(self._path)
        self._session.watch_children(self._path, self._listed)

    def look_again(self) -> None:
        """Have `run` read the queue, whether the watch fired or not."""
        self._list_requested.set()

    async def drain(self) -> None:
        """Returns once everything that is in the queue now has been executed, by `run`.

        It need not be recorded yet: the leaders of `__state_changes` may wait for this broker.
        """
        await self._session.sync(self._path)
        names = await self._session.children(self._path)
        self._listed(names)
        while not self._queue.executed_all(names):
            self._stepped.clear()
            await self._stepped.wait()

    async def run(self) -> None:
        """Process the queue whenever it changes. Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._list())
            while True:
                await self._changed.wait()
                self._changed.clear()
                effects = self._queue.step(self._clock.wall_ms())
                self._stepped.set()
                if to_do := [effect for effect in effects if isinstance(effect, Execute)]:
                    tasks.create_task(self._execute_all(to_do))
                for effect in effects:
                    if isinstance(effect, Record):
                        self._record(effect)
                    elif not isinstance(effect, Execute):
                        tasks.create_task(self._until_connected(partial(self._carry_out, effect)))

    async def _list(self) -> None:
        while True:
            await self._list_requested.wait()
            self._list_requested.clear()
            self._listed(await self._until_connected(partial(self._session.children, self._path)))

    def _listed(self, names: list[str]) -> None:
        self._queue.listed(names)
        self._changed.set()

    # --- executing ---------------------------------------------------------------------------

    async def _execute_all(self, to_do: Sequence[Execute]) -> None:
        """A thousand requests that arrive together cost one reading of each of their topics."""
        names = dict.fromkeys(effect.change.topic for effect in to_do)
        topics, assignments = await self._until_connected(partial(self._read_topics, names))
        async with asyncio.TaskGroup() as tasks:  # its own: that of `run` may be ending by now
            for effect in to_do:
                tasks.create_task(self._execute(effect, topics[effect.change.topic], assignments))

    async def _execute(self, effect: Execute, topic: Topic, assignments: Assignments) -> None:
        change = effect.change
        crash_point("state_change.before_execute")
        while (outcome := await self._try(change, topic, assignments)) is None:
            await self._clock.sleep(TRY_AGAIN_S)
            topics, assignments = await self._until_connected(partial(self._read_topics, [change.topic]))
            topic = topics[change.topic]
        crash_point("state_change.after_execute")
        _log(change, outcome)
        self._queue.executed(
            effect.entry,
            change.request_id,
            outcome.state,
            outcome.reason[:REASON_LENGTH_MAX],
            self._clock.wall_ms(),
        )
        self._changed.set()

    async def _try(
        self, change: StateChange, topic: Topic, assignments: Assignments
    ) -> ExecutionResult | None:
        """None if the connection was lost before the outcome was known."""
        try:
            return await self.executor.execute(change, topic, assignments)
        except ConnectionLost:
            return None

    async def _read_topics(self, names: Iterable[str]) -> tuple[dict[str, Topic], Assignments]:
        found: dict[str, Topic] = {}

        async def read(name: str) -> None:
            found[name] = await read_topic(self._session, name)

        assignments = await Assignments.listed(self._session)
        await pipelined(read, names, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        return found, assignments

    # --- the znodes --------------------------------------------------------------------------

    async def _carry_out(self, effect: Read | Settle | Remove) -> None:
        """Notes the outcome. Raises ConnectionLost; then the outcome is unknown, and the step is repeated."""
        name, path = effect.entry, f"{self._path}/{effect.entry}"
        try:
            match effect:
                case Read():
                    await self._read(name, path)
                case Settle(changes=changes, version=version):
                    version = await self._session.set(
                        path, queue_znodes.dump_state_changes(changes), version=version
                    )
                    crash_point("state_change.after_settle")
                    self._queue.settled(name, version)
                case Remove(version=version):
                    crash_point("state_change.before_remove")
                    await self._session.delete(path, version=version)
                    self._queue.gone(name)
        except NoNode:
            self._queue.gone(name)
        except BadVersion:
            self._queue.refused(name)
        self._changed.set()

    async def _read(self, name: str, path: str) -> None:
        node = await self._session.get(path)
        try:
            changes = queue_znodes.load_state_changes(node.data)
        except ValueError as error:
            logger.error("removing a malformed state-change request", path=path, reason=str(error))
            self._queue.malformed(name, node.version)
        else:
            self._queue.read(name, changes, node.version)

    def _record(self, effect: Record) -> None:
        """Starts recording the lives of these requests; after a crash they are recorded again."""

        def done(in_log: bool) -> None:
            if in_log:
                crash_point("state_change.after_record")
                self._queue.recorded(effect.entry)
            else:
                self._queue.not_recorded(effect.entry)
            self._changed.set()

        lives = [event for change in effect.changes for event in life_of(change, self._manager.me)]
        self._recorder.record(lives, done)

    async def _until_connected(self, action: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await action()
            except ConnectionLost:
                await self._clock.sleep(TRY_AGAIN_S)


def _log(change: StateChange, outcome: ExecutionResult) -> None:
    level = logging.WARNING if outcome.state is RequestState.FAILED else logging.DEBUG
    logger.log(
        level,
        f"state change {outcome.state.value}",
        id=change.request_id,
        command=change.command.value,
        partition=f"{change.topic}-{change.key.partition}",
        epoch=change.leader_epoch,
        requester=change.requester,
        reason=outcome.reason,
    )
