"""Reads a group, as those who look at it see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline.consumer.described.view import GroupView, group_view, members_of, partitions_of
from strandline.errors import StrandlineError
from strandline.vocabulary.log import LATEST

if TYPE_CHECKING:
    from strandline.client.admin.admin import Admin


async def read_group(admin: Admin, group: str) -> GroupView:
    """Ask the coordinator about the group, and the leaders for the ends of its partitions.

    A partition whose leader does not answer has no end. Raises GroupIdNotFound, CoordinatorNotAvailable.
    """
    description = await admin.describe_group(group)
    committed = await admin.group_offsets(group)
    wanted = partitions_of(members_of(description.group), committed)
    found = await admin.list_offsets(dict.fromkeys(wanted, LATEST))
    ends = {name: end for name, end in found.items() if not isinstance(end, StrandlineError)}
    return group_view(description.group, description.coordinator, committed, ends)
