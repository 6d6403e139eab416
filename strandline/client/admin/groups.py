"""Lists, describes, deletes and repositions groups for the admin client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from strandline.adapters.codecs.groups import (
    DELETE_GROUP,
    DESCRIBE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from strandline.client.admin.refusals import has_members, raise_first
from strandline.client.cluster import Cluster
from strandline.client.coordinator import Coordinator
from strandline.client.retry import retry
from strandline.config.client import ClientSettings
from strandline.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    Outcome,
    RebalanceInProgress,
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
from strandline.vocabulary.log import MetadataQuery
from strandline.vocabulary.log_position import LogPosition
from strandline.vocabulary.metadata import Endpoint


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as its coordinator sees it, and the coordinator."""

    group: DescribedGroup
    coordinator: Endpoint


class GroupAdmin:
    """The part of `Admin` that concerns groups.

    Each call retries within the request timeout while the coordinator moves, is dead, or loads its log. So
    each request may be sent twice.
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
        return await retry(
            self._list_once,
            "the list of groups waits for a broker",
            settings=self._settings,
            clock=self._clock,
            limit_s=self._cluster.request_timeout_s,
        )

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
        """Delete a group without members, and its offsets.

        Raises GroupIdNotFound, NonEmptyGroup, CoordinatorNotAvailable.
        """
        retried: list[StrandlineError] = []
        try:
            await self._ask(group, DELETE_GROUP, group, retried.append)
        except GroupIdNotFound:
            if all(error.outcome is not Outcome.UNKNOWN for error in retried):
                raise  # otherwise a call without an answer has deleted it
        except NonEmptyGroup as error:
            raise NonEmptyGroup(await self._why_not_empty(group)) from error

    async def offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Committed offsets by partition; empty for an unknown group."""
        fetched, _ = await self._ask(group, OFFSET_FETCH, OffsetFetch(group))
        return {name: committed for name, committed in sorted(fetched.items()) if committed is not None}

    async def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, LogPosition]) -> None:
        """Commit as a client outside the group, which a coordinator accepts only without members.

        An unknown group is created. An offset without a topic id is one of the topic as it is now. Raises
        NonEmptyGroup, UnknownTopicOrPartition, UnknownTopicId, or the first refusal of a partition with the
        others as notes.
        """
        await self._check_exist(offsets)
        committed = {name: CommittedOffset.of(at) for name, at in offsets.items()}
        request = OffsetCommit(group, NO_MEMBER, NO_GENERATION, committed)
        try:
            results, _ = await self._ask(group, OFFSET_COMMIT, request)
            raise_first(results.items())
        except (UnknownMemberId, IllegalGeneration, RebalanceInProgress) as error:
            raise NonEmptyGroup(await self._why_not_empty(group)) from error

    async def _check_exist(self, names: Iterable[TopicPartition]) -> None:
        """Raises UnknownTopicOrPartition with the partition count, which a coordinator's refusal lacks."""
        for name in names:
            topic = await self._cluster.topic(name.topic, partitions_min=name.partition + 1)
            if name.partition >= len(topic.partitions):
                count = len(topic.partitions)
                raise UnknownTopicOrPartition(
                    f"there is no {name}: topic {name.topic!r} has {count} partitions"
                )

    async def _why_not_empty(self, group: str) -> str:
        """The message of a refusal; it names the members, if the coordinator still lists them."""
        try:
            members = (await self.describe(group)).group.members
        except StrandlineError:
            members = ()
        return has_members(group, members)

    # --- the coordinator ---------------------------------------------------------------------

    async def _ask(
        self,
        group: str,
        method: Method[Request, Response],
        request: Request,
        on_retry: Callable[[StrandlineError], object] | None = None,
    ) -> tuple[Response, Endpoint]:
        """See `Coordinator.answer`."""
        coordinator = Coordinator(
            group,
            cluster=self._cluster,
            transport=self._transport,
            settings=self._settings,
            clock=self._clock,
        )
        return await coordinator.answer(method, request, on_retry)
