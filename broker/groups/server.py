"""The calls of the service `Groups`."""

from __future__ import annotations

from strandline.broker.groups import wire
from strandline.broker.groups.handlers import GroupHandlers
from strandline.ports import Served, ServedCall


def group_calls(handlers: GroupHandlers) -> list[Served]:
    """For every listener of one broker."""
    return [
        ServedCall(wire.FIND_COORDINATOR, handlers.find_coordinator),
        ServedCall(wire.JOIN_GROUP, handlers.join),
        ServedCall(wire.SYNC_GROUP, handlers.sync),
        ServedCall(wire.HEARTBEAT, handlers.heartbeat),
        ServedCall(wire.LEAVE_GROUP, handlers.leave),
        ServedCall(wire.OFFSET_COMMIT, handlers.commit),
        ServedCall(wire.OFFSET_FETCH, handlers.fetch_offsets),
        ServedCall(wire.REPORT_OWNERSHIP, handlers.report),
        ServedCall(wire.REPORT_TASKS, handlers.report_tasks),
        ServedCall(wire.LIST_GROUPS, handlers.list_groups),
        ServedCall(wire.DESCRIBE_GROUP, handlers.describe),
        ServedCall(wire.DELETE_GROUP, handlers.delete),
    ]
