"""Errors that any call may end with: it is invalid, too late, or for another process."""

from __future__ import annotations

from strandline.error_codes import ErrorCode
from strandline.errors.base import Outcome, Retriable, StrandlineError, Unknown


class InvalidRequest(StrandlineError):
    code = ErrorCode.INVALID_REQUEST


class BrokerNotAvailable(Retriable):
    code = ErrorCode.BROKER_NOT_AVAILABLE


class RequestTimedOut(Unknown):
    """The leader appended the records, but the high watermark did not pass them in the allowed time."""

    code = ErrorCode.REQUEST_TIMED_OUT


class OutcomeUnknown(Unknown):
    """The connection or the leadership ended between the request and its answer."""

    code = ErrorCode.REQUEST_TIMED_OUT


class ThrottlingQuotaExceeded(Retriable):
    """The number of concurrent requests has reached its limit, `limit`. Or the caller is over its quota
    for creating and deleting partitions: a try after `retry_after_ms` may succeed."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class NotController(Retriable):
    """`leader` names the active controller, if one is known."""

    code = ErrorCode.NOT_CONTROLLER


class InconsistentClusterId(StrandlineError):
    code = ErrorCode.INCONSISTENT_CLUSTER_ID


class StaleBrokerEpoch(StrandlineError):
    """A request from an earlier registration of a broker."""

    code = ErrorCode.STALE_BROKER_EPOCH


class ResourceNotFound(StrandlineError):
    """There is no such user, or it has no such credential."""

    code = ErrorCode.RESOURCE_NOT_FOUND


class SettingsError(StrandlineError):
    """A setting, file or flag is invalid; the message names it and what to change."""


class CoordinationError(StrandlineError):
    """A ZooKeeper operation failed. Subclasses in `strandline.ports` say why."""

    outcome = Outcome.UNKNOWN
