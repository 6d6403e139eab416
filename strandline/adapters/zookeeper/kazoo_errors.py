"""kazoo's exceptions as errors of the `Coordination` port."""

from __future__ import annotations

from typing import Final, NoReturn

from kazoo import exceptions as zk

from strandline.errors import CoordinationError
from strandline.ports import (
    BadVersion,
    ConnectionLost,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    SessionEnded,
)

# An OperationTimeout, a moved session and a throttled request have one thing in common with a
# broken connection: the outcome of the operation is unknown, and a retry finds out.
_OUTCOME_UNKNOWN: Final = (
    zk.ConnectionLoss,
    zk.OperationTimeoutError,
    zk.RequestTimeoutError,
    zk.SessionMovedError,
    zk.ThrottledOpError,
)
ENDED: Final = (zk.SessionExpiredError, zk.AuthFailedError)
_REFUSED: Final[dict[type[zk.KazooException], tuple[type[CoordinationError], str]]] = {
    zk.NoNodeError: (NoNode, "does not exist"),
    zk.NodeExistsError: (NodeExists, "exists already"),
    zk.BadVersionError: (BadVersion, "was written in between"),
    zk.NotEmptyError: (NotEmpty, "has children"),
    zk.NoAuthError: (NotPermitted, "is not for the identity of this process: see zookeeper_auth_scheme"),
    zk.InvalidACLError: (
        NotPermitted,
        "cannot get the ACL of this process: ZooKeeper does not know zookeeper_auth_scheme, or one of "
        "zookeeper_x509_ids",
    ),
    zk.SessionClosedRequireSaslError: (
        NotPermitted,
        "is refused: ZooKeeper serves only processes with an identity: see zookeeper_auth_scheme",
    ),
}
NOT_THE_CULPRIT: Final = (zk.RolledBackError, zk.RuntimeInconsistency)
"""The errors that ZooKeeper gives for those operations of a failed multi that did not fail themselves."""


def raise_ended(what: str) -> NoReturn:
    raise SessionEnded(f"{what}: the session is over")


def translate(error: BaseException, what: str) -> CoordinationError:
    """kazoo's exception as a CoordinationError, with the path that it is about."""
    if isinstance(error, ENDED):
        return SessionEnded(f"{what}: the session is over")
    if isinstance(error, _OUTCOME_UNKNOWN):
        return ConnectionLost(f"{what}: the connection was lost, the outcome is unknown")
    for theirs, (ours, text) in _REFUSED.items():
        if isinstance(error, theirs):
            return ours(f"{what} {text}")
    return CoordinationError(f"{what}: {type(error).__name__} {error}".rstrip())
