"""What an assignor is: who of a group's members reads which partition, decided by the group's leader.

An assignor only says where everything should be in the end. How it gets there without two owners at a time
(KIP-429) is not its concern: `strandline.consumer.core.leader` splits its answer.
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
    """A user's assignor raised, or said what cannot be: gave a partition that does not exist, or twice."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member as an assignor sees it.

    `owned` is what it claims since `owned_generation`: it may be stale, and others may claim the same.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    owned_generation: int = NO_GENERATION
    instance: str | None = None
    user_data: bytes = b""


class Assignor(Protocol):
    """A way to assign. All members of a group know it under the same name."""

    @property
    def name(self) -> str: ...

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        """Every member's partitions, by member id.

        `partitions` has the number of partitions of each topic that exists. Each partition that somebody
        subscribes to goes to exactly one of its subscribers. The answer depends on the arguments only, not
        on their order: another leader would say the same.
        """
        ...


@runtime_checkable
class TellsLeader(Protocol):
    """An assignor that also sends something of its own from each member to the leader."""

    def subscription_user_data(self) -> bytes:
        """What `MemberSubscription.user_data` is to be for this member; asked before each join."""
        ...


@runtime_checkable
class TellsMembers(Protocol):
    """An assignor that also sends something of its own from the leader to each member."""

    def assign_and_tell(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> tuple[dict[str, list[TopicPartition]], dict[str, bytes]]:
        """As `Assignor.assign`, and what each member's assignment carries as user data (absent: empty).

        Asked instead of `assign`, once a rebalance. In a group that is mixed of eager and cooperative
        members `assign` is asked, once for all of them, and no member is told anything: what comes of the
        answer is less than it says.
        """
        ...


@runtime_checkable
class ReleasesFirst(Protocol):
    """An assignor that has its member give partitions up before it joins, so that others get them at once."""

    def release_before_join(self) -> frozenset[TopicPartition]:
        """What this member gives up: drain, commit, on_revoked. What it does not own is passed over.

        Asked once before each join of a cooperative member that owns something, before
        `subscription_user_data`; an eager member gives up everything anyway, and one that has lost
        everything has nothing to give.
        """
        ...


@runtime_checkable
class HearsAssignment(Protocol):
    """An assignor that hears what became of what it said, in each member of the group that goes by it."""

    def on_assignment(self, user_data: bytes, assigned: frozenset[TopicPartition], generation: int) -> None:
        """Called once a sync, before any listener of that rebalance.

        `user_data` is what the leader told this member, `assigned` what the member owns after the
        rebalance, without what is yet to be revoked.
        """
        ...


def user_data_of(assignor: Assignor) -> bytes:
    """What a member puts into its subscription for this assignor. Raises AssignorFailed."""
    if not isinstance(assignor, TellsLeader):
        return b""
    with calling(assignor):
        return _bytes(assignor.subscription_user_data())


def released_first(
    assignors: Iterable[Assignor], owned: frozenset[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """What of `owned` is to be given up before a join, sorted: nothing is asked of who owns nothing.

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


def tell_assignment(
    assignor: Assignor, user_data: bytes, assigned: frozenset[TopicPartition], generation: int
) -> None:
    """Have the assignor hear of this. Raises AssignorFailed."""
    if isinstance(assignor, HearsAssignment):
        with calling(assignor):
            assignor.on_assignment(user_data, assigned, generation)


def asked(
    assignor: Assignor,
    members: Mapping[str, MemberSubscription],
    partitions: Mapping[str, int],
    *,
    tell: bool,
) -> tuple[dict[str, list[TopicPartition]], dict[str, bytes]]:
    """Every member's partitions, and what to tell them if the assignor has a say. Raises AssignorFailed."""
    with calling(assignor):
        if not (tell and isinstance(assignor, TellsMembers)):
            return assignor.assign(members, partitions), {}
        answer, told = assignor.assign_and_tell(members, partitions)
        strangers = told.keys() - members.keys()
        if strangers:
            raise ValueError(f"it tells {', '.join(sorted(strangers))}, not of this group")
        return answer, {member: _bytes(data) for member, data in told.items()}


def _bytes(given: object) -> bytes:
    if not isinstance(given, bytes):
        raise TypeError(f"user data has to be bytes, not {given!r}")
    return given


@contextmanager
def calling(assignor: Assignor) -> Iterator[None]:
    """Around a call of a user's code: whatever it raises becomes AssignorFailed."""
    try:
        yield
    except Exception as error:
        raise AssignorFailed(f"assignor {assignor.name!r}: {error!r}") from error


def in_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Member ids, static members first and by instance, the others by id.

    Ids are drawn anew with each life of a member, instances are not, so a static member that comes back has
    its old place (KIP-345), and members that come and go move none of those before them.
    """

    def place(member: str) -> tuple[bool, str, str]:
        instance = members[member].instance
        return instance is None, instance or "", member

    return sorted(members, key=place)


def subscribers_by_topic(
    members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
) -> dict[str, list[str]]:
    """Who subscribes to each topic that exists, `in_order`; topics by name."""
    subscribers: dict[str, list[str]] = {}
    for member in in_order(members):
        for topic in set(members[member].topics):
            if topic in partitions:
                subscribers.setdefault(topic, []).append(member)
    return dict(sorted(subscribers.items()))
