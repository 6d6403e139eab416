"""Reads a group, as those who look at it see it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from strandline.consumer.described.view import GroupView, group_view, lag_of, members_of, partitions_of
from strandline.errors import StrandlineError
from strandline.ids import NO_EPOCH
from strandline.vocabulary.groups import CommittedOffset
from strandline.vocabulary.log import LATEST

if TYPE_CHECKING:
    from strandline.client.admin.admin import Admin
    from strandline.ids import TopicPartition

Answer = TypeVar("Answer")

ASKED_AT_ONCE: Final = 16
"""Groups whose offsets are asked for at the same time."""


async def read_group(admin: Admin, group: str) -> GroupView:
    """Ask the coordinator about the group, and the leaders for the ends of its partitions.

    A partition whose leader does not answer has no end. Raises GroupIdNotFound, CoordinatorNotAvailable.
    """
    description = await admin.describe_group(group)
    committed = await admin.group_offsets(group)
    wanted = partitions_of(members_of(description.group), committed)
    ends = _told(await admin.list_offsets(dict.fromkeys(wanted, LATEST)))
    epochs = {
        name: each.leader_epoch
        for name, each in committed.items()
        if name in ends and each.leader_epoch != NO_EPOCH
    }
    epoch_ends = _told(await admin.list_epoch_ends(epochs))
    return group_view(description.group, description.coordinator, committed, ends, epoch_ends)


async def read_lags(admin: Admin, groups: Iterable[str]) -> Mapping[str, int | None]:
    """The lag of each group in all partitions in which it has committed an offset; None is unknown. One call
    for each group, and one for the ends of all partitions at each of their leaders."""
    waiting = iter(groups)
    committed: dict[str, Mapping[TopicPartition, CommittedOffset]] = {}
    lags: dict[str, int | None] = {}

    async def ask() -> None:
        for group in waiting:
            try:
                committed[group] = await admin.group_offsets(group)
            except StrandlineError:
                lags[group] = None

    async with asyncio.TaskGroup() as tasks:
        for _ in range(ASKED_AT_ONCE):
            tasks.create_task(ask())
    wanted = {name: LATEST for offsets in committed.values() for name in offsets}
    ends = _told(await admin.list_offsets(wanted))
    return lags | {group: lag_of(offsets, ends) for group, offsets in committed.items()}


def _told(answers: Mapping[TopicPartition, Answer | StrandlineError]) -> dict[TopicPartition, Answer]:
    """What leaders have said; those that could not be asked are left out."""
    return {name: each for name, each in answers.items() if not isinstance(each, StrandlineError)}
