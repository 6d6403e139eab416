"""The errors of clusters for tests: wrong use, and a cluster that is not as the test expects."""

from __future__ import annotations


class UnknownMember(LookupError):
    """There is no such broker, controller, partition or party."""


class Vacant(UnknownMember):
    """No member has this role now: a partition between two leaders, for example."""


class NotPossible(RuntimeError):
    """The call does not fit the state of the cluster, or is made where the cluster does not run."""


class ConditionNotReached(AssertionError):
    """A condition was not true in time. The message has what was seen last."""


class MemberFailed(AssertionError):
    """A broker, a controller or an application ended with an error that the test did not expect."""
