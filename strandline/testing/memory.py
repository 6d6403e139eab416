"""A cluster in memory, on real time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system_host import SystemThreads
from strandline.host import Host
from strandline.simulation.engine.clocks import MachineClock
from strandline.simulation.engine.hosted_loop import HostedLoop
from strandline.simulation.engine.network import Latency
from strandline.simulation.engine.world import World
from strandline.testing.errors import NotPossible
from strandline.testing.kafka_ports import LOOPBACK, KafkaPorts
from strandline.testing.members import Shape
from strandline.testing.played import PlayedCluster

AT_ONCE: Final = Latency(0.0, 0.0)
IN_TESTS: Final[Mapping[str, Any]] = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_partitions": 1}
"""Defaults of a broker that only cost a test time."""
SEED: Final = 0
NOWHERE: Final = "machine-{}.invalid"
"""No network has this domain (RFC 6761): a client that was not given the cluster's host reaches nothing."""


class MemoryCluster(PlayedCluster):
    """Runs in your event loop, on real time, with its files in memory. It has no threads, and no ports.

    With `kafka=True` each broker has a port on this machine for Kafka clients: see `kafka_bootstrap`. They
    may run in other threads and processes.

        async with MemoryCluster(brokers=3) as cluster:
            await cluster.create_topic("orders", partitions=2)
            async with cluster.producer() as producer:
                ...

    Your code runs as usual: it may use sockets, threads and everything else, but for what `application` runs,
    which is a process of the played world. Messages take no time beyond
    what the code takes. While the event loop is blocked, the time of the brokers stops, so that neither a
    breakpoint nor a busy machine ends a session.

    Two runs are never quite the same: `SimulatedCluster` repeats a run exactly. Raises SettingsError.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int = 1,
        kafka: bool = False,
        broker_settings: Mapping[str, Any] | None = None,
        controller_settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._has_kafka = kafka
        self._kafka: KafkaPorts | None = None
        given = {**IN_TESTS, **(broker_settings or {})}
        super().__init__(Shape(brokers, controllers, given, controller_settings or {}))

    async def __aenter__(self) -> Self:
        """Returns once all brokers and a controller serve."""
        self._need_ended()
        try:
            if self._has_kafka:
                self._kafka = KafkaPorts()
                await self._kafka.open(self._shape.brokers)
                self._own_settings = self._kafka.settings
            self._open(self._new_world())
            if self._kafka is not None:
                self._kafka.serve(self._now)
            await self._wait_ready()
        except BaseException:
            self._end(check=False)
            raise
        return self

    def _new_world(self) -> World:
        clock = SystemClock()
        loop = HostedLoop.guest_of(asyncio.get_running_loop(), Random(SEED), clock)
        began_ms = clock.wall_ms()

        def new_clock(random: Random) -> MachineClock:
            return MachineClock(wall_ms_at_zero=began_ms)

        world = World(SEED, loop=loop, new_clock=new_clock, addresses=NOWHERE)
        world.network.default_latency = AT_ONCE
        world.zookeeper.commit_latency = world.zookeeper.lag = AT_ONCE
        return world

    @property
    def kafka_bootstrap(self) -> str:
        """`host:port` of every broker for Kafka clients, separated by commas; empty without such ports."""
        return "" if self._kafka is None else ",".join(f"{LOOPBACK}:{port}" for port in self._kafka.ports)

    def _end(self, *, check: bool) -> None:
        if self._kafka is not None:
            self._kafka.close()
            self._kafka = None
        if self._running is not None:
            self._close(check=check)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(check=error is None)

    def _client_host(self, host: Host) -> Host:
        return replace(host, threads=SystemThreads())

    def _check_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        own = self._now.world.loop
        assert isinstance(own, HostedLoop)
        if loop is own:
            raise NotPossible("an application makes its clients with the host that it was given")
        if loop is not own.hosting:
            where = "no event loop runs" if loop is None else "another event loop runs"
            raise NotPossible(f"this is possible only in the event loop of `async with`, but {where}")
