"""Queues requests for other brokers in ZooKeeper, many in one znode."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Final
from uuid import uuid4

from broker.replica import Replica
from strandline.adapters import queue_znodes, znodes
from strandline.ids import BrokerId, LeaderEpoch
from strandline.ports import Clock, ConnectionLost, Coordination, NoNode
from strandline.state_changes import Command, StateChange

REQUESTS_PER_ZNODE_MAX: Final = 1_000
SEND_AGAIN_S: Final = 0.1


class StateChangeSender:
    """The outbox of one session. `run` is its task; the rest never awaits."""

    def __init__(self, me: BrokerId, session: Coordination, clock: Clock) -> None:
        self._me = me
        self._session = session
        self._clock = clock
        self._outbox: dict[BrokerId, list[StateChange]] = defaultdict(list)
        self._wake = asyncio.Event()

    def start_replicas(self, replica: Replica, epoch: LeaderEpoch, reason: str) -> None:
        """Tell every other assigned replica who leads from now on, dead ones too."""
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
        for broker in brokers:
            self._outbox[broker].append(
                StateChange(
                    uuid4().hex,
                    command,
                    replica.name.topic,
                    replica.key,
                    epoch,
                    self._me,
                    self._clock.wall_ms(),
                    reason=reason,
                )
            )
        self._wake.set()

    async def run(self) -> None:
        """Send what is in the outbox. Runs until cancelled; a request may be sent twice, never not at all."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            async with asyncio.TaskGroup() as tasks:
                for broker, requests in self._outbox.items():
                    while requests:
                        batch, requests[:REQUESTS_PER_ZNODE_MAX] = requests[:REQUESTS_PER_ZNODE_MAX], []
                        tasks.create_task(self._send(broker, batch))

    async def _send(self, broker: BrokerId, batch: list[StateChange]) -> None:
        data = queue_znodes.dump_state_changes(batch)
        while True:
            try:
                await self._session.create(znodes.state_entry_prefix(broker), data, sequential=True)
                return
            except NoNode:
                await self._session.ensure_path(znodes.state_queue(broker))
            except ConnectionLost:
                await self._clock.sleep(SEND_AGAIN_S)
