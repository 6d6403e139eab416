"""The calls of the service `Admin`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from strandline.adapters.rpc.member_key import MemberKey
from strandline.client.messages import StateChangesQuery
from strandline.controller.api import wire
from strandline.controller.api.requests import CreateTopics
from strandline.controller.api.service import AdminService
from strandline.controller.api.state_changes_stream import StateChangeStreams
from strandline.controller.core.state_changes import SelectedEvents
from strandline.controller.term.results import TopicOutcome
from strandline.ports import Caller, Reply, Served, ServedCall, ServedStream


def admin_calls(service: AdminService, streams: StateChangeStreams, key: MemberKey) -> list[Served]:
    """The calls, for every listener of one controller."""

    async def create_topics(request: CreateTopics, caller: Caller) -> Sequence[TopicOutcome]:
        if request.internal and (refusal := key.refusal(caller.member_key)) is not None:
            raise refusal
        return await service.create_topics(
            request.topics, validate_only=request.validate_only, internal=request.internal
        )

    async def state_changes(
        requests: AsyncIterator[StateChangesQuery], reply: Reply[SelectedEvents], _: Caller
    ) -> None:
        query = await anext(requests, None)
        if query is not None:
            async with aclosing(streams.tell(query)) as answers:
                async for answer in answers:
                    await reply(answer)

    return [
        ServedCall(wire.CREATE_TOPICS, create_topics),
        ServedCall(wire.DELETE_TOPICS, lambda names, _: service.delete_topics(names)),
        ServedCall(wire.ALTER_TOPIC, lambda alteration, _: service.alter_topic(alteration)),
        ServedCall(
            wire.REASSIGN,
            lambda r, _: service.reassign(
                r.moves, throttle_bytes_per_s=r.throttle_bytes_per_s, validate_only=r.validate_only
            ),
        ),
        ServedCall(wire.LIST_REASSIGNMENTS, lambda _, caller: service.list_reassignments()),
        ServedCall(wire.ELECT_PREFERRED, lambda names, _: service.elect_preferred(names)),
        ServedCall(
            wire.ELECT_UNCLEAN, lambda r, _: service.elect_unclean(r.names, validate_only=r.validate_only)
        ),
        ServedCall(
            wire.DRAIN_BROKER,
            lambda r, _: service.drain_broker(
                r.broker, replicas=r.replicas, undo=r.undo, throttle_bytes_per_s=r.throttle_bytes_per_s
            ),
        ),
        ServedCall(wire.CHECK_BROKER, lambda r, _: service.check_broker(r.broker, end_drain=r.end_drain)),
        ServedCall(wire.DESCRIBE_CLUSTER, lambda _, caller: service.describe_cluster()),
        ServedStream(wire.STATE_CHANGES, state_changes),
    ]
