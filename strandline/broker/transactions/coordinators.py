"""The partitions of `__transaction_state` that this broker leads."""

from __future__ import annotations

from collections.abc import Callable

from strandline.broker.coordinators.led_partitions import LedPartitions
from strandline.broker.coordinators.partition import Surroundings
from strandline.broker.core.transactions.coordinator import TransactionCoordinator
from strandline.broker.core.transactions.effects import TransactionEvent
from strandline.broker.core.transactions.limits import TransactionLimits
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.transactions.partition import TRANSACTIONS, Deliver, TransactionPartition
from strandline.config.services.broker import BrokerSettings


class TransactionCoordinators(LedPartitions[TransactionPartition]):
    def __init__(
        self,
        manager: ReplicaManager,
        settings: BrokerSettings,
        deliver: Deliver,
        publish: Callable[[TransactionEvent], None],
        holds_lease: Callable[[], bool],
    ) -> None:
        super().__init__(
            TRANSACTIONS,
            manager,
            holds_lease,
            append_timeout_ms=settings.transaction_append_timeout_ms,
            appends_max=settings.commit_queue_entries_max,
        )
        self._limits = TransactionLimits.of(settings)
        self._deliver = deliver
        self._publish = publish

    def _make(self, leadership: Leadership, around: Surroundings) -> TransactionPartition:
        core = TransactionCoordinator(self._limits)
        return TransactionPartition(leadership, core, around, self._deliver, self._publish)
