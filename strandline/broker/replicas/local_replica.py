"""One replica on this broker without its leadership: its log, its high watermark, and what it knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from sys import maxsize

import structlog

from strandline.broker.core.record_steps import Step
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.core.replication.replica_states import ReplicaState, transition
from strandline.broker.events.trail import PartitionTrail
from strandline.broker.replicas.counts import TopicCounts
from strandline.broker.replicas.record_trace import RecordTrace
from strandline.broker.storage.log import PartitionLog
from strandline.errors import OffsetOutOfRange, StorageFailed
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerId, LeaderEpoch, Offset, PartitionKey, TopicPartition
from strandline.vocabulary.metadata import Reassignment
from strandline.vocabulary.state_changes import AskedBy
from strandline.vocabulary.topic_config import TopicConfig

logger = structlog.get_logger(__name__)

OnChange = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Cut:
    """A truncation: `first`..`end` is removed, including `committed` records, unless it is `refused`."""

    first: Offset
    end: Offset
    committed: int
    refused: bool


class LocalReplica:
    """The state of a replica that does not depend on its role. Changed only between awaits."""

    def __init__(
        self,
        name: TopicPartition,
        key: PartitionKey,
        log: PartitionLog,
        config: TopicConfig,
        high_watermark: Offset,
        *,
        trail_events_max: int,
    ) -> None:
        self.name = name
        self.key = key
        self.log = log
        self.config = config
        self.assignment = PartitionAssignment()
        """As last read. A replica never leads by an assignment that is not ZooKeeper's present one
        (CORRECTNESS E16)."""
        self.state = transition(name, ReplicaState.ABSENT, ReplicaState.STARTING)
        self.leader: BrokerId = NO_BROKER
        self.leader_epoch: LeaderEpoch = NO_EPOCH
        """The highest epoch known here. Never decreases."""
        self.yielded_epoch: LeaderEpoch = NO_EPOCH
        """The last epoch that this broker led and handed to another broker."""
        self.led_epoch: LeaderEpoch = NO_EPOCH
        """The last epoch that this broker led to its end, whichever broker leads next."""
        self.high_watermark = Offset(max(log.log_start_offset, min(high_watermark, log.log_end_offset)))
        """Never above the LEO; decreases only in an unclean truncation."""
        self.watermark_known: Offset = high_watermark
        """The highest HW ever known here. It is above the LEO if a power loss took committed records."""
        self.leader_watermark = Offset(-1)
        """The HW that the leader told last; this log may end below it. -1: none did."""
        self.kept_from = Offset(0)
        """What its present leader said last: from here on a replica that is not in sync may lack records."""
        self.on_lowered: Callable[[], None] = lambda: None
        """Called when the HW may have decreased, before anything is appended (CORRECTNESS H7)."""
        self.traffic_at = float("-inf")
        """When records came, or a client wanted to append some, for the last time; -inf: never in this
        process."""
        self.lossy_epoch: LeaderEpoch = NO_EPOCH
        """The last epoch whose leader may lack committed records, as far as known here."""
        self.unclean_by: AskedBy | None = None
        """The caller that asked for the unclean election of `unclean_permit`."""
        self.unclean_permit: LeaderEpoch = NO_EPOCH
        """The epoch after which an operator allowed an election of this replica, with a loss."""
        self.trail = PartitionTrail(name, trail_events_max)
        self.counts = TopicCounts()
        """Shared with the other replicas of its topic, once it is among them."""
        self.trace: RecordTrace | None = None
        """None: no record is traced."""
        self._listeners: dict[OnChange, None] = {}
        """In the order in which they are called."""

    def become(self, wanted: ReplicaState) -> None:
        """Changes the state; raises IllegalTransition for an illegal change."""
        self.state = transition(self.name, self.state, wanted)

    def reopened(self, log: PartitionLog) -> None:
        """Sets the log of a replica that was closed."""
        self.log = log
        self.high_watermark = Offset(max(log.log_start_offset, min(self.high_watermark, log.log_end_offset)))
        self.on_lowered()

    @property
    def assigned(self) -> tuple[BrokerId, ...]:
        """AR, in order."""
        return self.assignment.replicas

    @property
    def reassignment(self) -> Reassignment | None:
        """The reassignment of the partition, if there is one."""
        return self.assignment.reassignment

    @property
    def whole(self) -> bool:
        """True if this log may lead: neither corrupt nor failed (CORRECTNESS E14, E15)."""
        return self.log.corrupt is None and self.log.failed is None

    # --- listeners -------------------------------------------------------------------------

    def listen(self, listener: OnChange) -> None:
        """Calls `listener` whenever the HW moves, the leader changes or the replica closes."""
        self._listeners[listener] = None

    def unlisten(self, listener: OnChange) -> None:
        self._listeners.pop(listener, None)

    def announce(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    def raise_watermark(self, high_watermark: Offset) -> None:
        """Raises the HW, as far as the log reaches; a lower value changes nothing."""
        reached = Offset(min(high_watermark, self.log.log_end_offset))
        if reached > self.high_watermark:
            if self.trace is not None:
                self.trace.passed(Step.COMMITTED, self.high_watermark, reached)
            self.high_watermark = reached
            self.log.producers.transactions.committed(reached)
            self.announce()

    def learn_leader(self, leader: BrokerId, epoch: LeaderEpoch) -> bool:
        """Notes a leader. Returns False if a higher epoch is known already."""
        if epoch < self.leader_epoch:
            return False
        changed = (leader, epoch) != (self.leader, self.leader_epoch)
        self.leader, self.leader_epoch = leader, epoch
        if changed:
            self.announce()
        return True

    def learn_loss(self, lossy_epoch: LeaderEpoch) -> None:
        """Notes that the leader of this epoch may lack committed records. Records known to be committed
        before may be lost."""
        if lossy_epoch > self.lossy_epoch:
            self.lossy_epoch = lossy_epoch
            if lossy_epoch > self.log.last_epoch:
                self.watermark_known = self.high_watermark

    # --- the log, as followers change it ----------------------------------------------------

    def cut_at(self, offset: Offset) -> Cut:
        """The effect that `truncate` to this offset would have."""
        return Cut(
            first=offset,
            end=Offset(self.log.log_end_offset),
            committed=max(0, self.high_watermark - offset),
            refused=offset < self.high_watermark and not self._may_lose_committed(),
        )

    def _may_lose_committed(self) -> bool:
        """True if unclean elections are allowed, or there was one since the last record here."""
        return self.config.unclean_leader_election_enable or self.lossy_epoch > self.log.last_epoch

    def truncate(self, offset: Offset) -> None:
        """Removes the records that diverge from the leader's log.

        Without unclean elections nothing below the HW is ever removed: it would be a committed record, so the
        replica fails instead of losing it silently (CORRECTNESS T11). After an unclean election the loss is
        reported as an exact range.
        """
        cut = self.cut_at(offset)
        if cut.committed:
            if cut.refused:
                logger.critical(
                    "refusing to truncate below the high watermark",
                    partition=str(self.name),
                    to=offset,
                    high_watermark=self.high_watermark,
                    log_end=cut.end,
                )
                raise StorageFailed(
                    f"{self.name}: the leader of epoch {self.leader_epoch} lacks committed records "
                    f"{offset}..{self.high_watermark}; this replica keeps them and stops"
                )
            logger.error(
                "unclean election lost committed records",
                partition=str(self.name),
                first=offset,
                end=self.high_watermark,
                count=cut.committed,
                epoch=self.leader_epoch,
            )
        if offset < cut.end:
            logger.info(
                "truncating", partition=str(self.name), first=offset, end=cut.end, epoch=self.leader_epoch
            )
        self.log.cutting.truncate_to(offset)
        self.counts.truncated_records += max(0, cut.end - offset)
        self.counts.lost_records += cut.committed
        self.high_watermark = Offset(min(self.high_watermark, self.log.log_end_offset))
        if cut.committed:
            self.watermark_known = self.high_watermark
            self.on_lowered()
        self.announce()  # fetch sessions look at it again

    def restart_at(self, offset: Offset) -> None:
        """Drops all records, and begins anew where the leader's log begins (H7)."""
        logger.warning(
            "the leader no longer has what follows here: starting over",
            partition=str(self.name),
            log_end=self.log.log_end_offset,
            offset=offset,
        )
        self.log.cutting.reset_to(offset)
        self.high_watermark = offset
        self.on_lowered()
        self.announce()

    # --- reads ------------------------------------------------------------------------------

    @property
    def stable_offset(self) -> Offset:
        """LSO: all transactions with records below it are decided. Never above the HW."""
        transactions = self.log.producers.transactions
        return Offset(transactions.stable_offset(self.high_watermark, self.log.log_start_offset))

    def readable_end(self, *, stable: bool) -> Offset:
        """The end of what a reader may see: of decided transactions only, if it wants what is `stable`."""
        return self.stable_offset if stable else self.high_watermark

    def has(self, offset: int, *, stable: bool = False) -> bool:
        """True if a reader may see the record at an offset. Raises OffsetOutOfRange."""
        start, end = self.log.log_start_offset, self.log.log_end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRange(f"offset {offset} of {self.name} is outside {start}..{end}")
        return offset < self.readable_end(stable=stable)

    def read(self, offset: int, bytes_max: int) -> bytes:
        """The batches of `read_range`."""
        return self.read_range(offset, bytes_max)[0]

    def read_range(
        self, offset: int, bytes_max: int, *, batch_bytes_max: int = maxsize, stable: bool = False
    ) -> tuple[bytes, int]:
        """Whole batches that a reader may see, and where they end; see `PartitionLog.read_range`. Raises
        OffsetOutOfRange, StorageFailed."""
        below = self.readable_end(stable=stable)  # once per read (H8)
        if not self.has(offset, stable=stable):
            return b"", offset
        return self.log.read_range(offset, bytes_max, below=below, batch_bytes_max=batch_bytes_max)
