"""Lists, describes and aborts transactions for the admin client, and finds those that hang."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from strandline.adapters.codecs.transactions import (
    ABORT_IN_LOG,
    ABORT_TRANSACTION,
    DESCRIBE_LOGS,
    DESCRIBE_TRANSACTION,
    FIND_TRANSACTION_COORDINATOR,
    LIST_TRANSACTIONS,
)
from strandline.client.cluster import Cluster
from strandline.client.coordinator import Coordinator
from strandline.client.leaders import Questions, ask_leaders
from strandline.client.retry import retry
from strandline.config.client import ClientSettings
from strandline.config.limits import LOGS_PER_CALL_MAX
from strandline.errors import (
    CoordinatorNotAvailable,
    InvalidTransactionState,
    Outcome,
    StrandlineError,
    TopicAuthorizationFailed,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from strandline.ids import NO_BROKER, TRANSACTIONS_TOPIC, TopicPartition
from strandline.ports import Clock, Method, Response, Transport
from strandline.vocabulary.log import MetadataQuery
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint
from strandline.vocabulary.transactions import (
    AbortInLog,
    DescribedTransaction,
    ListedTransaction,
    LogQuery,
    LogTransactions,
    OpenInLog,
    TransactionState,
)

_HOLDING: Final = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
"""The states in which a coordinator will end the transaction in its partitions."""


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator sees it, and the coordinator."""

    transaction: DescribedTransaction
    coordinator: Endpoint


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open in a log, and that no coordinator ends."""

    name: TopicPartition
    opened: OpenInLog


@dataclass(frozen=True, slots=True)
class HangingTransactions:
    """What was found. `unknown`: the partitions whose leaders did not answer, each with the last error."""

    found: Sequence[HangingTransaction]
    unknown: Mapping[TopicPartition, StrandlineError]


_Open = Mapping[tuple[TopicPartition, int], OpenInLog]
"""Open transactions by their places: partition and first offset."""


class TransactionAdmin:
    """The part of `Admin` that concerns transactions.

    Each call retries within the request timeout while a coordinator or a leader moves. So each request may be
    sent twice.
    """

    def __init__(
        self, cluster: Cluster, settings: ClientSettings, transport: Transport, clock: Clock
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._transport = transport
        self._clock = clock

    # --- coordinators ------------------------------------------------------------------------

    async def list_all(self) -> list[ListedTransaction]:
        """The transactional ids of all coordinators that the caller may see, by name. Raises the last error
        if one is missing: a list that lacks its ids would look complete."""
        return await retry(
            self._list_once,
            "the list of transactions waits for a coordinator",
            settings=self._settings,
            clock=self._clock,
            limit_s=self._cluster.request_timeout_s,
        )

    async def _list_once(self) -> list[ListedTransaction]:
        leaders = await self._leaders()
        found = await self._of_all_brokers()
        if leaders is None:
            # What moved to a broker that had answered is found now, unless it moves twice.
            found |= await self._of_all_brokers()
        elif await self._leaders() != leaders:
            raise CoordinatorNotAvailable("coordinators moved while they were asked")
        return [found[transactional_id] for transactional_id in sorted(found)]

    async def _of_all_brokers(self) -> dict[str, ListedTransaction]:
        """What each broker coordinates, by the transactional id."""
        found: dict[str, ListedTransaction] = {}
        cluster = (await self._cluster.ask(MetadataQuery(None))).cluster
        for broker in cluster.brokers:
            for listed in await self._cluster.call(broker.id, LIST_TRANSACTIONS, None):
                found[listed.transactional_id] = listed
        return found

    async def _leaders(self) -> list[tuple[int, int]] | None:
        """The coordinators' brokers and leader epochs, in the order of their partitions; None if the caller
        has no right to see them: it may have rights on ids only."""
        answer = await self._cluster.ask(MetadataQuery((TRANSACTIONS_TOPIC,)))
        error = answer.errors.get(TRANSACTIONS_TOPIC)
        if isinstance(error, TopicAuthorizationFailed):
            return None
        if error is not None and not isinstance(error, UnknownTopicOrPartition):
            raise error
        return _leaders_of(answer.cluster)

    async def describe(self, transactional_id: str) -> TransactionDescription:
        """Raises TransactionalIdNotFound, CoordinatorNotAvailable."""
        found, coordinator = await self._ask(transactional_id, DESCRIBE_TRANSACTION, [])
        return TransactionDescription(found, coordinator)

    async def abort(self, transactional_id: str) -> None:
        """Abort what is open, and fence its producer. Raises TransactionalIdNotFound, InvalidTransactionState
        if nothing is open, CoordinatorNotAvailable."""
        retried: list[StrandlineError] = []
        try:
            await self._ask(transactional_id, ABORT_TRANSACTION, retried)
        except InvalidTransactionState:
            if not _may_be_done(retried):
                raise

    async def _ask(
        self, transactional_id: str, method: Method[str, Response], retried: list[StrandlineError]
    ) -> tuple[Response, Endpoint]:
        """See `Coordinator.answer`. `retried` gets the error of each try that another one follows."""
        coordinator = Coordinator(
            transactional_id,
            cluster=self._cluster,
            transport=self._transport,
            settings=self._settings,
            clock=self._clock,
            find=FIND_TRANSACTION_COORDINATOR,
            kind="transactional id",
        )
        return await coordinator.answer(method, transactional_id, retried.append)

    # --- logs --------------------------------------------------------------------------------

    async def in_logs(
        self, names: Iterable[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, LogTransactions | StrandlineError]:
        """What is open in these logs, or the last error within the timeout."""
        queries = {name: LogQuery(name) for name in names}
        questions = Questions(DESCRIBE_LOGS, queries, LOGS_PER_CALL_MAX)
        return await ask_leaders(self._cluster, questions, self._settings, self._clock, timeout_s=timeout_s)

    async def hanging(self, names: Iterable[TopicPartition]) -> HangingTransactions:
        """Those that are open in these logs before and after the coordinators were asked, and that no
        coordinator ends there. Raises as `list_all`."""
        timeout_s = self._cluster.request_timeout_s
        before = await self.in_logs(names, timeout_s)
        unknown = {name: log for name, log in before.items() if isinstance(log, StrandlineError)}
        opened = _by_place(before)
        if opened:
            held = await self._held({each.producer.producer_id for each in opened.values()})
            opened = {
                at: each for at, each in opened.items() if (each.producer.producer_id, at[0]) not in held
            }
        if opened:
            still = _by_place(await self.in_logs({name for name, _ in opened}, timeout_s))
            opened = {at: still[at] for at in opened if at in still}
        found = [HangingTransaction(name, opened[name, offset]) for name, offset in sorted(opened)]
        return HangingTransactions(found, unknown)

    async def _held(self, producer_ids: Set[int]) -> set[tuple[int, TopicPartition]]:
        """The producers and partitions of the transactions of these producers that coordinators will end."""
        held: set[tuple[int, TopicPartition]] = set()
        for each in await self.list_all():
            if each.producer_id not in producer_ids or each.state not in _HOLDING:
                continue
            try:
                described = (await self.describe(each.transactional_id)).transaction
            except TransactionalIdNotFound:
                continue
            held |= {(described.producer.producer_id, name) for name in described.partitions}
        return held

    async def abort_hanging(self, name: TopicPartition, first_offset: int) -> None:
        """Write an abort marker for the hanging transaction that begins there, and wait until it is
        committed. Raises InvalidTransactionState if none hangs there, and as `hanging`."""
        hanging = await self.hanging([name])
        if name in hanging.unknown:
            raise hanging.unknown[name]
        if all(each.opened.first_offset != first_offset for each in hanging.found):
            raise InvalidTransactionState(
                f"no transaction that begins at offset {first_offset} of {name} hangs: there is none, "
                "or its coordinator has it"
            )
        retried: list[StrandlineError] = []
        try:
            await retry(
                lambda: self._abort_at(AbortInLog(name, first_offset)),
                f"{name} is waited for",
                settings=self._settings,
                clock=self._clock,
                limit_s=self._cluster.request_timeout_s,
                on_retry=retried.append,
            )
        except InvalidTransactionState:
            if not _may_be_done(retried):
                raise

    async def _abort_at(self, request: AbortInLog) -> None:
        leader = await self._cluster.led_by(request.name)
        try:
            await self._cluster.call(leader.broker, ABORT_IN_LOG, request)
        except StrandlineError as error:
            self._cluster.follow(request.name, error)
            raise


def _leaders_of(cluster: ClusterMetadata) -> list[tuple[int, int]]:
    partitions = [
        each for topic in cluster.topics if topic.name == TRANSACTIONS_TOPIC for each in topic.partitions
    ]
    for each in partitions:
        if each.leader == NO_BROKER:
            raise CoordinatorNotAvailable(f"{TRANSACTIONS_TOPIC}-{each.partition} has no leader")
    return [(each.leader, each.leader_epoch) for each in partitions]


def _by_place(logs: Mapping[TopicPartition, LogTransactions | StrandlineError]) -> _Open:
    return {
        (name, each.first_offset): each
        for name, log in logs.items()
        if isinstance(log, LogTransactions)
        for each in log.opened
    }


def _may_be_done(retried: Sequence[StrandlineError]) -> bool:
    """True if a call without an answer may have done it."""
    return any(error.outcome is Outcome.UNKNOWN for error in retried)
