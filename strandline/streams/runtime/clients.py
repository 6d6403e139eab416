"""The clients of a stream application, which start and stop together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Any, Final

from strandline.client.admin.admin import Admin
from strandline.client.client import Client
from strandline.client.metrics import Measured
from strandline.client.scope import Startable
from strandline.config.client import ClientSettings
from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.config.login import LoginSettings
from strandline.config.streams import EXACTLY_ONCE, StreamsSettings
from strandline.consumer.consumer import Consumer
from strandline.consumer.core.assignors.assignor import Assignor
from strandline.host import Host
from strandline.producer.producer import Producer
from strandline.streams.restore.restorer import Restorer
from strandline.streams.runtime.tasks.transactions import Transactions

_SHARED: Final = frozenset(ClientSettings.model_fields) - frozenset(LoginSettings.model_fields)
"""Without those of connections, which the host opens, and of logins, which it makes."""
_CONSUMER: Final = _SHARED | {
    "offset_reset",
    "on_undecodable",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "max_poll_interval_ms",
    "topics_refresh_ms",
}


class Clients(Startable):
    """Outputs and changelogs have separate producers: a refused batch of one leaves no gap in the other. With
    exactly_once they have one, for all that a member commits is one transaction (KIP-447)."""

    def __init__(
        self, bootstrap: str | Sequence[str], assignor: Assignor, settings: StreamsSettings, host: Host
    ) -> None:
        shared = settings.model_dump(include=set(_SHARED))
        sending = shared | {"delivery_timeout_ms": settings.delivery_timeout_ms}
        self.admin = Admin(bootstrap, host=host, **shared)
        self._exactly_once = settings.processing_guarantee == EXACTLY_ONCE
        if self._exactly_once:
            self.outputs = self.changelogs = Producer(
                bootstrap,
                host=host,
                transactional_id=_transactional_id(settings.application_id, host.random),
                transaction_timeout_ms=settings.transaction_timeout_ms,
                **sending,
            )
        else:
            self.outputs = Producer(bootstrap, host=host, gapless=True, **sending)
            self.changelogs = Producer(bootstrap, host=host, **sending)
        self.restorer = Restorer(bootstrap, settings=shared, host=host)
        self.consumer = Consumer(
            bootstrap,
            assignors=[assignor],
            host=host,
            group_id=settings.application_id,
            rebalance_protocol="cooperative",
            enable_auto_commit=False,
            isolation_level="read_committed" if self._exactly_once else "read_uncommitted",
            **settings.model_dump(include=set(_CONSUMER)),
        )
        self.transactions = Transactions(self.outputs, self.consumer) if self._exactly_once else None

    @property
    def measured(self) -> dict[str, Measured]:
        """Those of the clients whose metrics are an application's."""
        return {"consumer": self.consumer, "outputs": self.outputs, "changelogs": self.changelogs}

    @property
    def _others(self) -> Sequence[Client[Any]]:
        """All but the consumer."""
        producers = (self.outputs,) if self._exactly_once else (self.outputs, self.changelogs)
        return (self.admin, *producers, self.restorer)

    async def start(self) -> None:
        """Raises BrokerNotAvailable."""
        for client in (*self._others, self.consumer):
            await client.start()

    async def stop(self) -> None:
        """Stop all clients except the consumer, which left its group before; an error of one does not keep
        the others running."""
        async with AsyncExitStack() as closing:
            for client in self._others:
                closing.push_async_callback(client.stop)


def _transactional_id(application_id: str, lots: Random) -> str:
    """A new one for each start of a member: a member that was killed is fenced by its group, which it is no
    longer in, and its transaction ends by its timeout."""
    suffix = f"-{lots.getrandbits(64):016x}"
    return application_id[: GROUP_ID_LENGTH_MAX - len(suffix)] + suffix
