"""What a record of the log means for its group, to the coordinator that wrote it and to one that loads it.

A coordinator decides first, and has its decision written. What may be true only once the log has it (an
offset, its removal, the assignment of a generation) changes here alone: as the write is settled, and as
another coordinator loads the record. So a new coordinator has what the old one had, by construction.
"""

from __future__ import annotations

from typing import assert_never

from strandline.broker.core.consumer_groups.records import ConsumerRecord
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.stored import GroupRecord, OffsetRecord, StoredRecord


def replay(group: Group, record: StoredRecord, position: int, producer_id: int | None = None) -> None:
    """The log has this record of the group at this position (`Offsets`). `producer_id`: of the transaction
    that it is part of; only offsets are written in one.

    Results of writes may come in any order, and the group may have gone on since: a record of an earlier
    write undoes nothing of a later one, and one of a generation that the group has left changes nothing. Nor
    does one that says that the group is gone: it is forgotten as soon as it has no offset.
    """
    match record:
        case OffsetRecord():
            group.offsets.replay(record.name, record.committed, position, producer_id)
        case GroupRecord():
            if record.value is not None and record.assigns:
                group.replay(record.value)
        case ConsumerRecord():
            pass  # decided when it was written; a coordinator that loads it does so in `Coordinator.load`
        case _:
            assert_never(record)
