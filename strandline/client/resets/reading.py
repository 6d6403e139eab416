"""Reads what a plan to reset offsets needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strandline.client.offsets import Found
from strandline.client.resets.plan import Bounds, Chosen, Reset, Since, Target, chosen_partitions, plan
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.log import EARLIEST, LATEST

if TYPE_CHECKING:
    from strandline.client.admin.admin import Admin


async def read_plan(admin: Admin, group: str, chosen: Sequence[Chosen], target: Target) -> list[Reset]:
    """Read what the plan needs, and make it.

    Raises as `plan` and `chosen_partitions`, and the error that keeps a leader from answering: a partial plan
    would look like the whole.
    """
    metadata = await admin.metadata(sorted({each.topic for each in chosen}))
    there = {topic.name: [p.partition for p in topic.partitions] for topic in metadata.topics}
    names = chosen_partitions(chosen, there)
    committed = {each: at.offset for each, at in (await admin.group_offsets(group)).items()}
    starts = _all_known(await admin.list_offsets(dict.fromkeys(names, EARLIEST)))
    # The ends are read before the times: where no record is recent enough, the next one will be.
    ends = _all_known(await admin.list_offsets(dict.fromkeys(names, LATEST)))
    at_time: dict[TopicPartition, int] = {}
    if isinstance(target, Since):
        at_time = _all_known(await admin.list_offsets(dict.fromkeys(names, target.at_ms)))
    bounds = {
        each: Bounds(starts[each], ends[each], at if (at := at_time.get(each, -1)) >= 0 else None)
        for each in names
    }
    return plan(target, committed, bounds)


def _all_known(found: Found) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for name, end in found.items():
        if isinstance(end, StrandlineError):
            raise end
        offsets[name] = end.offset
    return offsets
