"""The calls of the service `Admin`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from strandline.adapters.carried_out import CarryOut, carried_out
from strandline.adapters.codecs import acls as acl_rpcs
from strandline.adapters.codecs import admin as rpcs
from strandline.adapters.codecs import quotas as quota_rpcs
from strandline.adapters.codecs import users as user_rpcs
from strandline.adapters.guarded_calls import guarded
from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.telemetry.audit import Audit
from strandline.controller.api.askers import done_for_askers
from strandline.controller.api.audited_changes import changes_written
from strandline.controller.api.guarded import GuardedAdmin
from strandline.controller.api.service import AdminService
from strandline.controller.api.state_changes_stream import StateChangeStreams
from strandline.ports import Caller, Reply, Served, ServedCall, ServedStream
from strandline.security.access import Access
from strandline.security.quotas.bill import ClientQuotas
from strandline.vocabulary.admin import StateChangesAnswer, StateChangesQuery


def admin_calls(
    service: AdminService,
    streams: StateChangeStreams,
    access: Access,
    key: MemberKey,
    audit: Audit,
    quotas: ClientQuotas,
    carry_out: CarryOut,
) -> list[Served]:
    """The calls, for every listener of one controller. `carry_out` as `Activity.carry_out`."""
    topics = GuardedAdmin(service, access, key)

    async def state_changes(
        requests: AsyncIterator[StateChangesQuery], reply: Reply[StateChangesAnswer], _: Caller
    ) -> None:
        query = await anext(requests, None)
        if query is not None:
            async with aclosing(streams.answers(query)) as answers:
                async for answer in answers:
                    await reply(answer)

    calls: list[Served] = [
        ServedCall(rpcs.CREATE_TOPICS.served, topics.create_topics),
        ServedCall(rpcs.DELETE_TOPICS.served, topics.delete_topics),
        ServedCall(rpcs.ALTER_TOPIC.served, topics.alter_topic),
        ServedCall(rpcs.REASSIGN.served, lambda asked, _: service.reassign(asked)),
        ServedCall(rpcs.LIST_REASSIGNMENTS.served, lambda _, caller: service.list_reassignments()),
        ServedCall(rpcs.ELECT_PREFERRED.served, lambda names, _: service.elect_preferred(names)),
        ServedCall(rpcs.ELECT_UNCLEAN.served, lambda asked, _: service.elect_unclean(asked)),
        ServedCall(rpcs.DRAIN_BROKER.served, lambda asked, _: service.drain_broker(asked)),
        ServedCall(rpcs.CHECK_BROKER.served, topics.check_broker),
        ServedCall(rpcs.FORGET_BROKER.served, lambda r, _: service.forget_broker(r.broker)),
        ServedCall(rpcs.BALANCE.served, lambda asked, _: service.balance(asked)),
        ServedCall(rpcs.DESCRIBE_BALANCE.served, lambda _, caller: service.describe_balance()),
        ServedCall(rpcs.ALTER_BALANCE.served, lambda action, _: service.alter_balance(action)),
        ServedCall(rpcs.DESCRIBE_CLUSTER.served, lambda _, caller: service.describe_cluster()),
        ServedCall(acl_rpcs.CREATE_ACLS.served, lambda bindings, _: service.create_acls(bindings)),
        ServedCall(acl_rpcs.DELETE_ACLS.served, lambda filters, _: service.delete_acls(filters)),
        ServedCall(acl_rpcs.DESCRIBE_ACLS.served, lambda wanted, _: service.describe_acls(wanted)),
        ServedCall(user_rpcs.ALTER_USERS.served, lambda changes, _: service.alter_users(changes)),
        ServedCall(user_rpcs.DESCRIBE_USERS.served, lambda names, _: service.describe_users(names)),
        ServedCall(
            quota_rpcs.ALTER_CLIENT_QUOTAS.served,
            lambda r, _: service.alter_client_quotas(r.alterations, validate_only=r.validate_only),
        ),
        ServedCall(
            quota_rpcs.DESCRIBE_CLIENT_QUOTAS.served, lambda wanted, _: service.describe_client_quotas(wanted)
        ),
        ServedStream(rpcs.STATE_CHANGES.served, state_changes, pushes=True),
    ]
    written = carried_out(changes_written(calls, key, audit), carry_out)
    return guarded(done_for_askers(written, key, quotas), access)
