"""The admin service as callers may use it: each topic of a request needs its own right.

Requests that need one right to the cluster are refused before they come here (`guarded_calls`).
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.adapters.rpc.member_key import MemberKey
from strandline.controller.api.service import AdminService
from strandline.errors import StrandlineError
from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.rights import ALTER_CLUSTER, CLUSTER_ACTION, DELETE_TOPIC, DESCRIBE_CLUSTER
from strandline.security.topic_changes import alteration_refusal, creation_refusal
from strandline.vocabulary.admin import (
    AlterTopic,
    BrokerCheck,
    CheckBroker,
    CreateTopics,
    DeleteTopics,
    TopicResult,
)


class GuardedAdmin:
    """The service, with the caller of each request. See `AdminService` for what it does and raises."""

    def __init__(self, service: AdminService, access: Access, key: MemberKey) -> None:
        self._service = service
        self._access = access
        self._key = key

    async def create_topics(self, request: CreateTopics, caller: Caller) -> Sequence[TopicResult]:
        """Internal topics are created by members of the cluster."""
        if request.internal and (refusal := self._key.refusal(caller.member_key)) is not None:
            raise self._access.refusal(caller, CLUSTER_ACTION) or refusal
        refused: dict[str, StrandlineError] = {}
        if self._access.enforced:
            for new in request.topics:
                if (denied := creation_refusal(self._access, caller, new.name)) is not None:
                    refused[new.name] = denied
        created = await self._service.create_topics(
            [new for new in request.topics if new.name not in refused],
            validate_only=request.validate_only,
            internal=request.internal,
        )
        return _in_order([new.name for new in request.topics], created, refused)

    async def delete_topics(self, request: DeleteTopics, caller: Caller) -> Sequence[TopicResult]:
        refused = self._access.refusals(caller, DELETE_TOPIC, request.topics)
        if not refused:
            return await self._service.delete_topics(request.topics, request.topic_ids)
        kept = [at for at, name in enumerate(request.topics) if name not in refused]
        ids = [request.topic_ids[at] for at in kept] if request.topic_ids else ()
        deleted = await self._service.delete_topics([request.topics[at] for at in kept], ids)
        return _in_order(request.topics, deleted, refused)

    async def alter_topic(self, request: AlterTopic, caller: Caller) -> None:
        configs = bool(request.set or request.unset)
        partitions = bool(request.partitions or request.assignments)
        refusal = alteration_refusal(
            self._access, caller, request.topic, configs=configs, partitions=partitions
        )
        if refusal is not None:
            raise refusal
        await self._service.alter_topic(request)

    async def check_broker(self, request: CheckBroker, caller: Caller) -> BrokerCheck:
        """A check that may end a drain alters the cluster."""
        self._access.check(caller, ALTER_CLUSTER if request.end_drain else DESCRIBE_CLUSTER)
        return await self._service.check_broker(request.broker, end_drain=request.end_drain)


def _in_order(
    names: Sequence[str], results: Sequence[TopicResult], refused: dict[str, StrandlineError]
) -> Sequence[TopicResult]:
    if not refused:
        return results
    found = iter(results)
    return [TopicResult(name, refused[name]) if name in refused else next(found) for name in names]
