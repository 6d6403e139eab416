"""The calls of the service `Admin`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from strandline.adapters.codecs import acls as acl_rpcs
from strandline.adapters.codecs import admin as rpcs
from strandline.adapters.codecs import group_configs as group_rpcs
from strandline.adapters.codecs import quotas as quota_rpcs
from strandline.adapters.codecs import users as user_rpcs
from strandline.controller.api.changes import CHANGES, changes
from strandline.controller.api.checks import AdminChecks
from strandline.controller.api.service import AdminService
from strandline.controller.api.state_changes_stream import StateChangeStreams
from strandline.ports import Caller, Reply, ServedStream
from strandline.serving.serve import CallRow, Row
from strandline.vocabulary.admin import StateChangesAnswer, StateChangesQuery


def admin_rows(service: AdminService, streams: StateChangeStreams, checks: AdminChecks) -> list[Row]:
    """The calls, for every listener of one controller."""

    async def state_changes(
        requests: AsyncIterator[StateChangesQuery], reply: Reply[StateChangesAnswer], _: Caller
    ) -> None:
        query = await anext(requests, None)
        if query is not None:
            async with aclosing(streams.answers(query)) as answers:
                async for answer in answers:
                    await reply(answer)

    rows: list[Row] = [
        CallRow(
            rpcs.CREATE_TOPICS.served,
            lambda r, _: service.create_topics(r.topics, validate_only=r.validate_only, internal=r.internal),
            checks.create_topics,
        ),
        CallRow(
            rpcs.DELETE_TOPICS.served,
            lambda r, _: service.delete_topics(r.topics, r.topic_ids),
            checks.delete_topics,
        ),
        CallRow(rpcs.ALTER_TOPIC.served, lambda r, _: service.alter_topic(r), checks.alter_topic),
        CallRow(rpcs.REASSIGN.served, lambda asked, _: service.reassign(asked)),
        CallRow(rpcs.LIST_REASSIGNMENTS.served, lambda _, caller: service.list_reassignments()),
        CallRow(rpcs.ELECT_PREFERRED.served, lambda names, _: service.elect_preferred(names)),
        CallRow(rpcs.ELECT_UNCLEAN.served, lambda asked, _: service.elect_unclean(asked)),
        CallRow(rpcs.DRAIN_BROKER.served, lambda asked, _: service.drain_broker(asked)),
        CallRow(
            rpcs.CHECK_BROKER.served,
            lambda r, _: service.check_broker(r.broker, end_drain=r.end_drain),
            checks.check_broker,
        ),
        CallRow(rpcs.FORGET_BROKER.served, lambda r, _: service.forget_broker(r.broker)),
        CallRow(rpcs.BALANCE.served, lambda asked, _: service.balance(asked)),
        CallRow(rpcs.DESCRIBE_BALANCE.served, lambda _, caller: service.describe_balance()),
        CallRow(rpcs.ALTER_BALANCE.served, lambda action, _: service.alter_balance(action)),
        CallRow(rpcs.DESCRIBE_CLUSTER.served, lambda _, caller: service.describe_cluster()),
        CallRow(acl_rpcs.CREATE_ACLS.served, lambda bindings, _: service.create_acls(bindings)),
        CallRow(acl_rpcs.DELETE_ACLS.served, lambda filters, _: service.delete_acls(filters)),
        CallRow(acl_rpcs.DESCRIBE_ACLS.served, lambda wanted, _: service.describe_acls(wanted)),
        CallRow(user_rpcs.ALTER_USERS.served, lambda changes, _: service.alter_users(changes)),
        CallRow(user_rpcs.DESCRIBE_USERS.served, lambda names, _: service.describe_users(names)),
        CallRow(
            quota_rpcs.ALTER_CLIENT_QUOTAS.served,
            lambda r, _: service.alter_client_quotas(r.alterations, validate_only=r.validate_only),
        ),
        CallRow(
            quota_rpcs.DESCRIBE_CLIENT_QUOTAS.served, lambda wanted, _: service.describe_client_quotas(wanted)
        ),
        CallRow(
            group_rpcs.ALTER_GROUP_CONFIGS.served,
            lambda asked, _: service.alter_group_configs(asked),
            checks.alter_group_configs,
        ),
        CallRow(
            group_rpcs.DESCRIBE_GROUP_CONFIGS.served,
            lambda groups, caller: service.describe_group_configs(groups),
            checks.describe_group_configs,
        ),
        ServedStream(rpcs.STATE_CHANGES.served, state_changes, pushes=True),
    ]
    return [_with_changes(row) for row in rows]


def _with_changes(row: Row) -> Row:
    """The row, with what the audit log has of its changes."""
    if isinstance(row, ServedStream) or row.rpc.path not in CHANGES:
        return row
    return replace(row, changes=partial(changes, row.rpc.path))
