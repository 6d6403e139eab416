"""Assembles a broker's parts for transactions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import structlog

from strandline.adapters.codecs.transactions import ADMIT_PARTITIONS, WRITE_MARKERS
from strandline.broker.coordinators.finding import CoordinatorFinder
from strandline.broker.core.transactions.effects import AbortReason, EventKind, TransactionEvent
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.metadata.internal_topics import InternalTopics, transactions_topic
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.transactions.admission import ANSWER_SLACK_S, TransactionAdmission
from strandline.broker.transactions.coordinators import TransactionCoordinators
from strandline.broker.transactions.handlers import PlaceOfGroup, TransactionHandlers
from strandline.broker.transactions.log_markers import LogMarkers
from strandline.broker.transactions.log_tools import LogTools
from strandline.broker.transactions.marker_sender import MarkerSender
from strandline.broker.transactions.marker_writes import MARKER_CALL_S, MarkerWrites
from strandline.broker.transactions.partition import TRANSACTIONS
from strandline.broker.transactions.peer_calls import sending
from strandline.broker.transactions.places import PartitionPlaces
from strandline.broker.transactions.rights import TransactionRights
from strandline.config.services.broker import BrokerSettings
from strandline.ports import Transport
from strandline.security.access import Access
from strandline.vocabulary.transactions import AdmissionBatch, MarkerBatch, TransactionState

logger = structlog.get_logger(__name__)


class Transactions:
    """`run` is its task."""

    def __init__(
        self,
        manager: ReplicaManager,
        view: ClusterView,
        topics: InternalTopics,
        writer: LogMarkers,
        place_of_group: PlaceOfGroup,
        new_producer_id: Callable[[], Awaitable[int]],
        settings: BrokerSettings,
        holds_lease: Callable[[], bool],
        transport: Transport,
        access: Access,
    ) -> None:
        self.events: Counter[EventKind] = Counter()
        """What happened to transactions that are coordinated here."""
        self.writes = MarkerWrites(writer, access, manager.clock)
        self.logs = LogTools(manager, writer.replica, self.writes, access)
        send_markers = sending(manager, transport, WRITE_MARKERS, MarkerBatch, MARKER_CALL_S)
        places = PartitionPlaces(manager, view)
        self._sender = MarkerSender(manager.me, places.of, self.writes, send_markers, manager.clock)
        self._coordinators = TransactionCoordinators(
            manager, settings, self._sender.deliver, self._publish, holds_lease
        )
        manager.watchers.append(self._coordinators)
        finder = CoordinatorFinder(
            TRANSACTIONS, manager, view, self._coordinators, topics, transactions_topic(settings)
        )
        self.handlers = TransactionHandlers(
            self._coordinators,
            finder,
            view.missing,
            place_of_group,
            new_producer_id,
            access,
            manager.clock,
            settings.transaction_partitions_max,
        )
        answer_s = settings.transaction_append_timeout_ms / 1000 + ANSWER_SLACK_S
        send_questions = sending(manager, transport, ADMIT_PARTITIONS, AdmissionBatch, answer_s)
        self.admission = TransactionAdmission(manager.me, finder, send_questions, manager.clock)
        self.rights = TransactionRights(manager, self.admission)

    async def run(self) -> None:
        """Runs coordinators, markers and admissions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._coordinators.run())
            tasks.create_task(self._sender.run())
            tasks.create_task(self.admission.run())

    def count(self) -> Counter[TransactionState]:
        """Transactional ids coordinated here, by state."""
        return Counter(state for partition in self._coordinators for state in partition.states())

    @property
    def loading(self) -> int:
        """Partitions of which this broker has to read the transactions yet, or cannot read them."""
        return sum(not partition.active for partition in self._coordinators)

    @property
    def open_partitions(self) -> int:
        """Partitions of the transactions that are open or ending here."""
        return sum(partition.open_partitions for partition in self._coordinators)

    def _publish(self, event: TransactionEvent) -> None:
        self.events[event.kind] += 1
        if event.reason in (AbortReason.TIMEOUT, AbortReason.ADMINISTRATOR):
            logger.info(
                "a transaction is aborted",
                transactional_id=event.transactional_id,
                producer_id=event.producer.producer_id,
                reason=event.reason.value,
            )
