"""The handlers of a broker for Kafka clients, on a cluster in memory and on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from strandline.broker.kafka.wire.apis import ApiWire
from strandline.security.principal import ANONYMOUS
from strandline.simulation.cluster import KAFKA_PORT
from strandline.testing import SimulatedCluster
from tests.integration.security.support.stage import Stage


@contextmanager
def kafka_brokers(count: int, **settings: Any) -> Iterator[SimulatedCluster]:
    """Brokers with a Kafka port."""
    given = {"kafka_port": KAFKA_PORT, **settings}
    with SimulatedCluster(seed=1, brokers=count, broker_settings=given) as cluster:
        yield cluster


class KafkaHandlers:
    """Those of the first broker. Use it within `cluster.run`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.stage = Stage(cluster)

    async def ask(self, wire: ApiWire[Any, Any], request: Any, version: int | None = None) -> Any:
        return await self.stage.kafka(wire, request, ANONYMOUS, version=version)

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        # mypy does not solve the union of a value and an awaitable of it
        await self.cluster.run_until(condition, what=what)  # type: ignore[arg-type]

    async def until_all_known(self) -> None:
        """A broker hears of the others a moment after they have registered."""

        def all_known() -> bool:
            manager = self.stage.broker.manager
            return manager is not None and len(manager.live) == len(self.cluster.broker_ids)

        await self.cluster.run_until(all_known, what="the first broker knows all others")
