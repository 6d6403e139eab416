"""Judges what ZooKeeper held at every moment: leaders, leader epochs and in-sync replicas.

ZooKeeper's log is played again from its beginning, so no state is missed, however short it lasted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.ids import NO_BROKER, NO_EPOCH
from strandline.ports import Create, MultiFailed, NoNode, SetData
from strandline.simulation.judging.judge import Judge, Problem
from strandline.simulation.stage import Stage
from strandline.simulation.zookeeper.znode_tree import ZnodeTree
from strandline.vocabulary.metadata import PartitionState

CHECK: Final = "elections"
_ISR: Final = re.compile(r"/brokers/topics/([^/]+)/(\d+)/isr")


class Elections(Judge):
    """Each write of an `isr` znode follows from the state before it."""

    def __init__(self, stage: Stage) -> None:
        self._log = stage.world.zookeeper.log

    def problems(self) -> list[Problem]:
        return [Problem(CHECK, sentence) for sentence in self._broken()]

    def _broken(self) -> Iterator[str]:
        tree = ZnodeTree()
        states: dict[str, PartitionState] = {}
        for entry in self._log:
            if entry.request.ends_session:
                tree.end_session(entry.session.id)
                continue
            writes = [each for each in entry.request.operations if isinstance(each, Create | SetData)]
            records = [each for each in writes if _ISR.fullmatch(each.path)]
            strangers = [_strangers(tree, states, each) for each in records]
            try:
                tree.apply_all(entry.request.operations, entry.session.id, entry.zxid)
            except MultiFailed:
                continue
            for record, unregistered in zip(records, strangers, strict=True):
                before, after = states.get(record.path), _loaded(record)
                states[record.path] = after
                if before is not None and isinstance(record, SetData):
                    found = [*transition(before, after), *unregistered]
                    yield from (f"{record.path}, zxid {entry.zxid:x}: {each}" for each in found)


def _loaded(record: Create | SetData) -> PartitionState:
    found = _ISR.fullmatch(record.path)
    assert found is not None
    return znodes.load_isr(found[1], int(found[2]), record.data)


def transition(before: PartitionState, after: PartitionState) -> Iterator[str]:
    """What is wrong with a state of a partition that follows another one."""
    epochs = f"epoch {before.leader_epoch} of broker {before.leader} and ISR {before.isr_ids}, then "
    said = epochs + f"epoch {after.leader_epoch} of broker {after.leader} and ISR {after.isr_ids}"
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


def _strangers(
    tree: ZnodeTree, states: Mapping[str, PartitionState], record: Create | SetData
) -> Sequence[str]:
    """Members that this write adds to the ISR of its epoch, in a life that may not join."""
    before, after = states.get(record.path), _loaded(record)
    if before is None or before.leader_epoch != after.leader_epoch:
        return ()
    wrong = []
    for member in after.isr:
        if member in before.isr:
            continue
        who = f"broker {member.broker} joins the ISR in life {member.broker_epoch:x}"
        try:
            znode = tree.get(znodes.broker(member.broker))
        except NoNode:
            wrong.append(f"{who}, and is not registered")
            continue
        if znode.czxid != member.broker_epoch:
            wrong.append(f"{who}, and is registered in life {znode.czxid:x}")
        elif znodes.load_registration(member.broker, znode.data, znode.czxid).shutting_down:
            wrong.append(f"{who}, and is shutting down")
    return wrong
