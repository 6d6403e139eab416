"""Describes, checks and drains brokers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from strandline.adapters.codecs.admin import CHECK_BROKER, DESCRIBE_CLUSTER, DRAIN_BROKER, FORGET_BROKER
from strandline.client import arguments
from strandline.ports import Method, Request, Response
from strandline.vocabulary.admin import (
    BrokerCheck,
    CheckBroker,
    ClusterDescription,
    DrainBroker,
    DrainProgress,
    ForgetBroker,
    ForgottenBroker,
)


class BrokerAdmin(ABC):
    """A part of `Admin`, which asks the active controller."""

    @abstractmethod
    async def _ask_controller(self, method: Method[Request, Response], request: Request) -> Response: ...

    async def describe_cluster(self) -> ClusterDescription:
        """The controller and the brokers, as the active controller knows them. Brokers that are down are
        included while they have a queue of state changes. Raises NotController."""
        return await self._ask_controller(DESCRIBE_CLUSTER, None)

    async def drain_broker(
        self,
        broker: int,
        *,
        replicas: bool = False,
        throttle_bytes_per_s: int = 0,
        until_restart: bool = False,
    ) -> DrainProgress:
        """Move all leaderships off a broker, and with `replicas` its replicas too. Returns what is left.

        The controller continues in the background; the same call again returns its progress, and begins a
        drain anew that was undone meanwhile: `describe_cluster` shows if it was. Replicas and leaderships
        stay away until `undrain_broker`. A drain of leaderships alone also ends when the broker is ready
        after a restart (`check_broker`); with `until_restart` already once the broker is registered again, or
        has another ZooKeeper session. `throttle_bytes_per_s` bounds the copying to each partition's new
        replica, also for moves in progress; 0: only the brokers' own bound.

        Raises InvalidRequest for an unknown broker, and for `replicas` with `until_restart`; NotController.
        """
        return await self._ask_controller(
            DRAIN_BROKER,
            DrainBroker(
                _id(broker),
                replicas=replicas,
                throttle_bytes_per_s=arguments.whole(
                    "throttle_bytes_per_s", throttle_bytes_per_s, 0, arguments.INT64_MAX
                ),
                until_restart=bool(until_restart),
            ),
        )

    async def undrain_broker(self, broker: int) -> DrainProgress:
        """Undo a drain. Moves in progress continue. Raises NotController."""
        return await self._ask_controller(DRAIN_BROKER, DrainBroker(_id(broker), undo=True))

    async def forget_broker(self, broker: int) -> ForgottenBroker:
        """Remove what the cluster keeps of a broker that will not return. It must be stopped and have no
        replicas.

        State changes that waited for it fail, and it leaves the list of brokers and the controller's metrics.
        If it returns, it registers as a new broker. A repeated call changes nothing.

        Raises InvalidRequest if it is alive, or has replicas; NotController, OutcomeUnknown.
        """
        return await self._ask_controller(FORGET_BROKER, ForgetBroker(_id(broker)))

    async def check_broker(self, broker: int, *, end_drain: bool = False) -> BrokerCheck:
        """Whether the broker is caught up, and may stop without a partition below min.insync.replicas.

        With `end_drain` a drain of its leaderships ends if the broker is ready and was restarted, or has
        another ZooKeeper session, since the drain began. Raises NotController.
        """
        return await self._ask_controller(CHECK_BROKER, CheckBroker(_id(broker), bool(end_drain)))


def _id(broker: int) -> int:
    return arguments.whole("broker", broker, 0, arguments.INT32_MAX)
