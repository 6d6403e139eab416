"""Judges what ZooKeeper held at every moment: leaders, leader epochs and in-sync replicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.ids import NO_BROKER, NO_EPOCH
from strandline.vocabulary.metadata import PartitionState
from strandline_lab.simulation.judging.judge import Judge, Problem
from strandline_lab.simulation.stage import Stage

CHECK: Final = "elections"


class Elections(Judge):
    """Each write of an `isr` znode follows from the state before it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._history = stage.isr_history

    def problems(self) -> list[Problem]:
        return [Problem(CHECK, sentence) for sentence in self._broken()]

    def _broken(self) -> Iterator[str]:
        self._history.catch_up()
        for write in self._history.writes:
            name, zxid, before, after, strangers = write
            where = f"{name}, zxid {zxid:x}"
            if before is not None:
                yield from (f"{where}: {each}" for each in transition(before, after))
                if write.begins_lossy and not self._allowed(name.topic):
                    yield f"{where}: broker {after.leader} leads with a loss, and no disk has lost anything"
            for member in strangers:
                yield f"{where}: broker {member.broker} joins the ISR, and is not registered or shuts down"

    def _allowed(self, topic: str) -> bool:
        return self._stage.disks_failed or topic in self._stage.unclean_topics


def transition(before: PartitionState, after: PartitionState) -> Iterator[str]:
    """What is wrong with a state of a partition that follows another one."""
    said = (
        f"epoch {before.leader_epoch} of broker {before.leader} and ISR {before.isr_ids}, then "
        f"epoch {after.leader_epoch} of broker {after.leader} and ISR {after.isr_ids}"
    )
    if after.leader != NO_BROKER and after.leader not in after:
        yield f"a leader is not in sync: {said}"
    if after.leader_epoch < before.leader_epoch:
        yield f"the leader epoch fell: {said}"
    if before.leader_epoch == NO_EPOCH:
        return
    if after.leader_epoch == before.leader_epoch:
        if after.leader not in (before.leader, NO_BROKER):
            yield f"an epoch has two leaders: {said}"
    elif after.lossy_epoch != after.leader_epoch and not set(after.isr_ids) <= set(before.isr_ids):
        yield f"a clean election adds members to the ISR: {said}"
