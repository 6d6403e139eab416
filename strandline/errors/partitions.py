"""Errors of topics and partitions: their settings, replicas and leaders."""

from __future__ import annotations

from strandline.error_codes import ErrorCode
from strandline.errors.base import Retriable, StrandlineError


class UnknownTopicOrPartition(Retriable):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class UnknownTopicId(Retriable):
    """No topic has this id here: the topic was deleted, and another one has its name, or this broker does not
    know the new one yet. Request the topic's metadata: it has the id."""

    code = ErrorCode.UNKNOWN_TOPIC_ID


class InvalidTopic(StrandlineError):
    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class TopicAlreadyExists(StrandlineError):
    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidConfig(StrandlineError):
    code = ErrorCode.INVALID_CONFIG


class InvalidPartitions(StrandlineError):
    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactor(StrandlineError):
    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignment(StrandlineError):
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class NoReassignmentInProgress(StrandlineError):
    """There is no reassignment to cancel."""

    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class LeaderNotAvailable(Retriable):
    code = ErrorCode.LEADER_NOT_AVAILABLE


class NotLeaderOrFollower(Retriable):
    """This broker does not lead the partition; `leader` names the leader, if it is known.

    Raised only before an append; a leader that loses its leadership answers its queued requests
    with `OutcomeUnknown`.
    """

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class FencedLeaderEpoch(Retriable):
    """The request has an older epoch than this leader."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpoch(Retriable):
    """The request has a newer epoch than this broker knows."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class PreferredLeaderNotAvailable(Retriable):
    """The first assigned replica is not alive or not in sync, so it cannot lead now."""

    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


class EligibleLeadersNotAvailable(Retriable):
    """No replica can be elected now, even if records may be lost; the message says why."""

    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


class ElectionNotNeeded(StrandlineError):
    """The first assigned replica already leads; for an unclean election: the partition has a leader."""

    code = ErrorCode.ELECTION_NOT_NEEDED
