"""For tools: the transactions that are open in the logs that this broker leads, and markers that end them
without a coordinator (KIP-664)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from strandline.broker.core.replication.producer_state import ProducerState
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.broker.transactions.marker_writes import MarkerWrites, settle
from strandline.config.limits import MARKERS_PER_CALL_MAX, OPEN_IN_LOG_SHOWN_MAX
from strandline.errors import InvalidRequest, InvalidTransactionState, StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.acls import CLUSTER_NAME
from strandline.security.rights import ALTER_CLUSTER, CLUSTER_ACTION, DESCRIBE_TOPIC
from strandline.serving.unfinished import unfinished_noted
from strandline.tasks import in_slices
from strandline.vocabulary.log import ProducerIdentity, topic_of
from strandline.vocabulary.transactions import (
    AbortInLog,
    LogQuery,
    LogTransactions,
    Marker,
    MarkerEntry,
    OpenInLog,
)


class LogTools:
    """What administrators do with the logs of one broker. `replica` raises what refuses a partition."""

    def __init__(
        self,
        manager: ReplicaManager,
        replica: Callable[[TopicPartition], Replica],
        writes: MarkerWrites,
        access: Access,
    ) -> None:
        self._manager = manager
        self._replica = replica
        self._writes = writes
        self._access = access

    async def describe(self, wanted: Sequence[LogQuery], caller: Caller) -> list[LogTransactions]:
        """What is open in these logs, as far as this broker leads them."""
        split = self._access.split(caller, DESCRIBE_TOPIC, wanted, topic_of)
        found = await in_slices(lambda each: self._described(each.name), split.allowed, self._manager.clock)
        return split.whole(found, lambda asked, error: LogTransactions(asked.name, error))

    def _described(self, name: TopicPartition) -> LogTransactions:
        try:
            replica = self._replica(name)
        except StrandlineError as error:
            return LogTransactions(name, error)
        try:
            leadership = replica.led()
        except StrandlineError as error:
            return LogTransactions(name, self._manager.with_hint(error, replica))
        producers, known = replica.log.producers, leadership.core.knows_watermark
        return LogTransactions(
            name,
            None,
            replica.stable_offset if known else -1,
            replica.high_watermark if known else -1,
            len(producers.transactions),
            tuple(heapq.nsmallest(OPEN_IN_LOG_SHOWN_MAX, open_in(producers), key=_first_offset)),
        )

    async def abort(self, request: AbortInLog, caller: Caller) -> None:
        """Writes an abort marker for the transaction that begins at this offset; answered once that is
        committed. Raises ClusterAuthorizationFailed, InvalidTransactionState if none begins there, and as
        `Leadership.produce_marker`."""
        self._access.check(caller, ALTER_CLUSTER)
        name, offset = request.name, request.first_offset

        def noted(error: StrandlineError | None = None) -> None:
            where = {"topic": name.topic, "partition": name.partition, "first_offset": offset}
            self._access.changed(caller, ALTER_CLUSTER, CLUSTER_NAME, error, **where)

        with unfinished_noted(noted):
            outcome = self._writes.begin(MarkerEntry(name, self._abort_of(name, offset)))
            await settle([outcome])
            if (error := outcome.result()) is not None:
                raise error
        noted()

    def _abort_of(self, name: TopicPartition, offset: int) -> Marker:
        replica = self._replica(name)
        try:
            replica.led()
        except StrandlineError as error:
            raise self._manager.with_hint(error, replica) from None
        for each in open_in(replica.log.producers):
            if each.first_offset == offset:
                return Marker(each.producer, False, max(each.coordinator_epoch, 0))
        raise InvalidTransactionState(f"no transaction that is open in {name} begins at offset {offset}")

    async def write_markers(
        self, entries: Sequence[MarkerEntry], caller: Caller
    ) -> list[StrandlineError | None]:
        """Writes these markers, as those of any coordinator: for each, None once it is committed, or the
        error. For administrators, as in Kafka 4, and for principals with CLUSTER_ACTION. Raises
        ClusterAuthorizationFailed, InvalidRequest."""
        right = ALTER_CLUSTER if self._access.allowed(caller, ALTER_CLUSTER) else CLUSTER_ACTION
        self._access.check(caller, right)
        if len(entries) > MARKERS_PER_CALL_MAX:
            raise InvalidRequest(
                f"{len(entries)} markers at once, more than {MARKERS_PER_CALL_MAX}",
                limit=MARKERS_PER_CALL_MAX,
            )

        def noted(error: StrandlineError | None = None) -> None:
            names = sorted({str(entry.name) for entry in entries})
            self._access.changed(caller, right, CLUSTER_NAME, error, markers=names)

        with unfinished_noted(noted):
            outcomes = await in_slices(self._writes.begin, entries, self._manager.clock)
            await settle(outcomes)
        results = [outcome.result() for outcome in outcomes]
        noted(next((error for error in results if error is not None), None))
        return results


def open_in(producers: ProducerState) -> list[OpenInLog]:
    """The open transactions of a log. Their markers need an epoch that is not below the producer's."""
    found = []
    for producer_id, opened in producers.transactions:
        known = producers.of(producer_id)
        epoch, coordinator = (opened.epoch, -1) if known is None else (known.epoch, known.coordinator_epoch)
        producer = ProducerIdentity(producer_id, max(epoch, opened.epoch))
        found.append(OpenInLog(producer, opened.first_offset, opened.began_ms, coordinator))
    return found


def _first_offset(opened: OpenInLog) -> int:
    return opened.first_offset
