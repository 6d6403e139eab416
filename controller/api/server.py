"""The calls of the service `Admin`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from strandline.adapters.codecs import admin as rpcs
from strandline.adapters.rpc.member_key import MemberKey
from strandline.controller.api.service import AdminService
from strandline.controller.api.state_changes_stream import StateChangeStreams
from strandline.ports import Caller, Reply, Served, ServedCall, ServedStream
from strandline.vocabulary.admin import CreateTopics, StateChangesAnswer, StateChangesQuery, TopicResult


def admin_calls(service: AdminService, streams: StateChangeStreams, key: MemberKey) -> list[Served]:
    """The calls, for every listener of one controller."""

    async def create_topics(request: CreateTopics, caller: Caller) -> Sequence[TopicResult]:
        if request.internal and (refusal := key.refusal(caller.member_key)) is not None:
            raise refusal
        return await service.create_topics(
            request.topics, validate_only=request.validate_only, internal=request.internal
        )

    async def state_changes(
        requests: AsyncIterator[StateChangesQuery], reply: Reply[StateChangesAnswer], _: Caller
    ) -> None:
        query = await anext(requests, None)
        if query is not None:
            async with aclosing(streams.answers(query)) as answers:
                async for answer in answers:
                    await reply(answer)

    return [
        ServedCall(rpcs.CREATE_TOPICS.served, create_topics),
        ServedCall(rpcs.DELETE_TOPICS.served, lambda r, _: service.delete_topics(r.topics, r.topic_ids)),
        ServedCall(rpcs.ALTER_TOPIC.served, lambda alteration, _: service.alter_topic(alteration)),
        ServedCall(
            rpcs.REASSIGN.served,
            lambda r, _: service.reassign(
                r.partitions, throttle_bytes_per_s=r.throttle_bytes_per_s, validate_only=r.validate_only
            ),
        ),
        ServedCall(rpcs.LIST_REASSIGNMENTS.served, lambda _, caller: service.list_reassignments()),
        ServedCall(rpcs.ELECT_PREFERRED.served, lambda names, _: service.elect_preferred(names)),
        ServedCall(
            rpcs.ELECT_UNCLEAN.served,
            lambda r, _: service.elect_unclean(r.partitions, validate_only=r.validate_only),
        ),
        ServedCall(
            rpcs.DRAIN_BROKER.served,
            lambda r, _: service.drain_broker(
                r.broker, replicas=r.replicas, undo=r.undo, throttle_bytes_per_s=r.throttle_bytes_per_s
            ),
        ),
        ServedCall(
            rpcs.CHECK_BROKER.served, lambda r, _: service.check_broker(r.broker, end_drain=r.end_drain)
        ),
        ServedCall(rpcs.DESCRIBE_CLUSTER.served, lambda _, caller: service.describe_cluster()),
        ServedStream(rpcs.STATE_CHANGES.served, state_changes),
    ]
