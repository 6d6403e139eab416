"""Looking after groups from outside: who coordinates one, and what may be asked of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from strandline.client.backoff import backoff_s
from strandline.client.cluster import Cluster
from strandline.client.messages import MetadataQuery
from strandline.client.wire.groups import (
    DELETE_GROUP,
    DESCRIBE_GROUP,
    FIND_COORDINATOR,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from strandline.config import ClientSettings
from strandline.errors import (
    BrokerNotAvailable,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    NotCoordinator,
    Outcome,
    OutcomeUnknown,
    RebalanceInProgress,
    RequestTimedOut,
    StrandlineError,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicPartition
from strandline.ports import Clock, Method, Request, Response, Transport
from strandline.vocabulary.groups import (
    NO_GENERATION,
    NO_MEMBER,
    CommittedOffset,
    DescribedGroup,
    ListedGroup,
    OffsetCommit,
    OffsetFetch,
)
from strandline.vocabulary.metadata import Endpoint

_DOUBTFUL: Final = (OutcomeUnknown, RequestTimedOut)
"""The call may have been carried out: its connection broke, or what it wrote is not committed yet."""

NAMED_MAX: Final = 5
"""Members that a refusal names."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as its coordinator sees it, and which broker that is."""

    group: DescribedGroup
    coordinator: Endpoint


class GroupAdmin:
    """What `Admin` knows to do with groups.

    Each call looks for the coordinator again and again within the request timeout: one that moved,
    died or still loads is no failure yet. Everything asked here may be asked twice.
    """

    def __init__(
        self, cluster: Cluster, settings: ClientSettings, transport: Transport, clock: Clock
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._transport = transport
        self._clock = clock

    async def list_all(self) -> list[ListedGroup]:
        """The groups of all live brokers, by name. Raises the last refusal of a broker that stays live:
        a list that lacks a broker's groups would look complete."""
        deadline = self._deadline()
        for attempt in itertools.count(1):
            try:
                return await self._list_once()
            except StrandlineError as error:
                if not error.retriable or self._clock.monotonic() >= deadline:
                    raise
            await self._clock.sleep(backoff_s(self._settings, attempt))
        raise AssertionError("counting ended")

    async def _list_once(self) -> list[ListedGroup]:
        found: dict[str, ListedGroup] = {}
        metadata = await self._cluster.ask(MetadataQuery(None))
        for broker in metadata.cluster.brokers:
            for listed in await self._cluster.call(broker.id, LIST_GROUPS, None):
                found[listed.group] = listed
        return [found[group] for group in sorted(found)]

    async def describe(self, group: str) -> GroupDescription:
        """Raises GroupIdNotFound, CoordinatorNotAvailable."""
        described, coordinator = await self._ask(group, DESCRIBE_GROUP, group)
        return GroupDescription(described, coordinator)

    async def delete(self, group: str) -> None:
        """Forget a group without members, and its offsets.

        Raises GroupIdNotFound, NonEmptyGroup, CoordinatorNotAvailable.
        """
        doubts: list[StrandlineError] = []
        try:
            await self._ask(group, DELETE_GROUP, group, doubts.append)
        except GroupIdNotFound:
            if not doubts:
                raise  # else it was deleted by the call whose answer was lost
        except NonEmptyGroup as error:
            raise NonEmptyGroup(await self._why_not_empty(group)) from error

    async def offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """What is committed, by partition; nothing for a group that nobody knows."""
        fetched, _ = await self._ask(group, OFFSET_FETCH, OffsetFetch(group))
        return {name: committed for name, committed in sorted(fetched.items()) if committed is not None}

    async def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit from outside, which a coordinator takes only while the group has no members.

        A group that nobody knows begins with it. Raises NonEmptyGroup, UnknownTopicOrPartition, or the
        first refusal of a partition with the others as notes.
        """
        await self._check_exist(offsets)
        committed = {name: CommittedOffset(offset) for name, offset in offsets.items()}
        request = OffsetCommit(group, NO_MEMBER, NO_GENERATION, committed)
        try:
            results, _ = await self._ask(group, OFFSET_COMMIT, request)
            _raise_first(results)
        except (UnknownMemberId, IllegalGeneration, RebalanceInProgress) as error:
            raise NonEmptyGroup(await self._why_not_empty(group)) from error

    async def _check_exist(self, names: Iterable[TopicPartition]) -> None:
        """A coordinator refuses them too; this message says how many partitions there are."""
        for name in names:
            topic = await self._cluster.topic(name.topic, partitions_min=name.partition + 1)
            if name.partition >= len(topic.partitions):
                count = len(topic.partitions)
                raise UnknownTopicOrPartition(
                    f"there is no {name}: topic {name.topic!r} has {count} partitions"
                )

    async def _why_not_empty(self, group: str) -> str:
        """A sentence that names the members, if the coordinator still tells them."""
        try:
            members = (await self.describe(group)).group.members
        except StrandlineError:
            members = ()
        named = ", ".join(f"{m.member} (client {m.client_id} at {m.host})" for m in members[:NAMED_MAX])
        more = f" and {len(members) - NAMED_MAX} more" if len(members) > NAMED_MAX else ""
        who = f": {named}{more}" if named else ""
        return (
            f"group {group!r} has members{who}; stop them first, they would go on as if nothing had happened"
        )

    # --- the coordinator ---------------------------------------------------------------------

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._cluster.request_timeout_s

    async def _ask(
        self,
        group: str,
        method: Method[Request, Response],
        request: Request,
        on_doubt: Callable[[StrandlineError], None] = lambda _error: None,
    ) -> tuple[Response, Endpoint]:
        """The answer of the group's coordinator, and who that is.

        `on_doubt` hears of each call that may have been carried out and is made again. Raises
        CoordinatorNotAvailable with the last reason when the time is up.
        """
        deadline = self._deadline()
        coordinator: Endpoint | None = None
        for attempt in itertools.count(1):
            try:
                if coordinator is None:
                    coordinator = await self._cluster.call_any(FIND_COORDINATOR, group)
                return await self._call(coordinator, method, request), coordinator
            except CoordinatorLoading as error:
                reason = error.message
            except (NotCoordinator, CoordinatorNotAvailable, BrokerNotAvailable, *_DOUBTFUL) as error:
                reason = error.message
                hint = error.leader
                coordinator = None if hint is None else Endpoint(hint.broker_id, hint.host, hint.port)
                if error.outcome is Outcome.UNKNOWN:
                    on_doubt(error)
            if self._clock.monotonic() >= deadline:
                raise CoordinatorNotAvailable(
                    f"group {group!r} has no coordinator that answers within "
                    f"{self._cluster.request_timeout_s:.1f} s: {reason}"
                )
            await self._clock.sleep(backoff_s(self._settings, attempt))
        raise AssertionError("counting ended")

    async def _call(
        self, coordinator: Endpoint, method: Method[Request, Response], request: Request
    ) -> Response:
        try:
            return await self._transport.call(
                coordinator.address, method, request, timeout_s=self._cluster.request_timeout_s
            )
        except BrokerNotAvailable as error:
            raise BrokerNotAvailable(
                f"coordinator {coordinator.id} advertised {coordinator.address}, unreachable from here"
            ) from error


def _raise_first(results: Mapping[TopicPartition, StrandlineError | None]) -> None:
    errors = [(name, error) for name, error in results.items() if error is not None]
    if errors:
        first = errors[0][1]
        for name, error in errors[1:]:
            first.add_note(f"{name}: {error.message}")
        raise first
