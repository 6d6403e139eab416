"""One partition of `__transaction_state`: carries out the decisions of its `TransactionCoordinator`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import Any, Final

from strandline.broker.coordinators.kind import Kind, LogLines
from strandline.broker.coordinators.partition import CoordinatorPartition, Surroundings
from strandline.broker.core.transactions.coordinator import TransactionCoordinator
from strandline.broker.core.transactions.effects import Publish, SendMarkers, TransactionEvent
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.transactions.marker_sender import Marked
from strandline.ids import TRANSACTIONS_TOPIC, TopicPartition
from strandline.vocabulary.asks import Answered, Asks
from strandline.vocabulary.transactions import TransactionState

Deliver = Callable[[SendMarkers, int, Marked], Coroutine[Any, Any, None]]
"""Brings markers, with the coordinator's epoch, to the leaders: as `MarkerSender.deliver`."""

TRANSACTIONS: Final = Kind(
    TRANSACTIONS_TOPIC,
    one="transactional id",
    all="transactions",
    lines=LogLines(
        loaded="transactions loaded",
        not_read="transactions not read",
        waiting="transactions wait for in-sync replicas before they are read",
        unreadable="a transaction's record cannot be read",
        not_written="a transaction's state was not written",
        failed="a transaction's turn failed: its transactional id is Dead here, others continue",
    ),
)


class TransactionPartition(CoordinatorPartition[SendMarkers | Publish]):
    """Its own `run` owns the tasks that bring markers to leaders: they end with the leadership."""

    kind = TRANSACTIONS

    def __init__(
        self,
        leadership: Leadership,
        core: TransactionCoordinator,
        around: Surroundings,
        deliver: Deliver,
        publish: Callable[[TransactionEvent], None],
    ) -> None:
        super().__init__(leadership, core, around)
        self._transactions = core
        self._deliver = deliver
        self._publish = publish
        self._tasks: asyncio.TaskGroup | None = None
        self._deliveries: dict[asyncio.Task[None], None] = {}
        """Of the markers of transactions that are ending, in the order in which they began."""

    async def ask(self, request: Asks[Answered]) -> Answered:
        """The core's answer, however long it is held. Raises the core's refusal."""
        return await self._asked(lambda call: self._transactions.handle(call, request, self._now()))

    def needs_producer_id(self, request: Asks[Any]) -> bool:
        """As the core's. Raises NotCoordinator, CoordinatorLoading."""
        self.check()
        return self._transactions.needs_producer_id(request)

    def states(self) -> Iterable[TransactionState]:
        """The state of each known transactional id."""
        return self._transactions.states()

    @property
    def open_partitions(self) -> int:
        """Of all transactions that are open or ending."""
        return self._transactions.open_partitions

    async def run(self) -> None:
        """Reads the log, then runs timers and brings markers to leaders, until the leadership ends."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await super().run()
            finally:
                self._tasks = None
            for delivery in self._deliveries:
                delivery.cancel()

    # --- effects -----------------------------------------------------------------------------

    def _act(self, effect: SendMarkers | Publish) -> None:
        match effect:
            case SendMarkers():
                self._send(effect)
            case Publish(event):
                self._publish(event)

    def _send(self, markers: SendMarkers) -> None:
        if self.ended() or self._tasks is None:
            return  # the next coordinator reads in the log that the transaction is ending
        marked = partial(self._marked, markers)
        delivery = self._tasks.create_task(self._deliver(markers, self.leadership.epoch, marked))
        self._deliveries[delivery] = None
        delivery.add_done_callback(self._deliveries.pop)

    def _marked(self, markers: SendMarkers, partitions: Collection[TopicPartition]) -> None:
        if not self.ended():
            core, now = self._transactions, self._now()
            self._carry_out(core.marked(markers.transactional_id, markers.producer, partitions, now))
