"""Typed errors. Each wire error has Kafka's number, and each says what the caller may do next.

A producer distinguishes three kinds (`Outcome`): *retriable* (nothing happened, a retry may
succeed), *fatal* (nothing happened and a retry will not help) and *unknown* (it may have happened).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final

from strandline.error_codes import ErrorCode as ErrorCode  # noqa: PLC0414 - others take it from here
from strandline.ids import TopicPartition


class Outcome(Enum):
    """Whether a request that failed took effect."""

    RETRIABLE = "retriable"
    FATAL = "fatal"
    UNKNOWN = "unknown outcome"


@dataclass(frozen=True, slots=True)
class LeaderHint:
    """The leader that the answering broker knows, so that a client need not look it up."""

    broker_id: int
    host: str
    port: int
    leader_epoch: int
    external: tuple[str, int] | None = None
    """As `Endpoint.external`. A client never sees it: the broker puts the address that the client
    can use into `host` and `port`."""


MESSAGE_CHARS_MAX: Final = 2_000
"""The longest error message. Messages name invalid values, which may be as long as a request."""


def _shortened(message: str) -> str:
    if len(message) <= MESSAGE_CHARS_MAX:
        return message
    return f"{message[:MESSAGE_CHARS_MAX]}… ({len(message)} characters)"


_BY_CODE: Final[dict[ErrorCode, type[StrandlineError]]] = {}
"""The exception for each wire error: the first class with its number."""


class StrandlineError(Exception):
    """Any failure that strandline reports.

    `code` is sent on the wire; `outcome` says whether the request took effect; `leader`, `limit`
    and `retry_after_ms` are facts that the caller can act on, where there are any.
    """

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    outcome: ClassVar[Outcome] = Outcome.FATAL

    def __init_subclass__(cls) -> None:
        if "code" in vars(cls):
            _BY_CODE.setdefault(cls.code, cls)

    def __init__(
        self,
        message: str,
        *,
        leader: LeaderHint | None = None,
        limit: int | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        self.message = _shortened(message)
        super().__init__(self.message)
        self.leader = leader
        self.limit = limit
        self.retry_after_ms = retry_after_ms

    @property
    def retriable(self) -> bool:
        """True if a retry may help (for an idempotent producer: also after an unknown outcome)."""
        return self.outcome is not Outcome.FATAL


class _Retriable(StrandlineError):
    outcome = Outcome.RETRIABLE


class _Unknown(StrandlineError):
    outcome = Outcome.UNKNOWN


class UnknownServerError(StrandlineError):
    """The broker failed in an unexpected way; its log has the details."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR
    outcome = Outcome.UNKNOWN


class OffsetOutOfRange(StrandlineError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE


class CorruptMessage(StrandlineError):
    """The size, magic or CRC of a batch is wrong. The batch was not appended."""

    code = ErrorCode.CORRUPT_MESSAGE


class UndecodableBatch(CorruptMessage):
    """A batch in the log that a reader cannot decode.

    It is a batch of `partition`. The first record that the reader wanted from it has `offset`; the
    next batch begins at `next_offset`.
    """

    def __init__(self, message: str, *, partition: TopicPartition, offset: int, next_offset: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset

    def advised(self, advice: str) -> UndecodableBatch:
        """The same error, with advice for the reader added to its message."""
        return UndecodableBatch(
            f"{self.message}: {advice}",
            partition=self.partition,
            offset=self.offset,
            next_offset=self.next_offset,
        )


class UnknownTopicOrPartition(_Retriable):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class LeaderNotAvailable(_Retriable):
    code = ErrorCode.LEADER_NOT_AVAILABLE


class NotLeaderOrFollower(_Retriable):
    """This broker does not lead the partition; `leader` names the leader, if it is known.

    Raised only before an append; a leader that loses its leadership answers its queued requests
    with `OutcomeUnknown`.
    """

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class RequestTimedOut(_Unknown):
    """The leader appended the records, but the high watermark did not pass them in the allowed time."""

    code = ErrorCode.REQUEST_TIMED_OUT


class OutcomeUnknown(_Unknown):
    """The connection or the leadership ended between the request and its answer."""

    code = ErrorCode.REQUEST_TIMED_OUT


class BrokerNotAvailable(_Retriable):
    code = ErrorCode.BROKER_NOT_AVAILABLE


class MessageTooLarge(StrandlineError):
    code = ErrorCode.MESSAGE_TOO_LARGE


class InvalidTopic(StrandlineError):
    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class NotEnoughReplicas(_Retriable):
    """The ISR is smaller than min.insync.replicas; nothing was appended."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppend(_Unknown):
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class InvalidRequiredAcks(StrandlineError):
    code = ErrorCode.INVALID_REQUIRED_ACKS


class TopicAlreadyExists(StrandlineError):
    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitions(StrandlineError):
    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactor(StrandlineError):
    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignment(StrandlineError):
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class InvalidConfig(StrandlineError):
    code = ErrorCode.INVALID_CONFIG


class NotController(_Retriable):
    """`leader` names the active controller, if one is known."""

    code = ErrorCode.NOT_CONTROLLER


class InvalidRequest(StrandlineError):
    code = ErrorCode.INVALID_REQUEST


class OutOfOrderSequence(StrandlineError):
    """An earlier batch of this producer is missing, or another batch has these sequences.

    Appending this batch would reorder records; treating it as a duplicate would lose its records.
    """

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class DuplicateSequence(StrandlineError):
    """The batch was appended long ago; the broker does not remember its offset."""

    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidProducerEpoch(StrandlineError):
    code = ErrorCode.INVALID_PRODUCER_EPOCH


class StorageFailed(_Retriable):
    """The log of this replica failed and fenced itself (a full disk, an I/O error)."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class StorageBusy(_Retriable):
    """This process has no free descriptor for a file of the log. The request did nothing and
    damaged nothing."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class UnknownProducerId(StrandlineError):
    """The broker does not know this producer, and the batch is not the producer's first."""

    code = ErrorCode.UNKNOWN_PRODUCER_ID


class FencedLeaderEpoch(_Retriable):
    """The request has an older epoch than this leader."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpoch(_Retriable):
    """The request has a newer epoch than this broker knows."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class UnsupportedCompression(StrandlineError):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class StaleBrokerEpoch(StrandlineError):
    """A request from an earlier registration of a broker."""

    code = ErrorCode.STALE_BROKER_EPOCH


class OffsetNotAvailable(_Retriable):
    """A new leader's HW has not yet reached the log end that it had at its election, so it does not
    know the HW (KIP-207)."""

    code = ErrorCode.OFFSET_NOT_AVAILABLE


class InvalidRecord(StrandlineError):
    code = ErrorCode.INVALID_RECORD
    records: tuple[int, ...] = ()  # positions in the batch of the records that it is refused for


class InconsistentClusterId(StrandlineError):
    code = ErrorCode.INCONSISTENT_CLUSTER_ID


class UnexpectedOffset(StrandlineError):
    """The log does not end at the offset that the writer of the batch expected. The batch was not
    appended.

    `limit` is the leader's log end offset at the refusal.
    """

    code = ErrorCode.UNEXPECTED_OFFSET


# --- security ---------------------------------------------------------------------------------


class TopicAuthorizationFailed(StrandlineError):
    """The caller may not do this with the topic, which may not even exist."""

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class GroupAuthorizationFailed(StrandlineError):
    """The caller may not do this with the group, or speaks in the name of another caller's member."""

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED


class ClusterAuthorizationFailed(StrandlineError):
    """The caller may not do this with the cluster."""

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# --- placement and leadership -----------------------------------------------------------------


class PreferredLeaderNotAvailable(_Retriable):
    """The first assigned replica is not alive or not in sync, so it cannot lead now."""

    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


class EligibleLeadersNotAvailable(_Retriable):
    """No replica can be elected now, even if records may be lost; the message says why."""

    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


class ElectionNotNeeded(StrandlineError):
    """The first assigned replica already leads; for an unclean election: the partition has a leader."""

    code = ErrorCode.ELECTION_NOT_NEEDED


class ThrottlingQuotaExceeded(_Retriable):
    """The number of concurrent requests has reached its limit, `limit`. Or the caller is over its quota
    for creating and deleting partitions: a try after `retry_after_ms` may succeed."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class NoReassignmentInProgress(StrandlineError):
    """There is no reassignment to cancel."""

    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


# --- groups ----------------------------------------------------------------------------------


class OffsetMetadataTooLarge(StrandlineError):
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class CoordinatorLoading(_Retriable):
    """The coordinator is reading its groups from the log."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailable(_Retriable):
    """The group has no coordinator now, or the coordinator could not write the result of the request."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinator(_Retriable):
    """Another broker coordinates the group; `leader` names it, if it is known."""

    code = ErrorCode.NOT_COORDINATOR


class IllegalGeneration(StrandlineError):
    """The request names another generation than the group's current one."""

    code = ErrorCode.ILLEGAL_GENERATION


class InconsistentGroupProtocol(StrandlineError):
    """The member supports no protocol that all other members support."""

    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class InvalidGroupId(StrandlineError):
    code = ErrorCode.INVALID_GROUP_ID


class UnknownMemberId(StrandlineError):
    """The member is not, or is no longer, in the group."""

    code = ErrorCode.UNKNOWN_MEMBER_ID


class InvalidSessionTimeout(StrandlineError):
    code = ErrorCode.INVALID_SESSION_TIMEOUT


class RebalanceInProgress(_Retriable):
    """The group is rebalancing: join again."""

    code = ErrorCode.REBALANCE_IN_PROGRESS


class NonEmptyGroup(StrandlineError):
    code = ErrorCode.NON_EMPTY_GROUP


class GroupSubscribedToTopic(StrandlineError):
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


class GroupIdNotFound(StrandlineError):
    code = ErrorCode.GROUP_ID_NOT_FOUND


class MemberIdRequired(_Retriable):
    """Join again with the member id in this answer (KIP-394)."""

    code = ErrorCode.MEMBER_ID_REQUIRED


class GroupMaxSizeReached(StrandlineError):
    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class FencedInstanceId(StrandlineError):
    """Another process joined with this `group_instance_id`."""

    code = ErrorCode.FENCED_INSTANCE_ID


class TransactionalIdAuthorizationFailed(StrandlineError):
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class AuthenticationFailed(StrandlineError):
    """The caller did not prove who it is."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnsupportedSaslMechanism(StrandlineError):
    """The server does not log callers in by this mechanism; the message names those that it has."""

    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class IllegalSaslState(StrandlineError):
    """The caller has not logged in, or logs in out of order."""

    code = ErrorCode.ILLEGAL_SASL_STATE


class ResourceNotFound(StrandlineError):
    """There is no such user, or it has no such credential."""

    code = ErrorCode.RESOURCE_NOT_FOUND


class SecurityDisabled(StrandlineError):
    """The cluster has no authorizer, so it has no ACLs."""

    code = ErrorCode.SECURITY_DISABLED


def error_for(
    code: int, message: str, *, leader: LeaderHint | None = None, limit: int | None = None
) -> StrandlineError:
    """The exception for a wire error; an unknown number becomes `UnknownServerError`."""
    try:
        cls = _BY_CODE[ErrorCode(code)]
    except (ValueError, KeyError):
        return UnknownServerError(f"error {code}: {message}", leader=leader, limit=limit)
    return cls(message, leader=leader, limit=limit)


class SettingsError(StrandlineError):
    """A setting, file or flag is invalid; the message names it and what to change."""


class CoordinationError(StrandlineError):
    """A ZooKeeper operation failed. Subclasses in `strandline.ports` say why."""

    outcome = Outcome.UNKNOWN
