"""The APIs of consumer groups, each with its handler."""

from __future__ import annotations

from typing import Any

from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.kafka.answers import Answers
from strandline.broker.kafka.call import Api, answered
from strandline.broker.kafka.handlers.groups.administration import GroupAdministrationApi
from strandline.broker.kafka.handlers.groups.consumers import ConsumersApi
from strandline.broker.kafka.handlers.groups.membership import MembersApi
from strandline.broker.kafka.handlers.groups.offsets import GroupOffsetsApi
from strandline.broker.kafka.wire import apis
from strandline.config.services.broker import BrokerSettings
from strandline.ports import Clock
from strandline.security.access import Access


def group_apis(
    groups: GroupHandlers, settings: BrokerSettings, access: Access, clock: Clock
) -> tuple[Api[Any, Any], ...]:
    """A join, a sync and a heartbeat end with their connection: without it their member is not there."""
    members = MembersApi(groups, rebalance_timeout_ms_max=settings.group_rebalance_timeout_ms_max)
    consumers = ConsumersApi(groups, access)
    offsets = GroupOffsetsApi(groups)
    administration = GroupAdministrationApi(groups, access)
    large = Answers(clock)
    return (
        Api(apis.JOIN_GROUP, answered(members.join), urgent=True),
        Api(apis.SYNC_GROUP, answered(members.sync), urgent=True),
        Api(apis.HEARTBEAT, answered(members.heartbeat), urgent=True),
        Api(apis.CONSUMER_GROUP_HEARTBEAT, answered(consumers.heartbeat), urgent=True, changes=True),
        Api(apis.LEAVE_GROUP, answered(members.leave), urgent=True, changes=True),
        Api(apis.OFFSET_COMMIT, answered(offsets.commit), urgent=True, changes=True),
        Api(apis.TXN_OFFSET_COMMIT, answered(offsets.commit_in_transaction), urgent=True, changes=True),
        Api(apis.OFFSET_FETCH, large.bounded(offsets.fetch)),
        Api(apis.OFFSET_DELETE, answered(offsets.delete), changes=True),
        Api(apis.LIST_GROUPS, large.bounded(administration.list)),
        Api(apis.DESCRIBE_GROUPS, large.bounded(administration.describe)),
        Api(apis.CONSUMER_GROUP_DESCRIBE, large.bounded(consumers.describe)),
        Api(apis.DELETE_GROUPS, answered(administration.delete), changes=True),
    )
