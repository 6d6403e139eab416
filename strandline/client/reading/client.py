"""The base of clients that read partitions: of consumers, and of clients that choose their offsets alone."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.client.client import Client
from strandline.client.reading.partition_reader import PartitionReader
from strandline.client.reading.wakeups import Wakeups
from strandline.config.consumer import ConsumerSettings
from strandline.ports import Clock, Transport


class ReadingClient(Client[ConsumerSettings]):
    """Has a reader of partitions, and wakes the calls that wait for it when the client fails.

    `settings` bound what is fetched and not taken yet. `follows_topics` is that of the reader.
    """

    def __init__(
        self,
        what: str,
        bootstrap: str | Sequence[str],
        settings: ConsumerSettings,
        transport: Transport,
        clock: Clock,
        *,
        follows_topics: bool = True,
    ) -> None:
        super().__init__(what, bootstrap, settings, transport, clock)
        self._wakeups = Wakeups(clock)
        self._reader = PartitionReader(
            cluster=self._cluster,
            scope=self._scope,
            wakeups=self._wakeups,
            settings=settings,
            clock=clock,
            follows_topics=follows_topics,
        )

    async def start(self) -> None:
        await super().start()
        self._reader.start()

    def _failed(self, error: BaseException) -> None:
        super()._failed(error)
        self._wakeups.arrived()
