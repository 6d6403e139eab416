"""One replica on this broker: its log, its watermark, and the role it plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from strandline.broker.core.replication.reassignment import Assignment
from strandline.broker.core.replication.replica_states import ReplicaState, transition
from strandline.broker.events.trail import PartitionTrail
from strandline.broker.replicas.counts import TopicCounts
from strandline.broker.storage.log import PartitionLog
from strandline.errors import NotLeaderOrFollower, OffsetOutOfRange, StorageFailed
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerId, LeaderEpoch, Offset, PartitionKey, TopicPartition
from strandline.vocabulary.metadata import Reassignment
from strandline.vocabulary.topic_config import TopicConfig

if TYPE_CHECKING:
    from strandline.broker.replicas.leadership import Leadership

logger = structlog.get_logger(__name__)

Listener = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Cut:
    """`first`..`end` of a log goes, `committed` records among them, unless that is `refused`."""

    first: Offset
    end: Offset
    committed: int
    refused: bool


class Replica:
    """State that belongs to the partition, whoever leads it. Changed only between awaits."""

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
        self.assignment = Assignment()
        """As last read; nothing is led by one that is not ZooKeeper's any more (CORRECTNESS E16)."""
        self.state = transition(name, ReplicaState.ABSENT, ReplicaState.STARTING)
        self.leader: BrokerId = NO_BROKER
        self.leader_epoch: LeaderEpoch = NO_EPOCH
        """The highest epoch known here. Never decreases."""
        self.yielded_epoch: LeaderEpoch = NO_EPOCH
        """The last epoch that this broker led and gave to another one on purpose."""
        self.led_epoch: LeaderEpoch = NO_EPOCH
        """The last epoch that this broker led to its end, whoever is named as the next leader."""
        self.leadership: Leadership | None = None
        self.high_watermark = Offset(max(log.log_start_offset, min(high_watermark, log.log_end_offset)))
        """Never above the LEO; never decreases but by an unclean truncation."""
        self.watermark_known: Offset = high_watermark
        """The highest HW ever known here: above the LEO if a loss of power took committed records."""
        self.lossy_epoch: LeaderEpoch = NO_EPOCH
        """The last epoch whose leader may lack committed records, as far as is known here."""
        self.unclean_permit: LeaderEpoch = NO_EPOCH
        """An operator asked that this replica be elected after this epoch, with a loss."""
        self.trail = PartitionTrail(name, trail_events_max)
        self.counts = TopicCounts()
        """Shared with the other replicas of its topic, once it has a place among them."""
        self._listeners: set[Listener] = set()

    def become(self, wanted: ReplicaState) -> None:
        """Change the state; an illegal change raises IllegalTransition."""
        self.state = transition(self.name, self.state, wanted)

    def reopened(self, log: PartitionLog) -> None:
        """It was closed, and has its log again."""
        self.log = log
        self.high_watermark = Offset(max(log.log_start_offset, min(self.high_watermark, log.log_end_offset)))

    @property
    def assigned(self) -> tuple[BrokerId, ...]:
        """AR, in order."""
        return self.assignment.replicas

    @property
    def reassignment(self) -> Reassignment | None:
        """Where AR is going, if it is."""
        return self.assignment.reassignment

    @property
    def whole(self) -> bool:
        """True if this log may lead: neither corrupt nor failed (CORRECTNESS E14, E15)."""
        return self.log.corrupt is None and self.log.failed is None

    # --- news ------------------------------------------------------------------------------

    def listen(self, listener: Listener) -> None:
        """Call `listener` whenever the watermark moves, the leader changes or the replica closes."""
        self._listeners.add(listener)

    def unlisten(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    def announce(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    def raise_watermark(self, high_watermark: Offset) -> None:
        """Take a higher HW, as far as the log reaches; a lower one changes nothing."""
        reached = Offset(min(high_watermark, self.log.log_end_offset))
        if reached > self.high_watermark:
            self.high_watermark = reached
            self.announce()

    def learn_leader(self, leader: BrokerId, epoch: LeaderEpoch) -> bool:
        """Take note of a leader. False if a higher epoch is known already."""
        if epoch < self.leader_epoch:
            return False
        changed = (leader, epoch) != (self.leader, self.leader_epoch)
        self.leader, self.leader_epoch = leader, epoch
        if changed:
            self.announce()
        return True

    def learn_loss(self, lossy_epoch: LeaderEpoch) -> None:
        """The leader of this epoch was elected though it may lack committed records: what was known to be
        committed before is not any more."""
        if lossy_epoch > self.lossy_epoch:
            self.lossy_epoch = lossy_epoch
            if lossy_epoch > self.log.last_epoch:
                self.watermark_known = self.high_watermark

    # --- the log, as followers change it ----------------------------------------------------

    def cut_at(self, offset: Offset) -> Cut:
        """What `truncate` to this offset would do."""
        return Cut(
            first=offset,
            end=Offset(self.log.log_end_offset),
            committed=max(0, self.high_watermark - offset),
            refused=offset < self.high_watermark and not self._may_lose_committed(),
        )

    def _may_lose_committed(self) -> bool:
        """An unclean election is allowed, or there was one since the last record here."""
        return self.config.unclean_leader_election_enable or self.lossy_epoch > self.log.last_epoch

    def truncate(self, offset: Offset) -> None:
        """Cut what diverges from the leader's log.

        Below the HW nothing is ever cut while elections are clean: it would be a committed record,
        so the replica fails itself rather than lose it silently (CORRECTNESS T11). After an unclean
        election the loss is reported as an exact range.
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
        self.log.truncate_to(offset)
        self.counts.truncated_records += max(0, cut.end - offset)
        self.counts.lost_records += cut.committed
        self.high_watermark = Offset(min(self.high_watermark, self.log.log_end_offset))
        if cut.committed:
            self.watermark_known = self.high_watermark

    def restart_at(self, offset: Offset) -> None:
        """Drop everything and begin again where the leader's log begins (H7)."""
        logger.warning(
            "the leader no longer has what follows here: starting over",
            partition=str(self.name),
            log_end=self.log.log_end_offset,
            offset=offset,
        )
        self.log.reset_to(offset)
        self.high_watermark = offset

    # --- reads ------------------------------------------------------------------------------

    def led(self) -> Leadership:
        """The leadership exercised here. Raises NotLeaderOrFollower."""
        if self.leadership is None:
            raise NotLeaderOrFollower(f"this broker does not lead {self.name}")
        return self.leadership

    def has_committed(self, offset: int) -> bool:
        """Whether a record at an offset is below the HW. Raises OffsetOutOfRange."""
        start, end = self.log.log_start_offset, self.log.log_end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRange(f"offset {offset} of {self.name} is outside {start}..{end}")
        return offset < self.high_watermark

    def read_committed(self, offset: int, bytes_max: int) -> bytes:
        """Whole batches below the HW. Raises OffsetOutOfRange, StorageFailed."""
        below = self.high_watermark  # once per read (H8)
        if not self.has_committed(offset):
            return b""
        return self.log.read(offset, bytes_max, below=below)
