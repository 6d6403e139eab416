"""Reads what a plan to reset offsets needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from strandline.client.offsets import known
from strandline.client.resets.plan import Bounds, Chosen, Reset, Since, Target, chosen_partitions, plan
from strandline.errors import UnknownTopicId
from strandline.ids import TopicPartition
from strandline.vocabulary.log import EARLIEST, LATEST, ListedOffset
from strandline.vocabulary.log_position import same_topic

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
    committed = await admin.group_offsets(group)
    starts = known(await admin.list_offsets(dict.fromkeys(names, EARLIEST)))
    # The ends are read before the times: where no record is recent enough, the next one will be.
    ends = known(await admin.list_offsets(dict.fromkeys(names, LATEST)))
    at_time: Mapping[TopicPartition, ListedOffset] = {}
    if isinstance(target, Since):
        at_time = known(await admin.list_offsets(dict.fromkeys(names, target.at_ms)))
    bounds = {each: _bounds(starts[each], ends[each], at_time.get(each)) for each in names}
    of_these = {
        each: at.offset
        for each, at in committed.items()
        if each in bounds and same_topic(at.topic_id, bounds[each].topic_id)
    }
    return plan(target, of_these, bounds)


def _bounds(start: ListedOffset, end: ListedOffset, at_time: ListedOffset | None) -> Bounds:
    """Raises UnknownTopicId if they are of different topics."""
    for other in (start, at_time):
        if other is not None and not same_topic(other.topic_id, end.topic_id):
            raise UnknownTopicId(
                f"{end.name}: the topic was made anew while its offsets were read, {other.topic_id} is "
                f"{end.topic_id} now: make the plan again"
            )
    at = None if at_time is None or at_time.offset < 0 else at_time.offset
    return Bounds(start.offset, end.offset, at, end.topic_id)
