"""Judges the logs on the brokers' disks: all in-sync replicas of a partition have the same bytes.

Every broker runs and no client writes when they are compared, so their logs end at the same offset too.
Compacted logs are left out: each broker compacts its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.storage.segments.scanning import Bad, scan
from strandline.broker.storage.segments.segment import LOG_SUFFIX, offset_in
from strandline.broker.storage.state_files.epoch_file import read_epochs
from strandline.broker.storage.state_files.log_state import LogState
from strandline.ids import PartitionKey
from strandline.ports import Files, NoNode
from strandline_lab.simulation.judging.folders import ReplicaFolder, replica_folders
from strandline_lab.simulation.judging.judge import Judge, Problem, left_after
from strandline_lab.simulation.stage import Stage

CHECK: Final = "replicas"
EQUAL_S_MAX: Final = 20.0
"""After the last client has finished: until the logs of all in-sync replicas are equal."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a log, with its bytes."""

    base_offset: int
    next_offset: int
    epoch: int
    content: bytes


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """The log of one broker. `listed`: the epoch of each batch by the replica's list of epochs."""

    broker: int
    batches: tuple[Batch, ...]
    listed: tuple[int, ...]
    damage: str = ""


class Replicas(Judge):
    """Compares the logs once everything is healed."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._differ: list[str] = []

    async def finish(self) -> None:
        self._differ = await left_after(self._stage, EQUAL_S_MAX, self._compared)

    def problems(self) -> list[Problem]:
        return [Problem(CHECK, sentence) for sentence in self._differ]

    def _compared(self) -> Iterator[str]:
        tree = self._stage.world.zookeeper.servers[0].tree
        for key, found in self._folders().items():
            topic, number = found[0].description.name
            try:
                topic_id = znodes.load_topic(topic, tree.get(znodes.topic(topic)).data).topic_id
                state = isr_znodes.load_isr(topic, number, tree.get(znodes.isr(topic, number)).data)
            except NoNode:
                continue  # the topic is deleted
            if topic_id == key.topic_id:
                logs = {each.broker: read_log(each.broker, each.path, each.files) for each in found}
                yield from (f"{topic}-{number}: {each}" for each in compared(logs, state.isr_ids))

    def _folders(self) -> Mapping[PartitionKey, list[ReplicaFolder]]:
        """The replicas of all partitions, without those of compacted topics."""
        found: defaultdict[PartitionKey, list[ReplicaFolder]] = defaultdict(list)
        for each in replica_folders(self._stage):
            if "compact" not in each.description.config.get("cleanup.policy", ""):
                found[each.description.key].append(each)
        return found


def read_log(broker: int, folder: Path, files: Files) -> ReplicaLog:
    """The log of a replica. Its list of epochs may be missing if it never had a record. Batches below the
    log's start are deleted, though the file of a segment may still have them."""
    batches: list[Batch] = []
    state = LogState.load(folder, files=files)
    start = 0 if state is None else state.log_start_offset
    sizes = files.sizes(folder)
    damage, epochs = "", read_epochs(folder, files=files)
    for base, name in sorted(
        (base, name) for name in sizes if (base := offset_in(name, LOG_SUFFIX)) is not None
    ):
        descriptor = files.open(folder / name)
        try:
            for item in scan(files, descriptor, sizes[name], base):
                if isinstance(item, Bad):
                    damage = f"{name}, byte {item.position}: {item.reason}"
                    break
                if item.next_offset > start:
                    content = files.read(descriptor, item.size, item.position)
                    batches.append(Batch(item.base_offset, item.next_offset, item.leader_epoch, content))
        finally:
            files.close(descriptor)
    listed = tuple(
        -1 if epochs is None else epochs.epoch_at(max(each.base_offset, start)) for each in batches
    )
    return ReplicaLog(broker, tuple(batches), listed, damage)


def compared(logs: Mapping[int, ReplicaLog], in_sync: tuple[int, ...]) -> Iterator[str]:
    """What is wrong with the logs of the in-sync replicas; the first of them is compared with the others."""
    for broker in in_sync:
        if broker not in logs:
            yield f"broker {broker} is in sync, and has no log of this"
            return
    members = [logs[broker] for broker in in_sync]
    for log in members:
        if log.damage:
            yield f"the log of broker {log.broker} is damaged: {log.damage}"
        for batch, listed in zip(log.batches, log.listed, strict=True):
            if batch.epoch != listed:
                said = f"has epoch {batch.epoch} at offset {batch.base_offset}, and lists {listed}"
                yield f"broker {log.broker} {said}"
                break
    for other in members[1:]:
        yield from _first_difference(members[0], other)


def _first_difference(one: ReplicaLog, two: ReplicaLog) -> Iterator[str]:
    start = max((log.batches[0].base_offset for log in (one, two) if log.batches), default=0)
    for mine, theirs in zip(_from(one, start), _from(two, start), strict=False):
        if mine != theirs:
            yield (
                f"brokers {one.broker} and {two.broker} differ at offset {mine.base_offset}: "
                f"{len(mine.content)} bytes of epoch {mine.epoch}, and {len(theirs.content)} bytes of "
                f"epoch {theirs.epoch} at {theirs.base_offset}"
            )
            return
    if _end(one) != _end(two):
        ends = f"ends at {_end(one)}, that of broker {two.broker} at {_end(two)}"
        yield f"the log of broker {one.broker} {ends}"


def _from(log: ReplicaLog, start: int) -> list[Batch]:
    return [batch for batch in log.batches if batch.base_offset >= start]


def _end(log: ReplicaLog) -> int:
    return log.batches[-1].next_offset if log.batches else 0
