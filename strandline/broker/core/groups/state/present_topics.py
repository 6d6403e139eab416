"""Compares the offsets of a commit with the topics as they are (KIP-516)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from strandline.errors import StrandlineError, UnknownLeaderEpoch, UnknownTopicId
from strandline.ids import NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.vocabulary.groups import CommittedOffset
from strandline.vocabulary.log_position import same_topic


class PresentTopics(NamedTuple):
    """The topics of a request as they were at a moment after it came, as far as they are known."""

    ids: Mapping[str, TopicId] = {}
    above_epochs: Mapping[str, int] = {}
    """All epochs of a topic's leaders are higher than this one."""
    latest_epoch: int = NO_EPOCH
    """No leader of any partition has had a higher one (E17); NO_EPOCH: not known."""
    partitions: Mapping[str, int] = {}
    """How many a topic has; 0 if there is no such topic."""

    def id_of(self, name: TopicPartition, asked: CommittedOffset) -> TopicId:
        """A client that names no id means the topic as it is. While that is not known, its word counts."""
        return self.ids.get(name.topic) or asked.topic_id

    def refusal(self, name: TopicPartition, asked: CommittedOffset) -> StrandlineError | None:
        """Why the offset is not one of this topic; None if nothing is known against it."""
        present = self.ids.get(name.topic, NO_TOPIC_ID)
        if not same_topic(asked.topic_id, present):
            return UnknownTopicId(
                f"offset {asked.offset} of {name} is of topic id {asked.topic_id}, and the topic has "
                f"{present}: request its metadata, and commit what was read of that one"
            )
        if self.latest_epoch != NO_EPOCH and asked.leader_epoch > self.latest_epoch:
            return UnknownLeaderEpoch(
                f"offset {asked.offset} of {name} is said to follow a record of leader epoch "
                f"{asked.leader_epoch}, and no leader of this cluster has had an epoch above "
                f"{self.latest_epoch}: commit the epoch that came with the record, or -1"
            )
        above = self.above_epochs.get(name.topic, NO_EPOCH)
        if not asked.topic_id and 0 < asked.leader_epoch <= above:
            return UnknownTopicId(
                f"offset {asked.offset} of {name} follows a record of leader epoch {asked.leader_epoch}, and "
                f"all of the topic with id {present} are of epochs above {above}: it was read of a topic "
                "that was deleted. Request the topic's metadata, and commit what was read of this one"
            )
        return None


NOTHING_KNOWN: Final = PresentTopics()
