"""Judges every acknowledgement with acks=all at the moment at which it arrives.

The record is then on the disk of every member of the ISR that ZooKeeper has recorded, and there are at least
min.insync.replicas of these. So a rule that is broken shows at once, and not only if the one broker that has
the record is lost later.
"""

from __future__ import annotations

from typing import Final

from strandline.ids import TopicPartition
from strandline.simulation.judging.isr_history import IsrHistory
from strandline.simulation.judging.judge import Judge, Problem
from strandline.simulation.judging.log_ends import LogEnds
from strandline.simulation.stage import Acknowledged, Stage

CHECK: Final = "copies"


class Copies(Judge):
    """Looks at the disks for each acknowledged record."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._history = IsrHistory(stage.world.zookeeper)
        self._ends = LogEnds(stage.cluster)
        self._found: dict[TopicPartition, str] = {}
        """The first finding of each partition."""

    def start(self) -> None:
        self._stage.on_acknowledged.append(self._look)

    def problems(self) -> list[Problem]:
        return [Problem(CHECK, f"{name}: {said}") for name, said in self._found.items()]

    def _look(self, record: Acknowledged) -> None:
        lost = self._stage.power_losses
        if record.name in self._found or (lost and not record.synced):
            return
        self._history.catch_up()
        state = self._history.states.get(record.name)
        if state is None or record.name in self._history.lossy:
            return
        members = state.isr_ids
        ends = {broker: self._ends.end(broker, record.name) for broker in self._brokers()}
        copies = [broker for broker, end in ends.items() if end > record.offset]
        lack = [broker for broker in members if broker not in copies]
        said = f"offset {record.offset} was acknowledged at {self._stage.now_s:.3f} s, and"
        if lack:
            self._found[record.name] = f"{said} {lack} of the ISR {members} do not have it: {ends}"
        elif len(copies) < record.min_insync:
            self._found[record.name] = f"{said} only {copies} have it: {ends}"

    def _brokers(self) -> range:
        cluster = self._stage.cluster
        return range(cluster.first_id, cluster.first_id + len(cluster.brokers))
