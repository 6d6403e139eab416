"""Leader epochs in the requests of clients: which one a client may name, and where each ended."""

from __future__ import annotations

from collections.abc import Callable

from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.errors import (
    FencedLeaderEpoch,
    OffsetNotAvailable,
    StrandlineError,
    UnknownLeaderEpoch,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.log import EpochQuery, ListedEpochEnd


class LeaderEpochs:
    """The leader epochs of one broker's replicas."""

    def __init__(self, manager: ReplicaManager, find: Callable[[TopicPartition], Replica]) -> None:
        """`find` returns the replica of a partition, or raises a StrandlineError."""
        self._manager = manager
        self._find = find

    def check(self, replica: Replica, epoch: int) -> None:
        """Compares the leader epoch that a client knows (-1: none) with the current one. Raises
        FencedLeaderEpoch, UnknownLeaderEpoch."""
        if 0 <= epoch < replica.leader_epoch:
            raise FencedLeaderEpoch(
                f"{replica.name}: epoch {epoch} is over, {replica.leader_epoch} is current",
                leader=self._manager.hint(replica),
            )
        if epoch > replica.leader_epoch:
            raise UnknownLeaderEpoch(
                f"{replica.name}: epoch {epoch} is not known here, {replica.leader_epoch} is"
            )

    def end_of(self, query: EpochQuery) -> ListedEpochEnd:
        """The largest epoch not above the given one, and where its committed records end; -1 and -1 if there
        is none. A client whose position is above that end has read records that are gone (KIP-320)."""
        name = query.name
        try:
            replica = self._find(name)
        except StrandlineError as error:
            return ListedEpochEnd(name, error)
        try:
            self.check(replica, query.leader_epoch)
            return self._end_of(replica, query.epoch)
        except StrandlineError as error:
            return ListedEpochEnd(name, self._manager.with_hint(error, replica))

    @staticmethod
    def _end_of(replica: Replica, wanted: int) -> ListedEpochEnd:
        leadership = replica.led()
        epoch, end = replica.log.end_offset_for(wanted)
        watermark = replica.high_watermark
        if end > watermark and not leadership.core.knows_watermark:
            # The predecessor may have committed more: with a lower end the client would miss records.
            raise OffsetNotAvailable(
                f"{replica.name}: the new leader does not know yet whether {watermark}..{end} are committed"
            )
        return ListedEpochEnd(replica.name, None, epoch, min(end, watermark))
