"""What callers hear of a write that failed."""

from __future__ import annotations

from strandline.errors import CoordinatorNotAvailable, NotCoordinator, NotLeaderOrFollower, StrandlineError


def unwritten(what: str, error: StrandlineError) -> StrandlineError:
    """The answer to calls that waited for a failed write: ask again, here or where the log now is; or
    the failure itself, if asking again does not help."""
    if isinstance(error, NotCoordinator) or not error.retriable:
        return error
    if isinstance(error, NotLeaderOrFollower):
        return NotCoordinator(f"{what} was not written: {error.message}", leader=error.leader)
    return CoordinatorNotAvailable(f"{what} was not written: {error.message}")
