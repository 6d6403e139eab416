"""Errors of groups: their members, coordinators and committed offsets."""

from __future__ import annotations

from strandline.error_codes import ErrorCode
from strandline.errors.base import Retriable, StrandlineError


class CoordinatorLoading(Retriable):
    """The coordinator is reading its groups from the log."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailable(Retriable):
    """The group has no coordinator now, or the coordinator could not write the result of the request."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinator(Retriable):
    """Another broker coordinates the group; `leader` names it, if it is known."""

    code = ErrorCode.NOT_COORDINATOR


class InvalidGroupId(StrandlineError):
    code = ErrorCode.INVALID_GROUP_ID


class GroupIdNotFound(StrandlineError):
    code = ErrorCode.GROUP_ID_NOT_FOUND


class NonEmptyGroup(StrandlineError):
    code = ErrorCode.NON_EMPTY_GROUP


class GroupSubscribedToTopic(StrandlineError):
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


class GroupMaxSizeReached(StrandlineError):
    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class OffsetMetadataTooLarge(StrandlineError):
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class MemberIdRequired(Retriable):
    """Join again with the member id in this answer (KIP-394)."""

    code = ErrorCode.MEMBER_ID_REQUIRED


class UnknownMemberId(StrandlineError):
    """The member is not, or is no longer, in the group."""

    code = ErrorCode.UNKNOWN_MEMBER_ID


class FencedInstanceId(StrandlineError):
    """Another process joined with this `group_instance_id`."""

    code = ErrorCode.FENCED_INSTANCE_ID


class IllegalGeneration(StrandlineError):
    """The request names another generation than the group's current one."""

    code = ErrorCode.ILLEGAL_GENERATION


class GenerationOfNoGroup(IllegalGeneration):
    """There is no group of this name, and so no generation."""


class RebalanceInProgress(Retriable):
    """The group is rebalancing: join again."""

    code = ErrorCode.REBALANCE_IN_PROGRESS


class InconsistentGroupProtocol(StrandlineError):
    """The member supports no protocol that all other members support."""

    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class InvalidSessionTimeout(StrandlineError):
    code = ErrorCode.INVALID_SESSION_TIMEOUT


class FencedMemberEpoch(StrandlineError):
    """The coordinator has given the member's partitions away: give them up, and join again (KIP-848)."""

    code = ErrorCode.FENCED_MEMBER_EPOCH


class StaleMemberEpoch(StrandlineError):
    """The request names another epoch than the member has now: send a heartbeat, and ask again."""

    code = ErrorCode.STALE_MEMBER_EPOCH


class NoRoomForEpoch(StaleMemberEpoch):
    """The member has an epoch, and its request is of a version without one."""


class UnreleasedInstanceId(StrandlineError):
    """Another process is this instance, and has not left: strandline's consumers wait until it is out."""

    code = ErrorCode.UNRELEASED_INSTANCE_ID


class UnsupportedAssignor(StrandlineError):
    """No assignor of the coordinator has this name."""

    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class InvalidRegularExpression(StrandlineError):
    """The pattern is not one of RE2."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION
