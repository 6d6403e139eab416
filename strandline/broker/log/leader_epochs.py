"""The log that a client means: the topic id and epoch that it names, whether its position belongs to the log,
and where each epoch ended."""

from __future__ import annotations

from collections.abc import Callable

from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.errors import (
    FencedLeaderEpoch,
    OffsetNotAvailable,
    StrandlineError,
    UnknownLeaderEpoch,
    UnknownTopicId,
)
from strandline.ids import NO_EPOCH, TopicId, TopicPartition
from strandline.vocabulary.log import EpochQuery, FetchPartition, ListedEpochEnd
from strandline.vocabulary.log_position import EpochEnd, LogPosition, Match, compare, same_topic


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

    def check_topic(self, replica: Replica, topic_id: TopicId) -> None:
        """Compares the topic id that a client knows (empty: none) with that of the log. Raises
        UnknownTopicId."""
        if not same_topic(topic_id, replica.key.topic_id):
            raise UnknownTopicId(
                f"{replica.name}: this log has topic id {replica.key.topic_id}, not {topic_id}: the topic "
                "was made anew, or this broker does not know the new one yet; request its metadata"
            )

    def diverging(self, replica: Replica, wanted: FetchPartition) -> EpochEnd | None:
        """Where the client has to go, if the log has lost the record before its position: the committed end
        of the largest epoch not above that record's (KIP-320). None: it may read on.

        Raises UnknownLeaderEpoch for an epoch that is newer than this leader's, OffsetNotAvailable.
        """
        epoch = wanted.last_epoch
        if epoch == NO_EPOCH:
            return None
        if epoch > replica.leader_epoch:
            raise UnknownLeaderEpoch(
                f"{replica.name}: the record before offset {wanted.offset} is said to be of epoch {epoch}, "
                f"which is not known here; {replica.leader_epoch} is current"
            )
        end = replica.log.end_offset_for(epoch)
        kept = LogPosition(wanted.offset, wanted.topic_id, epoch)
        if compare(kept, replica.key.topic_id, end) is Match.SAME:
            return None
        return self._committed(replica, end)

    def end_of(self, query: EpochQuery) -> ListedEpochEnd:
        """The largest epoch not above the given one, and where its committed records end; -1 and -1 if there
        is none. A client whose position is above that end has read records that are gone (KIP-320)."""
        name = query.name
        try:
            replica = self._find(name)
        except StrandlineError as error:
            return ListedEpochEnd(name, error)
        try:
            self.check_topic(replica, query.topic_id)
            self.check(replica, query.leader_epoch)
            end = self._committed(replica, replica.log.end_offset_for(query.epoch))
        except StrandlineError as error:
            return ListedEpochEnd(name, self._manager.with_hint(error, replica))
        return ListedEpochEnd(name, None, *end, replica.key.topic_id)

    @staticmethod
    def _committed(replica: Replica, end: EpochEnd) -> EpochEnd:
        leadership, watermark = replica.led(), replica.high_watermark
        if end.end_offset > watermark and not leadership.core.knows_watermark:
            # The predecessor may have committed more: with a lower end the client would miss records.
            raise OffsetNotAvailable(
                f"{replica.name}: the new leader does not know yet whether {watermark}..{end.end_offset} are "
                "committed"
            )
        return EpochEnd(end.epoch, min(end.end_offset, watermark))
