"""Judges where the records are that were acknowledged with acks=all.

At the moment at which the acknowledgement arrives, the record is on the disk of every member of the ISR that
ZooKeeper has recorded, and there are at least min.insync.replicas of these. At the moment at which ZooKeeper
records another leader or another ISR, each member of it has every record that was acknowledged before. So a
rule that is broken shows at once, and not only if the one broker that has the record is lost later.
"""

from __future__ import annotations

from typing import Final

from strandline.ids import TopicPartition
from strandline.simulation.engine.zookeeper.isr_history import IsrWrite
from strandline_lab.simulation.judging.judge import Judge, Problem
from strandline_lab.simulation.judging.log_ends import LogEnds
from strandline_lab.simulation.stage import Acknowledged, Stage

CHECK: Final = "copies"


class Copies(Judge):
    """Looks at the disks for each acknowledged record, and for each change of an ISR."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._history = stage.isr_history
        self._looked_at = 0
        """How many of its writes."""
        self._ends = LogEnds(stage.cluster)
        self._last: dict[TopicPartition, Acknowledged] = {}
        """The acknowledged record with the highest offset."""
        self._found: dict[TopicPartition, str] = {}
        """The first finding of each partition."""

    def start(self) -> None:
        self._stage.on_acknowledged.append(self._acknowledged)
        self._stage.world.zookeeper.on_committed.append(self._committed)

    def problems(self) -> list[Problem]:
        return [Problem(CHECK, f"{name}: {said}") for name, said in self._found.items()]

    def _acknowledged(self, record: Acknowledged) -> None:
        last = self._last.get(record.name)
        if last is None or record.offset > last.offset:
            self._last[record.name] = record
        self._history.catch_up()
        state = self._history.states.get(record.name)
        if state is None or not self._judged(record):
            return
        ends = self._log_ends(record.name)
        copies = [broker for broker, end in ends.items() if end > record.offset]
        lack = [broker for broker in state.isr_ids if broker not in copies]
        said = f"offset {record.offset} was acknowledged at {self._stage.now_s:.3f} s, and"
        if lack:
            self._found[record.name] = f"{said} {lack} of the ISR {state.isr_ids} do not have it: {ends}"
        elif len(copies) < record.min_insync:
            self._found[record.name] = f"{said} only {copies} have it: {ends}"

    def _committed(self) -> None:
        self._history.catch_up()
        writes = self._history.writes
        for write in writes[self._looked_at :]:
            self._changed(write)
        self._looked_at = len(writes)

    def _changed(self, write: IsrWrite) -> None:
        record = self._last.get(write.name)
        if record is None or not self._judged(record):
            return
        ends, after = self._log_ends(write.name), write.after
        lack = [broker for broker in after.isr_ids if ends.get(broker, 0) <= record.offset]
        if lack:
            self._found[write.name] = (
                f"the ISR became {after.isr_ids} at {self._stage.now_s:.3f} s, with leader {after.leader} in "
                f"epoch {after.leader_epoch}, and {lack} do not have offset {record.offset}, which was "
                f"acknowledged before: {ends}"
            )

    def _judged(self, record: Acknowledged) -> bool:
        """False once a partition has a finding, or may have lost records by design (E3)."""
        if record.name in self._found:
            return False
        if record.name in self._history.lossy:
            return record.synced and not self._stage.disks_spoiled
        return record.synced or not self._stage.power_losses

    def _log_ends(self, name: TopicPartition) -> dict[int, int]:
        return {broker: self._ends.end(broker, name) for broker in self._stage.cluster.broker_ids}
