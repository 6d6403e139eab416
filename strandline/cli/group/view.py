"""Shows a group as JSON, and warns of mixed ones. Pure."""

from __future__ import annotations

from typing import Any

from strandline.consumer.described.view import GroupView, mixed_advice
from strandline.report.text.partition_names import by_topic
from strandline.vocabulary.groups import CLASSIC


def mixed_warning(view: GroupView) -> str:
    """The warning for a mixed group."""
    return f"warning: {mixed_advice(view)}"


def view_json(view: GroupView) -> dict[str, Any]:
    """The shape of `group describe -o json` (docs/use/cli.md)."""
    group, coordinator = view.group, view.coordinator
    return {
        "group": group.group,
        "state": group.state,
        "generation": group.generation,
        "type": group.type or CLASSIC,
        "target_epoch": group.target_epoch or None,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "coordinator": {"id": coordinator.id, "host": coordinator.host, "port": coordinator.port},
        "reason": group.reason,
        "caused_by": group.caused_by,
        "mixed": view.mixed,
        "rebalance_protocols": {name: list(members) for name, members in view.sides.items()},
        "lag": view.lag,
        "members": [
            {
                "member": member.member,
                "instance": member.instance,
                "client_id": member.client_id,
                "host": member.host,
                "rebalance_protocol": member.rebalance_protocol,
                "topics": None if member.topics is None else list(member.topics),
                "assigned": None if member.assigned is None else by_topic(member.assigned),
                "owned": by_topic(member.owned),
                "protocol": member.protocol,
                "epoch": member.epoch or None,
                "revoking": by_topic(member.revoking),
            }
            for member in view.members
        ],
        "partitions": [
            {
                "topic": partition.name.topic,
                "partition": partition.name.partition,
                "committed": partition.committed,
                "start": partition.start,
                "end": partition.end,
                "lag": partition.lag,
                "note": partition.note or None,
                "owner": partition.owner,
                "assigned_to": partition.assigned_to,
            }
            for partition in view.partitions
        ],
    }
