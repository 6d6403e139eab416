"""Typed errors. Each wire error has Kafka's number, and each says what the caller may do next.

A producer distinguishes three kinds (`Outcome`): *retriable* (nothing happened, a retry may
succeed), *fatal* (nothing happened and a retry will not help) and *unknown* (it may have happened).
"""

from __future__ import annotations

from strandline.error_codes import ErrorCode as ErrorCode
from strandline.errors.base import MESSAGE_CHARS_MAX as MESSAGE_CHARS_MAX
from strandline.errors.base import LeaderHint as LeaderHint
from strandline.errors.base import Outcome as Outcome
from strandline.errors.base import StrandlineError as StrandlineError
from strandline.errors.base import UnknownServerError as UnknownServerError
from strandline.errors.base import error_for as error_for
from strandline.errors.calls import BrokerNotAvailable as BrokerNotAvailable
from strandline.errors.calls import CoordinationError as CoordinationError
from strandline.errors.calls import InconsistentClusterId as InconsistentClusterId
from strandline.errors.calls import InvalidRequest as InvalidRequest
from strandline.errors.calls import NotController as NotController
from strandline.errors.calls import OutcomeUnknown as OutcomeUnknown
from strandline.errors.calls import RequestTimedOut as RequestTimedOut
from strandline.errors.calls import ResourceNotFound as ResourceNotFound
from strandline.errors.calls import SettingsError as SettingsError
from strandline.errors.calls import StaleBrokerEpoch as StaleBrokerEpoch
from strandline.errors.calls import ThrottlingQuotaExceeded as ThrottlingQuotaExceeded
from strandline.errors.groups import CoordinatorLoading as CoordinatorLoading
from strandline.errors.groups import CoordinatorNotAvailable as CoordinatorNotAvailable
from strandline.errors.groups import FencedInstanceId as FencedInstanceId
from strandline.errors.groups import FencedMemberEpoch as FencedMemberEpoch
from strandline.errors.groups import GenerationOfNoGroup as GenerationOfNoGroup
from strandline.errors.groups import GroupIdNotFound as GroupIdNotFound
from strandline.errors.groups import GroupMaxSizeReached as GroupMaxSizeReached
from strandline.errors.groups import GroupSubscribedToTopic as GroupSubscribedToTopic
from strandline.errors.groups import IllegalGeneration as IllegalGeneration
from strandline.errors.groups import InconsistentGroupProtocol as InconsistentGroupProtocol
from strandline.errors.groups import InvalidGroupId as InvalidGroupId
from strandline.errors.groups import InvalidRegularExpression as InvalidRegularExpression
from strandline.errors.groups import InvalidSessionTimeout as InvalidSessionTimeout
from strandline.errors.groups import MemberIdRequired as MemberIdRequired
from strandline.errors.groups import NonEmptyGroup as NonEmptyGroup
from strandline.errors.groups import NoRoomForEpoch as NoRoomForEpoch
from strandline.errors.groups import NotCoordinator as NotCoordinator
from strandline.errors.groups import OffsetMetadataTooLarge as OffsetMetadataTooLarge
from strandline.errors.groups import RebalanceInProgress as RebalanceInProgress
from strandline.errors.groups import StaleMemberEpoch as StaleMemberEpoch
from strandline.errors.groups import UnknownMemberId as UnknownMemberId
from strandline.errors.groups import UnreleasedInstanceId as UnreleasedInstanceId
from strandline.errors.groups import UnsupportedAssignor as UnsupportedAssignor
from strandline.errors.log import CorruptMessage as CorruptMessage
from strandline.errors.log import DuplicateSequence as DuplicateSequence
from strandline.errors.log import InvalidProducerEpoch as InvalidProducerEpoch
from strandline.errors.log import InvalidRecord as InvalidRecord
from strandline.errors.log import InvalidRequiredAcks as InvalidRequiredAcks
from strandline.errors.log import InvalidTimestamp as InvalidTimestamp
from strandline.errors.log import MessageTooLarge as MessageTooLarge
from strandline.errors.log import NotEnoughReplicas as NotEnoughReplicas
from strandline.errors.log import NotEnoughReplicasAfterAppend as NotEnoughReplicasAfterAppend
from strandline.errors.log import OffsetNotAvailable as OffsetNotAvailable
from strandline.errors.log import OffsetOutOfRange as OffsetOutOfRange
from strandline.errors.log import OutOfOrderSequence as OutOfOrderSequence
from strandline.errors.log import StorageBusy as StorageBusy
from strandline.errors.log import StorageFailed as StorageFailed
from strandline.errors.log import UndecodableBatch as UndecodableBatch
from strandline.errors.log import UnexpectedOffset as UnexpectedOffset
from strandline.errors.log import UnknownProducerId as UnknownProducerId
from strandline.errors.log import UnsupportedCompression as UnsupportedCompression
from strandline.errors.partitions import ElectionNotNeeded as ElectionNotNeeded
from strandline.errors.partitions import EligibleLeadersNotAvailable as EligibleLeadersNotAvailable
from strandline.errors.partitions import FencedLeaderEpoch as FencedLeaderEpoch
from strandline.errors.partitions import InvalidConfig as InvalidConfig
from strandline.errors.partitions import InvalidPartitions as InvalidPartitions
from strandline.errors.partitions import InvalidReplicaAssignment as InvalidReplicaAssignment
from strandline.errors.partitions import InvalidReplicationFactor as InvalidReplicationFactor
from strandline.errors.partitions import InvalidTopic as InvalidTopic
from strandline.errors.partitions import LeaderNotAvailable as LeaderNotAvailable
from strandline.errors.partitions import NoReassignmentInProgress as NoReassignmentInProgress
from strandline.errors.partitions import NotLeaderOrFollower as NotLeaderOrFollower
from strandline.errors.partitions import PreferredLeaderNotAvailable as PreferredLeaderNotAvailable
from strandline.errors.partitions import TopicAlreadyExists as TopicAlreadyExists
from strandline.errors.partitions import UnknownLeaderEpoch as UnknownLeaderEpoch
from strandline.errors.partitions import UnknownTopicId as UnknownTopicId
from strandline.errors.partitions import UnknownTopicOrPartition as UnknownTopicOrPartition
from strandline.errors.security import AuthenticationFailed as AuthenticationFailed
from strandline.errors.security import ClusterAuthorizationFailed as ClusterAuthorizationFailed
from strandline.errors.security import GroupAuthorizationFailed as GroupAuthorizationFailed
from strandline.errors.security import IllegalSaslState as IllegalSaslState
from strandline.errors.security import SecurityDisabled as SecurityDisabled
from strandline.errors.security import TopicAuthorizationFailed as TopicAuthorizationFailed
from strandline.errors.security import (
    TransactionalIdAuthorizationFailed as TransactionalIdAuthorizationFailed,
)
from strandline.errors.security import UnsupportedSaslMechanism as UnsupportedSaslMechanism
from strandline.errors.transactions import ConcurrentTransactions as ConcurrentTransactions
from strandline.errors.transactions import InvalidProducerIdMapping as InvalidProducerIdMapping
from strandline.errors.transactions import InvalidTransactionState as InvalidTransactionState
from strandline.errors.transactions import InvalidTransactionTimeout as InvalidTransactionTimeout
from strandline.errors.transactions import OperationNotAttempted as OperationNotAttempted
from strandline.errors.transactions import ProducerFenced as ProducerFenced
from strandline.errors.transactions import TransactionAbortable as TransactionAbortable
from strandline.errors.transactions import TransactionalIdNotFound as TransactionalIdNotFound
from strandline.errors.transactions import TransactionCoordinatorFenced as TransactionCoordinatorFenced
from strandline.errors.transactions import UnstableOffsetCommit as UnstableOffsetCommit
