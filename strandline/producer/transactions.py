"""The transactions of one producer: asks the coordinators, and carries out what its core decides.

The end of a transaction is asked for by a task of its own. A caller that is cancelled meanwhile does not
know how the transaction ends, and the next one begins after that end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

from strandline.adapters.codecs.groups import TXN_OFFSET_COMMIT
from strandline.adapters.codecs.transactions import (
    END_TRANSACTION,
    FIND_TRANSACTION_COORDINATOR,
    INIT_TRANSACTIONS,
)
from strandline.client import arguments
from strandline.client.cluster import TOPIC_WAIT_MS, Cluster
from strandline.client.coordinator import Coordinator
from strandline.client.scope import Scope
from strandline.config.producer import ProducerSettings
from strandline.errors import (
    OutcomeUnknown,
    StrandlineError,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicPartition
from strandline.ports import Clock, Transport
from strandline.producer.core.transaction import State, TransactionCore
from strandline.producer.send_buffer import SendBuffer
from strandline.vocabulary.groups import (
    NO_GENERATION,
    NO_MEMBER,
    CommittedOffset,
    GroupMetadata,
    OffsetCommit,
    OffsetLike,
)
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import InitTransactions, TxnOffsetCommit


@dataclass(slots=True)
class _End:
    """The end of one transaction, and why it is not as it was asked for."""

    known: asyncio.Event = field(default_factory=asyncio.Event)
    error: StrandlineError | None = None


class Transactions:
    """For a producer with a `transactional_id`. Requests are repeated for `delivery_timeout_ms`."""

    def __init__(
        self,
        transactional_id: str,
        buffer: SendBuffer,
        *,
        cluster: Cluster,
        transport: Transport,
        settings: ProducerSettings,
        scope: Scope,
        clock: Clock,
    ) -> None:
        self._core = TransactionCore(transactional_id, settings.transaction_timeout_ms)
        self._buffer = buffer
        self._scope = scope
        self._clock = clock
        self._timeout_ms = settings.transaction_timeout_ms
        self._limit_s = settings.delivery_timeout_ms / 1000
        self._finding = partial(
            Coordinator, cluster=cluster, transport=transport, settings=settings, clock=clock
        )
        self._coordinator = self._finding(
            transactional_id, find=FIND_TRANSACTION_COORDINATOR, kind="transactional id"
        )
        self._of_group = self._finding("")
        """Of the group to which offsets were last sent."""
        self._end: _End | None = None
        """The end that is asked for."""
        buffer.may_begin = self._core.use
        buffer.on_failure = self._core.failed

    @property
    def failure(self) -> StrandlineError | None:
        """Why no further transaction can begin; None while one can."""
        return self._core.error if self._core.state is State.OVER else None

    async def start(self) -> ProducerIdentity:
        """Fences earlier producers of the transactional id, whose transaction is aborted. Returns this one's
        identity. Raises TransactionalIdAuthorizationFailed, InvalidTransactionTimeout, InvalidRequest, and
        the last error after `delivery_timeout_ms`."""
        request = InitTransactions(self._core.transactional_id, self._timeout_ms)
        identity = await self._coordinator.ask(
            INIT_TRANSACTIONS, request, "its producer waits for its identity", limit_s=self._limit_s
        )
        self._core.ended(identity)
        return identity

    async def stop(self) -> None:
        """Aborts an open transaction, and waits for the end of one that is ending."""
        self.abort_soon()
        await self._settled()

    async def _settled(self) -> None:
        if self._end is not None:
            await self._end.known.wait()

    # --- one transaction ---------------------------------------------------------------------

    async def begin(self) -> None:
        """Once the last transaction has ended. Raises as `TransactionCore.begin`."""
        self._scope.check()
        await self._settled()
        self._core.begin()

    async def end(self, *, commit: bool) -> None:
        """Returns once the end is decided. A transaction that cannot be committed is aborted.

        Raises TransactionAbortable after that; InvalidTransactionState if no transaction is open; and the
        error after which this producer is over.
        """
        end = self._begin_end(commit=commit)
        await end.known.wait()
        if end.error is not None:
            raise end.error

    def abort_soon(self) -> None:
        """Aborts an open transaction, and waits for nothing."""
        if self._core.state in (State.OPEN, State.FAILED) and self._scope.runs:
            self._begin_end(commit=False)

    def _begin_end(self, *, commit: bool) -> _End:
        self._scope.check()
        self._core.ending()
        end = self._end = _End()
        self._scope.spawn(self._bring_about(end, commit=commit), "end of a transaction")
        return end

    async def _bring_about(self, end: _End, *, commit: bool) -> None:
        try:
            if not (commit and await self._committed(end)):
                self._buffer.abandon()
                await self._ask(commit=False)
        except StrandlineError as error:
            end.error = error
        except asyncio.CancelledError:
            end.error = OutcomeUnknown("the producer was stopped before the end of its transaction was known")
            raise
        finally:
            self._end = None
            end.known.set()

    async def _committed(self, end: _End) -> bool:
        """Commits once everything is delivered; False if the transaction can only be aborted."""
        await self._buffer.flush()
        try:
            await self._ask(commit=True)
        except TransactionAbortable as error:
            end.error = error
        return end.error is None

    async def _ask(self, *, commit: bool) -> None:
        question = self._core.question(commit=commit)
        if question is not None:
            try:
                identity = await self._coordinator.ask(
                    END_TRANSACTION, question, "its transaction waits for its end", limit_s=self._limit_s
                )
            except StrandlineError as error:
                raise self._core.refused(error, commit=commit) from error
            self._core.ended(identity)
        self._buffer.go_on_as(self._core.identity)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetLike], group: GroupMetadata | str
    ) -> None:
        """As `Transaction.send_offsets`."""
        commit = _commit_of(group, arguments.commits(offsets))
        if not commit.offsets:
            return  # no coordinator would know of the transaction
        self._core.use()
        request = TxnOffsetCommit(self._core.transactional_id, self._core.identity, commit)
        if self._of_group.name != commit.group:
            self._of_group = self._finding(commit.group)
        coordinator = self._of_group

        async def send() -> None:
            for error in (await coordinator.call(TXN_OFFSET_COMMIT, request)).values():
                if error is not None:
                    raise error

        unknown_until = self._clock.monotonic() + TOPIC_WAIT_MS / 1000

        def passes(error: StrandlineError) -> bool:
            """A partition that a broker does not know yet may be new, and is there soon, or never."""
            missing = isinstance(error, UnknownTopicOrPartition)
            return error.retriable and not (missing and self._clock.monotonic() >= unknown_until)

        try:
            await coordinator.asked(
                send, "offsets of a transaction wait", limit_s=self._limit_s, retriable=passes
            )
        except StrandlineError as error:
            raise self._core.failed(error) from error
        except asyncio.CancelledError:
            self._core.failed(OutcomeUnknown("the caller did not wait for the answer to its offsets"))
            raise


class Transaction:
    """One transaction of a producer, as an asynchronous context: see `Producer.transaction`."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._aborted = False

    async def __aenter__(self) -> Self:
        await self._transactions.begin()
        return self

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetLike], group: GroupMetadata | str
    ) -> None:
        """Commit these offsets to the group if the transaction is committed: each is that of the next record
        to read, as in `Consumer.commit`.

        `group`: the consumer's `group_metadata()`, so that a member that has lost its partitions is refused;
        or only the group's name, for a consumer that assigns its partitions by hand. After an error the
        transaction can only be aborted: IllegalGeneration, UnknownMemberId, FencedInstanceId,
        GroupAuthorizationFailed, UnknownTopicOrPartition, TransactionAbortable if the transaction has ended
        meanwhile, and the last one after `delivery_timeout_ms`.
        """
        await self._transactions.send_offsets(offsets, group)

    async def abort(self) -> None:
        """Abort now; the block ends without a commit. Raises as the block's end."""
        self._aborted = True
        await self._transactions.end(commit=False)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._aborted:
            return
        if error is None:
            await self._transactions.end(commit=True)
        elif isinstance(error, Exception):
            await self._abort_for(error)
        else:  # a cancelled caller must not wait for brokers
            self._transactions.abort_soon()

    async def _abort_for(self, error: Exception) -> None:
        """The error of the block goes on, unless the cluster says more: that the producer is over."""
        try:
            await self._transactions.end(commit=False)
        except StrandlineError as refused:
            if isinstance(error, StrandlineError):
                raise refused from error
            error.add_note(f"the transaction could not be aborted: {refused}")


def _commit_of(group: GroupMetadata | str, offsets: Mapping[TopicPartition, CommittedOffset]) -> OffsetCommit:
    """Raises InvalidRequest."""
    if isinstance(group, GroupMetadata):
        member = group.group_id, group.member_id, group.generation
        return OffsetCommit(*member, offsets, group.group_instance_id)
    return OffsetCommit(arguments.text("group", group), NO_MEMBER, NO_GENERATION, offsets)
