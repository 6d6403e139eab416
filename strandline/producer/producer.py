"""The producer: accepts records, sends them in batches, and reports the end of each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ClassVar, TypeVar

from strandline.adapters.system_host import client_host
from strandline.client import arguments
from strandline.client.client import Client
from strandline.client.metrics import ClientMetric
from strandline.config.load import load
from strandline.config.producer import ProducerSettings
from strandline.errors import InvalidRequest, MessageTooLarge, StrandlineError
from strandline.host import Host
from strandline.ids import NO_EPOCH, TopicPartition
from strandline.producer.bulk import (
    Pieces,
    column_of,
    headers_size,
    not_bytes,
    one_batch,
    rows_of,
    timestamp_of,
    too_large,
)
from strandline.producer.core.batch import RECORD_OVERHEAD_MAX, Batch, unseal
from strandline.producer.identity import new_identity
from strandline.producer.measures import PRODUCER_METRICS
from strandline.producer.record_future import RecordFuture
from strandline.producer.routes import Route
from strandline.producer.send_buffer import Queue, SendBuffer
from strandline.producer.tickets import (
    BatchMetadata,
    BatchTicket,
    Bulk,
    BulkMetadata,
    RecordMetadata,
    Ticket,
)
from strandline.producer.topics import Topics, number_of
from strandline.producer.transactions import Transaction, Transactions
from strandline.records import HEADER_BYTES, RecordFields
from strandline.vocabulary.log import ProducerIdentity

logger = logging.getLogger(__name__)

T = TypeVar("T")

Headers = Sequence[tuple[str, bytes | None]]


class Producer(Client[ProducerSettings]):
    """Sends records to a cluster.

    `bootstrap` is `host:port`, several with commas or as a sequence; any of them may be dead. `settings`
    are those of `ProducerSettings`. It is idempotent by default, if acks is all.

    Futures end with metadata or with a StrandlineError. Its `outcome` says whether the records were appended:
    *retriable* and *fatal* mean that they were not, *unknown* that they may have been.
    """

    METRICS: ClassVar[tuple[ClientMetric, ...]] = PRODUCER_METRICS
    """The metrics of `metrics()`."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        host: Host | None = None,
        **settings: Any,
    ) -> None:
        given = load(ProducerSettings, **settings)
        host = client_host(given, host)
        super().__init__("producer", bootstrap, given, host.transport(None), host.clock)
        self._wall_ms = self._clock.wall_ms
        self._buffer = SendBuffer(self._cluster, self._settings, self._scope, self._clock)
        self._topics = Topics(
            self._cluster,
            self._buffer.accumulator,
            self._settings,
            self._scope,
            self._clock,
            self._leader_changed,
            self._buffer.carry_out,
        )
        self._routes = self._topics.known
        self._transactions: Transactions | None = None
        if given.transactional_id is not None:
            self._transactions = Transactions(
                given.transactional_id,
                self._buffer,
                cluster=self._cluster,
                transport=self._transport,
                settings=given,
                scope=self._scope,
                clock=self._clock,
            )

    # --- life --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises BrokerNotAvailable if no broker of the bootstrap answers; with a `transactional_id` as
        `Transactions.start`."""
        self._loop = asyncio.get_running_loop()
        await super().start()
        self._cluster.on_topic(self._topics.learned)
        self._cluster.on_change(self._leader_changed)
        try:
            self._buffer.start(await self._identity())
        except BaseException:
            await self._close()
            raise

    async def _identity(self) -> ProducerIdentity | None:
        if self._transactions is not None:
            return await self._transactions.start()
        if not self._buffer.accumulator.idempotent:
            return None
        limit_s = self._settings.request_timeout_ms / 1000
        return await new_identity(self._cluster, self._settings, self._clock, limit_s)

    async def stop(self, *, timeout_s: float | None = None) -> None:
        """Flush and close. Records that have not ended after `timeout_s` fail; without it each ends within
        `delivery_timeout_ms`. An open transaction is aborted."""
        try:
            async with asyncio.timeout(timeout_s):
                if self._transactions is not None:
                    await self._transactions.stop()
                await self.flush()
                if self._settings.acks == 0:
                    await self._buffer.finish()
        except TimeoutError:
            logger.warning("stopped before everything was answered")
        finally:
            await self._close()

    async def _close(self) -> None:
        try:
            await super().stop()
        finally:
            self._give_up()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A cancelled caller must not wait for brokers.
        hurried = kind is not None and not issubclass(kind, Exception)
        await self.stop(timeout_s=0 if hurried else None)

    def _failed(self, error: BaseException) -> None:
        super()._failed(error)
        self._give_up(error)

    def _give_up(self, error: BaseException | None = None) -> None:
        """End every call and every record that waits. `error`: why the producer failed."""
        self._topics.give_up(error)
        self._buffer.give_up()

    # --- transactions ------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """`async with producer.transaction() as tx:` is one transaction (KIP-98): what is sent in the block,
        to any topics, and the offsets of `tx.send_offsets` are committed together at its end, or aborted
        after an exception. A reader with `isolation_level="read_committed"` sees all of it, or nothing.

        One is open at a time, and nothing is sent outside of it. Await the calls of `send` within the block;
        their futures need not be awaited. Calls in the block raise TransactionAbortable once the transaction
        can only be aborted. The end raises

        TransactionAbortable   a record was not delivered, or the transaction took longer than
                               `transaction_timeout_ms`; it is aborted, and the next one may begin
        ProducerFenced         another producer has the transactional id: this one is over
        OutcomeUnknown         no coordinator has answered for `delivery_timeout_ms`: this producer is over,
                               and the next one with its transactional id finds the transaction ended
        InvalidTransactionState, InvalidProducerIdMapping, TransactionalIdAuthorizationFailed
                               this producer is over

        A block that is cancelled is aborted in the background. Raises InvalidRequest without a
        `transactional_id`.
        """
        if self._transactions is None:
            raise InvalidRequest("this producer has no transactions: give it a transactional_id")
        return Transaction(self._transactions)

    # --- sending -----------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> asyncio.Future[RecordMetadata]:
        """Put one record into a batch; the future ends with the batch.

        Without `partition` the key decides (murmur2, as in Kafka's clients), and without a key the
        partitions take turns, batch by batch. Waits while `buffer_bytes` are in flight or waiting, and for
        the metadata of a topic that is new to this producer. Raises UnknownTopicOrPartition,
        BrokerNotAvailable, MessageTooLarge, InvalidRequest for a timestamp or a partition, TypeError.
        """
        route = self._routes.get(topic)
        size = RECORD_OVERHEAD_MAX
        if isinstance(value, bytes):
            size += len(value)
        elif value is not None:
            raise not_bytes("value", value)
        if key is not None:
            if not isinstance(key, bytes):
                raise not_bytes("key", key)
            size += len(key)
        if headers != ():
            size += headers_size(headers)
        if timestamp_ms is not None:
            timestamp_ms = timestamp_of(timestamp_ms)
        buffer = self._buffer
        if buffer.used >= buffer.bytes_max:
            await buffer.wait_for_room()
        if route is None:
            now_ms = self._wall_ms() if timestamp_ms is None else timestamp_ms
            first = await self._send_first(topic, (key, value, headers, now_ms), size, partition)
            if first is not None:
                return first
            route = self._routes[topic]
        if partition is not None:
            queue = await self._topics.chosen(route, partition)
        elif key is not None:
            queue = route.keyed(key)
        else:
            queue = route.sticky
        batch, full = queue.open, False
        if batch is None or batch.size + size > queue.size_max:
            if HEADER_BYTES + size > route.bytes_max and await self._topics.takes_more(route):
                return await self.send(
                    topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
                )
            full = batch is not None
            batch = self._next_batch(route, queue, size, takes_turns=partition is None and key is None)
        batch.size += size
        buffer.used += size
        records = batch.records
        future = RecordFuture(batch.ticket, len(records))  # type: ignore[arg-type]  # an open batch has this kind
        records.append((key, value, headers, self._wall_ms() if timestamp_ms is None else timestamp_ms))
        if full:
            # A caller that never waits lets the full batch go out here.
            await asyncio.sleep(0)
        return future

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """`send`, and its result."""
        return await (
            await self.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        )

    async def send_many(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int | None = None,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers] | None = None,
        timestamps_ms: Sequence[int] | None = None,
    ) -> asyncio.Future[BulkMetadata]:
        """Send many records, with one future for all. This is the fastest way.

        Without `partition` and a key the partitions take turns: batch by batch if there are only values, else
        call by call. Order is kept within a partition. Waits and raises as `send`; a failure of some batches
        only is BulkSendFailed.
        """
        values = column_of("values", values)
        route = self._routes.get(topic) or await self._route(topic)
        now_ms, codec = self._clock.wall_ms(), self._buffer.accumulator.codec

        def pieces() -> Pieces:
            return Pieces(now_ms, route.size_max, route.bytes_max, codec)

        chosen = None if partition is None else await self._topics.chosen(route, partition)
        bulk = Bulk(topic, len(values), self._loop.create_future())
        if keys is None and headers is None and timestamps_ms is None:
            for packed in await self._fitting(route, lambda: pieces().of_values(values)):
                await self._buffer.add(chosen or route.next(), packed, bulk.part())
        else:
            rows = rows_of(values, keys, headers, timestamps_ms, now_ms)
            groups = route.grouped(rows, chosen)
            checked = await self._fitting(
                route, lambda: [(queue, pieces().of_records(records)) for queue, records in groups]
            )
            for queue, batches in checked:
                for packed in batches:
                    await self._buffer.add(queue, packed, bulk.part())
        bulk.close()
        return bulk.future

    async def send_batch(self, topic: str, partition: int, batch: bytes) -> asyncio.Future[BatchMetadata]:
        """Send one encoded batch (a RecordBatch v2 without producer id) unchanged.

        Waits and raises as `send`, and CorruptMessage, InvalidRecord.
        """
        route = self._routes.get(topic) or await self._route(topic)
        packed = unseal(batch)
        if packed.size > route.bytes_max:
            await self._topics.takes_more(route)
        if packed.size > route.bytes_max:
            raise too_large(f"batch of {packed.size} bytes", route.bytes_max)
        future: asyncio.Future[BatchMetadata] = self._loop.create_future()
        await self._buffer.add(await self._topics.chosen(route, partition), packed, BatchTicket(future))
        return future

    async def send_records(
        self,
        topic: str,
        partition: int,
        records: Sequence[RecordFields],
        *,
        expected_offset: int | None = None,
    ) -> asyncio.Future[BatchMetadata]:
        """Send (key, value, headers, timestamp in ms) records as exactly one batch: all of them, or none.

        With `expected_offset` they are appended only if the partition's log ends at this offset; otherwise
        the future ends with UnexpectedOffset. If several writers expect the same offset, at most one
        succeeds. The end of a log is its `log_end_offset`, which may be above the high watermark.
        Waits and raises as `send`, and InvalidRequest.
        """
        if expected_offset is not None:
            expected_offset = arguments.whole("expected_offset", expected_offset, 0, arguments.INT64_MAX)
            if self._settings.acks == 0:
                raise InvalidRequest(
                    f"expected_offset = {expected_offset}: with acks=0 no answer would report the refusal"
                )
        route = self._routes.get(topic) or await self._route(topic)
        codec = self._buffer.accumulator.codec
        packed = await self._fitting(
            route, lambda: one_batch(records, bytes_max=route.bytes_max, codec=codec)
        )
        future: asyncio.Future[BatchMetadata] = self._loop.create_future()
        await self._buffer.add(
            await self._topics.chosen(route, partition), packed, BatchTicket(future), expected_offset
        )
        return future

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The latest leader epoch of a partition that this producer knows of; -1 if it knows none."""
        leader = self._cluster.leader(arguments.partition(partition))
        return NO_EPOCH if leader is None else leader.epoch

    async def flush(self) -> None:
        """Send the open batches, and wait until every record so far is acknowledged or has failed."""
        await self._buffer.flush()

    @property
    def failure(self) -> StrandlineError | None:
        """Why a gapless producer no longer sends to some partition, or why one with a `transactional_id` can
        begin no further transaction; None while it sends to all."""
        if self._transactions is not None:
            return self._transactions.failure
        if not self._settings.gapless:
            return None
        return next((queue.gap.error for queue in self._buffer.accumulator if queue.gap is not None), None)

    def metrics(self) -> dict[str, float]:
        """What this producer measures, by Kafka's names: those of `METRICS`. From any thread."""
        return self._buffer.measured()

    # --- routes and batches ------------------------------------------------------------------

    async def _fitting(self, route: Route[Ticket], pack: Callable[[], T]) -> T:
        """What `pack` returns. If the records are too large for the limit that is known, it is called again
        with a higher one that the topic may have by now."""
        try:
            return pack()
        except MessageTooLarge:
            if not await self._topics.takes_more(route):
                raise
        return pack()

    async def _route(self, topic: str) -> Route[Ticket]:
        return await self._topics.call(topic, lambda route: route)

    async def _send_first(
        self, topic: str, record: RecordFields, size: int, partition: int | None
    ) -> RecordFuture | None:
        """`send` to a topic that is new to this producer; None if its metadata lacks the partition. The
        record counts as buffered while it waits."""
        self._buffer.used += size
        try:
            return await self._topics.call(topic, lambda route: self._put(route, record, size, partition))
        finally:
            self._buffer.free(size)

    def _put(
        self, route: Route[Ticket], record: RecordFields, size: int, partition: int | None
    ) -> RecordFuture | None:
        """What `send` does with a record once its topic is known: there each record costs no further call."""
        if partition is None:
            queue = route.sticky if record[0] is None else route.keyed(record[0])
        elif (number := number_of(partition)) < len(route.queues):
            queue = route.chosen(number)
        else:
            return None
        batch = queue.open
        if batch is None or batch.size + size > queue.size_max:
            batch = self._next_batch(route, queue, size, takes_turns=partition is None and record[0] is None)
        batch.size += size
        self._buffer.used += size
        batch.records.append(record)
        return RecordFuture(batch.ticket, len(batch.records) - 1)  # type: ignore[arg-type]  # as in `send`

    def _next_batch(
        self, route: Route[Ticket], queue: Queue, size: int, *, takes_turns: bool
    ) -> Batch[Ticket]:
        """A new open batch for a record of this size; of the next partition if partitions take turns. Raises
        MessageTooLarge."""
        if HEADER_BYTES + size > route.bytes_max:
            raise too_large(f"record of {size} bytes", route.bytes_max)
        return self._buffer.begin(route.next() if takes_turns and queue.begun else queue)

    def _leader_changed(self, name: TopicPartition) -> None:
        queue = self._topics.grown(name) or self._buffer.accumulator.find(name)
        leader = self._cluster.leader(name)
        if queue is not None and leader is not None:
            self._buffer.led(queue, leader.broker, leader.epoch)
