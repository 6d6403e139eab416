"""The calls of the service `Groups`."""

from __future__ import annotations

from strandline.adapters.codecs import groups as rpcs
from strandline.adapters.codecs.consumer_groups import CONSUMER_HEARTBEAT
from strandline.broker.groups.handlers import GroupHandlers
from strandline.serving.serve import CallRow, Row


def group_rows(handlers: GroupHandlers) -> list[Row]:
    """For every listener of one broker."""
    return [
        CallRow(rpcs.FIND_COORDINATOR.served, handlers.find_coordinator),
        CallRow(rpcs.JOIN_GROUP.served, handlers.join),
        CallRow(rpcs.SYNC_GROUP.served, handlers.sync),
        CallRow(rpcs.HEARTBEAT.served, handlers.heartbeat),
        CallRow(rpcs.LEAVE_GROUP.served, handlers.leave),
        CallRow(CONSUMER_HEARTBEAT.served, handlers.consumer_heartbeat),
        CallRow(rpcs.OFFSET_COMMIT.served, handlers.commit),
        CallRow(rpcs.TXN_OFFSET_COMMIT.served, handlers.commit_in_transaction),
        CallRow(rpcs.OFFSET_FETCH.served, handlers.fetch_offsets),
        CallRow(rpcs.REPORT_OWNERSHIP.served, handlers.report),
        CallRow(rpcs.REPORT_TASKS.served, handlers.report_tasks),
        CallRow(rpcs.LIST_GROUPS.served, handlers.list_groups),
        CallRow(rpcs.DESCRIBE_GROUP.served, handlers.describe_any),
        CallRow(rpcs.DELETE_GROUP.served, handlers.delete),
    ]
