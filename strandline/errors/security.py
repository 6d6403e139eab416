"""Errors of security: who the caller is, and what it may do."""

from __future__ import annotations

from strandline.error_codes import ErrorCode
from strandline.errors.base import StrandlineError


class AuthenticationFailed(StrandlineError):
    """The caller did not prove who it is."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnsupportedSaslMechanism(StrandlineError):
    """The server does not log callers in by this mechanism; the message names those that it has."""

    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class IllegalSaslState(StrandlineError):
    """The caller has not logged in, or logs in out of order."""

    code = ErrorCode.ILLEGAL_SASL_STATE


class TopicAuthorizationFailed(StrandlineError):
    """The caller may not do this with the topic, which may not even exist."""

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class GroupAuthorizationFailed(StrandlineError):
    """The caller may not do this with the group, or speaks in the name of another caller's member."""

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED


class ClusterAuthorizationFailed(StrandlineError):
    """The caller may not do this with the cluster."""

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class TransactionalIdAuthorizationFailed(StrandlineError):
    """The caller may not do this with the transactional id."""

    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class SecurityDisabled(StrandlineError):
    """The cluster has no authorizer, so it has no ACLs."""

    code = ErrorCode.SECURITY_DISABLED
