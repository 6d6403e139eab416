"""Looking after brokers from outside: what they do, whether they may be stopped, and emptying them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from strandline.client import arguments
from strandline.client.messages import (
    BrokerCheck,
    CheckBroker,
    ClusterDescription,
    DrainBroker,
    DrainProgress,
)
from strandline.client.wire.brokers import CHECK_BROKER, DESCRIBE_CLUSTER, DRAIN_BROKER
from strandline.ports import Method, Request, Response


class BrokerAdmin(ABC):
    """A part of `Admin`, which asks the active controller."""

    @abstractmethod
    async def _ask_controller(self, method: Method[Request, Response], request: Request) -> Response: ...

    async def describe_cluster(self) -> ClusterDescription:
        """Controller and brokers, as the active controller knows them: also brokers that are gone and have a
        queue of state changes. Raises NotController."""
        return await self._ask_controller(DESCRIBE_CLUSTER, None)

    async def drain_broker(
        self, broker: int, *, replicas: bool = False, throttle_bytes_per_s: int = 0
    ) -> DrainProgress:
        """Have a broker lead nothing, and with `replicas` have nothing either; what it still has.

        The controller goes on by itself; to ask again is to look how far it is. Leaderships and replicas stay
        away until the drain is taken back; leaderships alone also until the broker is ready again after a
        restart (`check_broker`). `throttle_bytes_per_s` bounds what is sent to each partition's new replica;
        0: only the brokers' own bound. Another throttle than before is also that of the moves under way.

        Raises InvalidRequest for a broker that nobody knows, NotController.
        """
        return await self._ask_controller(
            DRAIN_BROKER,
            DrainBroker(
                _id(broker),
                replicas=replicas,
                throttle_bytes_per_s=arguments.whole(
                    "throttle_bytes_per_s", throttle_bytes_per_s, 0, arguments.INT64_MAX
                ),
            ),
        )

    async def undrain_broker(self, broker: int) -> DrainProgress:
        """Take a drain back. What moves already goes on to do so. Raises NotController."""
        return await self._ask_controller(DRAIN_BROKER, DrainBroker(_id(broker), undo=True))

    async def check_broker(self, broker: int, *, end_drain: bool = False) -> BrokerCheck:
        """Is it caught up, and may it be stopped without a partition falling below min.insync.replicas?

        With `end_drain` a drain of its leaderships ends if the broker is ready and was started again, or has
        another ZooKeeper session, since that drain was asked for. Raises NotController.
        """
        return await self._ask_controller(CHECK_BROKER, CheckBroker(_id(broker), bool(end_drain)))


def _id(broker: int) -> int:
    return arguments.whole("broker", broker, 0, arguments.INT32_MAX)
