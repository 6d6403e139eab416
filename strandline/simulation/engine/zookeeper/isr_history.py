"""Plays ZooKeeper's log again, to know what every `isr` znode held, however short it lasted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.ids import NO_EPOCH, TopicPartition
from strandline.ports import Create, MultiFailed, NoNode, SetData
from strandline.simulation.engine.zookeeper.ensemble import Ensemble
from strandline.simulation.engine.zookeeper.znode_tree import ZnodeTree
from strandline.vocabulary.metadata import IsrMember, PartitionState
from strandline.vocabulary.state_changes import StateChangeEvent

_ISR: Final = re.compile(r"/brokers/topics/([^/]+)/(\d+)/isr")


class IsrWrite(NamedTuple):
    """A write of an `isr` znode that happened."""

    name: TopicPartition
    zxid: int
    before: PartitionState | None
    """None: the topic was created."""
    after: PartitionState
    strangers: tuple[IsrMember, ...]
    """Members that it added within its epoch, and that were not registered then, or shutting down."""

    @property
    def begins_lossy(self) -> bool:
        """True for an unclean election."""
        before = NO_EPOCH if self.before is None else self.before.leader_epoch
        return self.after.lossy_epoch == self.after.leader_epoch > before


class IsrHistory:
    """`states` is what ZooKeeper has recorded, as far as `catch_up` has come. All judges share it."""

    def __init__(self, zookeeper: Ensemble, trail_events_max: int) -> None:
        """`trail_events_max` is the brokers' setting `isr_trail_events_max`."""
        self._log = zookeeper.log
        self._trail_events_max = trail_events_max
        self._tree = ZnodeTree()
        self._played = 0
        self.writes: list[IsrWrite] = []
        self.states: dict[TopicPartition, PartitionState] = {}
        self.lossy: dict[TopicPartition, None] = {}
        """Partitions whose record says that a leader may have lacked what was acknowledged."""
        self._created: dict[TopicPartition, int] = {}
        self._numbers: dict[tuple[TopicPartition, int], int] = {}
        self.crowded_out: list[StateChangeEvent] = []
        """Events that a write left out of a trail that it left full: `__state_changes` may lack them."""

    def losses(self) -> Collection[tuple[str, int]]:
        """The partitions that ever had a leader which may have lacked acknowledged records, by the record."""
        self.catch_up()
        return self.lossy

    def topic_number(self, name: TopicPartition, epoch: int) -> int:
        """Which of the topics that had this name, counted from 1, this leader epoch is of; 0: of none."""
        self.catch_up()
        return self._numbers.get((name, epoch), 0)

    def cuts(self, topic: str) -> Mapping[int, Collection[int]]:
        """The leader epochs of each partition of a topic that began with a loss, in their order."""
        self.catch_up()
        found: defaultdict[int, list[int]] = defaultdict(list)
        for write in self.writes:
            if write.name.topic == topic and write.begins_lossy:
                found[write.name.partition].append(write.after.leader_epoch)
        return found

    def in_sync(self, broker: int) -> bool:
        """True if the ISR of any partition that exists names this broker."""
        self.catch_up()
        return any(broker in state.isr_ids for name, state in self.states.items() if self._exists(name))

    def _exists(self, name: TopicPartition) -> bool:
        try:
            self._tree.get(znodes.isr(*name))
        except NoNode:
            return False
        return True

    def catch_up(self) -> None:
        """Play everything that was not played yet."""
        while self._played < len(self._log):
            entry = self._log[self._played]
            self._played += 1
            if entry.request.ends_session:
                self._tree.end_session(entry.session.id, entry.zxid)
                continue
            writes = [each for each in entry.request.operations if isinstance(each, Create | SetData)]
            found = [each for write in writes if (each := self._write(write, entry.zxid)) is not None]
            try:
                self._tree.apply_all(entry.request.operations, entry.session.id, entry.zxid)
            except MultiFailed:
                continue
            for write in found:
                self.states[write.name] = write.after
                number = self._created.get(write.name, 0) + (write.before is None)
                self._created[write.name] = self._numbers[write.name, write.after.leader_epoch] = number
                self.crowded_out += crowded_out(write, self._trail_events_max)
                if write.after.lossy_epoch != NO_EPOCH:
                    self.lossy[write.name] = None
            self.writes += found

    def _write(self, write: Create | SetData, zxid: int) -> IsrWrite | None:
        found = _ISR.fullmatch(write.path)
        if found is None:
            return None
        name = TopicPartition(found[1], int(found[2]))
        before = None if isinstance(write, Create) else self.states.get(name)
        after = isr_znodes.load_isr(*name, write.data)
        strangers = () if before is None else self._strangers(before, after)
        return IsrWrite(name, zxid, before, after, strangers)

    def _strangers(self, before: PartitionState, after: PartitionState) -> tuple[IsrMember, ...]:
        if before.leader_epoch != after.leader_epoch:
            return ()
        return tuple(each for each in after.isr if each not in before.isr and not self._may_join(each))

    def _may_join(self, member: IsrMember) -> bool:
        path = znodes.broker(member.broker)
        try:
            znode = self._tree.get(path)
        except NoNode:
            return False
        known = znodes.load_registration(member.broker, znode.data, znode.czxid)
        # A leader that has not heard of another life yet may add the earlier one, which then leaves again.
        return not known.shutting_down


def crowded_out(write: IsrWrite, trail_events_max: int) -> list[StateChangeEvent]:
    """A trail loses its oldest events only if it is full. Some of them may be recorded."""
    if write.before is None or len(write.after.trail) < trail_events_max:
        return []
    return [event for event in write.before.trail if event not in write.after.trail]
