"""Mutations that break the rules of the high watermark and the commit queue (H)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.proof.mutation import Mutation

_PARTITION: Final = "strandline/broker/core/replication/leader_partition.py"
_ISR: Final = "strandline/broker/core/replication/isr.py"

WATERMARK: Final = (
    Mutation(
        "a new leader reports its own high watermark at once",
        "H1",
        _PARTITION,
        "        return self.high_watermark >= self.epoch_start\n",
        "        return True\n",
        seed=3,
    ),
    Mutation(
        "a follower that has reported nothing in this epoch counts as having everything",
        "H2",
        _PARTITION,
        "            broker: Progress(None, Offset(-1), log_end_offset, now)\n",
        "            broker: Progress(None, log_end_offset, log_end_offset, now)\n",
        seed=4,
    ),
    Mutation(
        "the high watermark ignores the slowest member",
        "H2",
        _PARTITION,
        "            if progress.log_end_offset < candidate:\n",
        "            if progress.log_end_offset > candidate:\n",
        seed=1,
    ),
    Mutation(
        "a change of the ISR counts before it is written",
        "H3",
        _ISR,
        """        ids = {member.broker for member in self.members}
        if self.change is not None:
            ids.update(member.broker for member in self.change.after)
        return frozenset(ids)""",
        """        after = self.members if self.change is None else self.change.after
        return frozenset(member.broker for member in after)""",
        seed=1,
    ),
    Mutation(
        "the high watermark moves below min.insync.replicas",
        "H5",
        _PARTITION,
        """        if not self.enough_in_sync:
            return False
        candidate""",
        """        candidate""",
        seed=4,
    ),
    Mutation(
        "requests outlive their leadership as committed",
        "H6",
        "strandline/broker/replicas/leadership.py",
        """            ticket.done(
                OutcomeUnknown(""",
        """            ticket.done(ticket.produced)
            _ = (
                OutcomeUnknown(""",
        seed=3,
    ),
    Mutation(
        "a request is answered one record before it is committed",
        "H6",
        "strandline/broker/core/replication/commit_queue.py",
        "        while entries and entries[0].end_offset <= high_watermark:\n",
        "        while entries and entries[0].end_offset <= high_watermark + 1:\n",
        seed=1,
    ),
)
