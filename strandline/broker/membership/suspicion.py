"""Probes other brokers: at once when a stream to one breaks, repeatedly while it is suspected, and before a
decision that depends on reaching it.

`strandline.broker.membership.peers` and docs/understand/replication.md, Election, describe the consequences.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from strandline.broker.core.election.suspects import Cause
from strandline.broker.membership.peers import Peers
from strandline.broker.membership.silence import Ask
from strandline.host import ProbeResult
from strandline.ids import BrokerEpoch, BrokerId
from strandline.ports import Clock
from strandline.vocabulary.metadata import Registration

Probe = Callable[[Registration], Awaitable[ProbeResult]]
"""Probes the port of a registered broker. Never raises; bounded in time."""


class Reach(Protocol):
    async def answering(self, brokers: Iterable[BrokerId]) -> frozenset[BrokerEpoch]:
        """The registered lives of those brokers that answer this broker now."""
        ...


class Suspicion:
    """The probes of one session. `run` is its task; fulfils `Reach`."""

    def __init__(self, peers: Peers, probe: Probe, ask: Ask, clock: Clock) -> None:
        self._peers = peers
        self._probe = probe
        self._question = ask
        self._clock = clock
        self._wanted: set[BrokerId] = set()
        self._under_way: set[BrokerEpoch] = set()
        """Probes in progress: at most one for each life."""
        self._wake = asyncio.Event()

    def ask(self, broker: BrokerId) -> None:
        """Probes a broker after a stream to it broke, which may be the network's fault."""
        self._wanted.add(broker)
        self._wake.set()

    def peers_changed(self) -> None:
        """Notes that there may be another suspect."""
        self._wake.set()

    async def answering(self, brokers: Iterable[BrokerId]) -> frozenset[BrokerEpoch]:
        """See `Reach`. A refusal makes the broker a suspect, as in any other probe."""
        live = self._peers.live
        asked = [live[broker] for broker in brokers if broker in live]
        async with asyncio.TaskGroup() as tasks:
            probes = {each.epoch: tasks.create_task(self._ask(each)) for each in asked}
        return frozenset(life for life, task in probes.items() if task.result() is ProbeResult.ALIVE)

    async def run(self) -> None:
        """Runs the probes that are due. Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                for registration in self._due():
                    if registration.epoch not in self._under_way:
                        self._under_way.add(registration.epoch)
                        tasks.create_task(self._ask_once(registration))
                next_due = self._peers.suspects.next_due()
                pause_s = None if next_due is None else max(0.0, next_due - self._clock.monotonic())
                try:
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    def _due(self) -> list[Registration]:
        live = self._peers.live
        wanted, self._wanted = self._wanted, set()
        again = set(self._peers.suspects.due(self._clock.monotonic()))
        return [each for broker, each in live.items() if broker in wanted or each.epoch in again]

    async def _ask_once(self, registration: Registration) -> None:
        try:
            await self._ask(registration)
        finally:
            self._under_way.discard(registration.epoch)

    async def _ask(self, registration: Registration) -> ProbeResult:
        result = await self._probe(registration)
        match result:
            case ProbeResult.ALIVE:
                if await self._is_there(registration):
                    self._peers.reached(registration.epoch)
            case ProbeResult.GONE:
                self._peers.refused(registration.epoch)
            case ProbeResult.NOTHING:
                pass  # its session decides
        return result

    async def _is_there(self, registration: Registration) -> bool:
        """True if a process whose port answers does not hang: a silent one has to answer a question."""
        if self._peers.suspects.cause(registration.epoch) is not Cause.SILENT:
            return True
        return await self._question(registration, registration) is not None
