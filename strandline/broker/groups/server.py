"""The calls of the service `Groups`."""

from __future__ import annotations

from strandline.adapters.codecs import groups as rpcs
from strandline.adapters.guarded_calls import guarded
from strandline.broker.groups.handlers import GroupHandlers
from strandline.ports import Served, ServedCall
from strandline.security.access import Access


def group_calls(handlers: GroupHandlers, access: Access) -> list[Served]:
    """For every listener of one broker."""
    calls: list[Served] = [
        ServedCall(rpcs.FIND_COORDINATOR.served, handlers.find_coordinator),
        ServedCall(rpcs.JOIN_GROUP.served, handlers.join),
        ServedCall(rpcs.SYNC_GROUP.served, handlers.sync),
        ServedCall(rpcs.HEARTBEAT.served, handlers.heartbeat),
        ServedCall(rpcs.LEAVE_GROUP.served, handlers.leave),
        ServedCall(rpcs.OFFSET_COMMIT.served, handlers.commit),
        ServedCall(rpcs.OFFSET_FETCH.served, handlers.fetch_offsets),
        ServedCall(rpcs.REPORT_OWNERSHIP.served, handlers.report),
        ServedCall(rpcs.REPORT_TASKS.served, handlers.report_tasks),
        ServedCall(rpcs.LIST_GROUPS.served, handlers.list_groups),
        ServedCall(rpcs.DESCRIBE_GROUP.served, handlers.describe),
        ServedCall(rpcs.DELETE_GROUP.served, handlers.delete),
    ]
    return guarded(calls, access)
