"""Defines assignors: the leader of a group uses one to decide which member reads which partition.

An assignor only computes the final assignment. How the group gets there without a partition having
two owners at a time (KIP-429) is not its concern: `strandline.consumer.core.leader_plan` splits its
answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import NO_GENERATION


class AssignorFailed(StrandlineError):
    """A user's assignor raised, or returned an invalid assignment: a partition that does not exist,
    or one given twice."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member as an assignor sees it.

    `owned` is what the member has claimed since `owned_generation`. It may be stale, and other
    members may claim the same partitions.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    owned_generation: int = NO_GENERATION
    instance: str | None = None
    user_data: bytes = b""


class Assignor(Protocol):
    """An assignment strategy. All members of a group use the same name for it."""

    @property
    def name(self) -> str: ...

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        """Returns every member's partitions, by member id.

        `partitions` has the number of partitions of each existing topic. Each partition with a
        subscriber goes to exactly one of its subscribers. The answer depends only on the arguments,
        not on their order: any other leader would return the same.
        """
        ...


@runtime_checkable
class SendsSubscriptionData(Protocol):
    """An assignor that also sends user data from each member to the leader."""

    def subscription_user_data(self) -> bytes:
        """The `MemberSubscription.user_data` of this member; called before each join."""
        ...


@runtime_checkable
class SendsAssignmentData(Protocol):
    """An assignor that also sends user data from the leader to each member."""

    def assign_with_user_data(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> tuple[dict[str, list[TopicPartition]], dict[str, bytes]]:
        """As `Assignor.assign`, and the user data of each member's assignment (absent: empty).

        It is called instead of `assign`, once for each rebalance. In a group with both eager and
        cooperative members `assign` is called instead, once for all of them, and no member gets
        user data: the group carries out only part of the answer.
        """
        ...


@runtime_checkable
class ReleasesFirst(Protocol):
    """An assignor whose member revokes partitions before it joins, so that others get them at once."""

    def release_before_join(self) -> frozenset[TopicPartition]:
        """The partitions that this member revokes: drain, commit, on_revoked. Those that it does
        not own are ignored.

        It is called once before each join of a cooperative member that owns a partition, before
        `subscription_user_data`. An eager member revokes everything anyway, and a member that has
        lost everything has nothing to revoke.
        """
        ...


@runtime_checkable
class HandlesAssignment(Protocol):
    """An assignor that is notified of the resulting assignment, in each member of a group that uses it."""

    def on_assignment(self, user_data: bytes, assigned: frozenset[TopicPartition], generation: int) -> None:
        """Called once for each sync, before any listener of that rebalance.

        `user_data` is the leader's user data for this member, `assigned` what the member owns after
        the rebalance, without partitions that are still to be revoked.
        """
        ...


def user_data_of(assignor: Assignor) -> bytes:
    """The user data of a member's subscription for this assignor. Raises AssignorFailed."""
    if not isinstance(assignor, SendsSubscriptionData):
        return b""
    with calling(assignor):
        return _bytes(assignor.subscription_user_data())


def released_first(
    assignors: Iterable[Assignor], owned: frozenset[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """The partitions of `owned` to revoke before a join, sorted. Assignors are not called if
    `owned` is empty.

    Raises AssignorFailed.
    """
    if not owned:
        return ()
    released: set[TopicPartition] = set()
    for assignor in assignors:
        if isinstance(assignor, ReleasesFirst):
            with calling(assignor):
                released |= owned & assignor.release_before_join()
    return tuple(sorted(released))


def notify_assignor(
    assignor: Assignor, user_data: bytes, assigned: frozenset[TopicPartition], generation: int
) -> None:
    """Notify the assignor of an assignment. Raises AssignorFailed."""
    if isinstance(assignor, HandlesAssignment):
        with calling(assignor):
            assignor.on_assignment(user_data, assigned, generation)


def call_assign(
    assignor: Assignor,
    members: Mapping[str, MemberSubscription],
    partitions: Mapping[str, int],
    *,
    send_user_data: bool,
) -> tuple[dict[str, list[TopicPartition]], dict[str, bytes]]:
    """Every member's partitions, and the user data for the members if the assignor sends any.
    Raises AssignorFailed."""
    with calling(assignor):
        if not (send_user_data and isinstance(assignor, SendsAssignmentData)):
            return assignor.assign(members, partitions), {}
        answer, user_data = assignor.assign_with_user_data(members, partitions)
        strangers = user_data.keys() - members.keys()
        if strangers:
            raise ValueError(f"it sends user data to {', '.join(sorted(strangers))}, not of this group")
        return answer, {member: _bytes(data) for member, data in user_data.items()}


def _bytes(given: object) -> bytes:
    if not isinstance(given, bytes):
        raise TypeError(f"user data has to be bytes, not {given!r}")
    return given


@contextmanager
def calling(assignor: Assignor) -> Iterator[None]:
    """Context manager for a call of a user's code: any exception becomes AssignorFailed."""
    try:
        yield
    except Exception as error:
        raise AssignorFailed(f"assignor {assignor.name!r}: {error!r}") from error


def in_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Member ids: static members first, by instance, then the others by id.

    Each start of a member draws a new id, but keeps its instance, so a static member that returns
    has its old place (KIP-345), and dynamic members that come and go do not move those before them.
    """

    def place(member: str) -> tuple[bool, str, str]:
        instance = members[member].instance
        return instance is None, instance or "", member

    return sorted(members, key=place)


def subscribers_by_topic(
    members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
) -> dict[str, list[str]]:
    """The subscribers of each existing topic, `in_order`; topics by name."""
    subscribers: dict[str, list[str]] = {}
    for member in in_order(members):
        for topic in dict.fromkeys(members[member].topics):
            if topic in partitions:
                subscribers.setdefault(topic, []).append(member)
    return dict(sorted(subscribers.items()))
