"""Queues requests for other brokers in ZooKeeper, many in one znode."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.session_context import SessionContext
from strandline.config.limits import REQUESTS_PER_ZNODE_MAX, STATE_ENTRY_BYTES_MAX, STATE_QUEUE_ENTRIES_MAX
from strandline.ids import BrokerId, LeaderEpoch
from strandline.ports import Check, ConnectionLost, Create, MultiFailed, NodeExists, NoNode
from strandline.vocabulary.state_changes import ANY_LIFE, Command, End, RequestState, StateChange, life_of

logger = structlog.get_logger(__name__)

SEND_AGAIN_S: Final = 0.1

FULL_QUEUE_S: Final = 1.0
"""The pause before a full queue is checked again."""


class StateChangeSender:
    """The outgoing requests of one session. `run` is its task; the rest never awaits."""

    def __init__(
        self,
        context: SessionContext,
        *,
        queue_entries_max: int = STATE_QUEUE_ENTRIES_MAX,
        entry_requests_max: int = REQUESTS_PER_ZNODE_MAX,
        entry_bytes_max: int = STATE_ENTRY_BYTES_MAX,
        full_queue_s: float = FULL_QUEUE_S,
    ) -> None:
        self._me = context.me
        self._registration = context.registration
        self._session = context.coordination
        self._recorder = context.recorder
        self._clock = context.clock
        self._new_id = context.manager.host.new_id
        self._outbox: defaultdict[BrokerId, list[StateChange]] = defaultdict(list)
        self._sending: set[BrokerId] = set()
        self._wake = asyncio.Event()
        self._queue_entries_max = queue_entries_max
        self._entry_requests_max = entry_requests_max
        self._entry_bytes_max = entry_bytes_max
        self._full_queue_s = full_queue_s

    def start_replicas(self, replica: Replica, epoch: LeaderEpoch, reason: str) -> None:
        """Notify every other assigned replica of the new leader, dead ones too."""
        others = [broker for broker in replica.assigned if broker != self._me]
        self.send(Command.START_REPLICA, replica, epoch, others, reason)

    def send(
        self,
        command: Command,
        replica: Replica,
        epoch: LeaderEpoch,
        brokers: Iterable[BrokerId],
        reason: str,
    ) -> None:
        """Queue one request for each of these brokers; `run` does the writing."""
        live = self._registration.live  # the lives for which the requests are meant (CORRECTNESS E4)
        for broker in brokers:
            registration = live.get(broker)
            self._outbox[broker].append(
                StateChange(
                    self._new_id(),
                    command,
                    replica.name.topic,
                    replica.key,
                    epoch,
                    self._me,
                    self._clock.wall_ms(),
                    ANY_LIFE if registration is None else registration.epoch,
                    reason,
                )
            )
        self._wake.set()

    async def run(self) -> None:
        """Send the waiting requests. Runs until cancelled. No broker's queue waits for another one's."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._wake.wait()
                self._wake.clear()
                for broker in [b for b, requests in self._outbox.items() if requests]:
                    if broker not in self._sending:
                        self._sending.add(broker)
                        tasks.create_task(self._send_all(broker))

    async def _send_all(self, broker: BrokerId) -> None:
        """Send in order, until no request for this broker is left."""
        requests = self._outbox[broker]
        while requests:
            try:
                queue = await self._session.exists(znodes.state_queue(broker))
                if queue is None:
                    await self._create_queue(broker)
                elif queue.children >= self._queue_entries_max:
                    reason = f"{self._queue_entries_max} znodes of requests wait for broker {broker}"
                    self._give_up_starts(broker, reason)
                    await self._clock.sleep(self._full_queue_s)
                else:
                    await self._send(broker, requests)
            except NoNode:  # the queue was removed
                continue
            except ConnectionLost:
                await self._clock.sleep(SEND_AGAIN_S)
        self._sending.discard(broker)

    async def _create_queue(self, broker: BrokerId) -> None:
        """Creates it for a broker that is registered. One that is not was forgotten, and stays so: it reads
        what it is assigned if it returns."""
        queue = znodes.state_queue(broker)
        try:
            await self._session.multi([Check(znodes.broker(broker)), Create(queue)])
        except MultiFailed as failed:
            if not isinstance(failed.cause, NoNode | NodeExists):
                raise
            if isinstance(failed.cause, NoNode):
                self._give_up_starts(broker, f"broker {broker} is not registered, and has no queue")
                if self._outbox[broker]:
                    await self._session.ensure_path(queue)

    async def _send(self, broker: BrokerId, requests: list[StateChange]) -> None:
        """Send the first requests, as many as one znode may hold. Raises ConnectionLost, NoNode."""
        count = self._fitting(requests)
        batch = requests[:count]
        try:
            data = queue_znodes.dump_state_changes(batch)
            await self._session.create(znodes.state_entry_prefix(broker), data, sequential=True)
        except ConnectionLost:
            # They may be queued. Those that are have an end of their own; the next attempt gets new ids.
            requests[:count] = [replace(change, request_id=self._new_id()) for change in batch]
            raise
        del requests[:count]
        self._recorder.record([life_of(change, broker)[0] for change in batch])

    def _give_up_starts(self, broker: BrokerId, reason: str) -> None:
        """The queue is full, or gone. Only the queue of a broker that is long gone fills up, and when that
        broker starts it reads its assignments. Requests to close or delete must not be dropped (CORRECTNESS
        Q4, Q5)."""
        requests = self._outbox[broker]
        starts = [change for change in requests if change.command is Command.START_REPLICA]
        requests[:] = [change for change in requests if change.command is not Command.START_REPLICA]
        if starts:
            logger.error("start-replica not queued", broker=broker, requests=len(starts), reason=reason)
            end = End(RequestState.FAILED, self._clock.wall_ms(), reason=reason)
            for change in starts:
                self._recorder.record(life_of(replace(change, end=end), broker))

    def _fitting(self, requests: Sequence[StateChange]) -> int:
        """The number of these that one znode may hold; at least one."""
        size = 0
        for count, change in enumerate(requests[: self._entry_requests_max]):
            size += len(queue_znodes.dump_state_changes([change]))
            if count and size > self._entry_bytes_max:
                return count
        return min(len(requests), self._entry_requests_max)
