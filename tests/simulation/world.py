"""Everything a walk moves through: machines, their disks, one partition, ZooKeeper and the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from strandline.ids import NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch
from tests.simulation.coordination import ModelZooKeeper, Write
from tests.simulation.memory_log import MemoryLog
from tests.simulation.process import Process
from tests.simulation.rules import Rule
from tests.simulation.streams import Stream
from tests.simulation.truth import Holder, Truth


@dataclass(slots=True)
class Machine:
    """The state that survives a process: the log, the HW checkpoint, and the lives that `DataFolder`
    remembers."""

    broker: BrokerId
    log: MemoryLog = field(default_factory=MemoryLog)
    checkpoint: int = 0
    lives: set[BrokerEpoch] = field(default_factory=set)
    process: Process | None = None
    paused: bool = False
    notice: LeaderEpoch = NO_EPOCH
    """The epoch of the youngest state-change request in this broker's queue; its sender leads in it."""

    @property
    def running(self) -> Process | None:
        """The process, if it is there and moves."""
        return None if self.paused else self.process


class World:
    """One partition on a few brokers, all of them assigned to it."""

    def __init__(self, brokers: int, *, min_insync: int = 2, broken: Rule | None = None) -> None:
        self.broken = broken
        self.min_insync = min_insync
        self.now = 0.0
        self.assigned = tuple(BrokerId(b) for b in range(1, brokers + 1))
        self.machines = {broker: Machine(broker) for broker in self.assigned}
        self.truth = Truth(min_insync, self._holders)
        self.zookeeper = ModelZooKeeper(self.truth, broken)
        self.streams: list[Stream] = []
        """Streams that may still be read from."""
        self._value = 0

    def _holders(self) -> Iterator[Holder]:
        for machine in self.machines.values():
            yield Holder(machine.broker, machine.log, frozenset(machine.lives))

    # --- processes ---------------------------------------------------------------------------

    def start(self, machine: Machine) -> None:
        assert machine.process is None
        machine.process = Process(machine, self)

    def kill(self, machine: Machine) -> None:
        """The process is gone, its registration stands until it expires; the page cache stays."""
        process, machine.process, machine.paused = machine.process, None, False
        assert process is not None
        for stream in self.streams:
            if stream.follower == machine.broker:
                stream.open_below = False
            if stream.leader == machine.broker:
                stream.open_above = False

    def lose_power(self, machine: Machine, kept: int) -> None:
        """As `kill`, and of the log only what was synced is certain; lives before do not count (E2)."""
        if machine.process is not None:
            self.kill(machine)
        machine.log.lose_power(kept)
        if self.broken is not Rule.LIVES_END_WITH_POWER:
            machine.lives.clear()
        self.truth.check_members()

    def process(self, broker: BrokerId) -> Process:
        """The process of a broker that is known to run."""
        process = self.machines[broker].process
        assert process is not None
        return process

    @property
    def answering(self) -> frozenset[BrokerEpoch]:
        """The registered lives whose port answers a probe: a process runs there now, and is not paused."""
        return frozenset(
            registration.epoch
            for broker, registration in self.zookeeper.live.items()
            if self.machines[broker].running is not None
        )

    @property
    def eligible(self) -> list[BrokerId]:
        """The replicas that may lead: none, once every member of the ISR lost its power before it could
        catch up."""
        state = self.zookeeper.state
        if state.leader_epoch == NO_EPOCH:
            return list(self.assigned)
        return [m.broker for m in state.isr if m.broker_epoch in self.machines[m.broker].lives]

    # --- messages ----------------------------------------------------------------------------

    def notify(self, broker: BrokerId, epoch: LeaderEpoch, *, handed_over: bool = False) -> None:
        """An entry in a broker's queue: it looks into the partition when it reads it."""
        machine = self.machines[broker]
        machine.notice = max(machine.notice, epoch)
        if handed_over and machine.process is not None:
            machine.process.handed_over = True

    def start_replicas(self, leader: BrokerId, epoch: LeaderEpoch) -> None:
        """A new leader notifies the others, dead ones too."""
        for broker in self.assigned:
            if broker != leader:
                self.notify(broker, epoch)

    def connect(self, process: Process, leader: BrokerId) -> bool:
        """Open a stream; False if the leader's port refuses. A paused process still accepts."""
        if self.machines[leader].process is None:
            return False
        assert process.life is not None
        stream = Stream(process.me, process.life, leader)
        self.streams.append(stream)
        process.connected(stream)
        above = self.machines[leader].running
        if above is not None:
            above.heard(process.life)
        return True

    def read_below(self, stream: Stream) -> None:
        """A follower takes the next push, or notices that there will be none."""
        if stream.down:
            self.process(stream.follower).receive(stream)
        else:
            self.disconnect(stream)

    def answer(self, write: Write, *, lost: bool) -> bool:
        """A reply of ZooKeeper reaches its caller, if that still lives; False while the caller is paused."""
        machine = self.machines[write.broker]
        if machine.paused:
            return False
        self.zookeeper.writes.remove(write)
        process = machine.process
        if process is None or process.life != write.session:
            return True
        if self.zookeeper.has_session(write.broker, write.session):
            write.reply(None if lost else write.version_written)
        else:
            process.end_session()
        return True

    def disconnect(self, stream: Stream) -> None:
        """The follower's end breaks. Its messages are still readable at the other end, for a while."""
        stream.open_below = False
        follower = self.machines[stream.follower].process
        if follower is not None and follower.links.get(stream.leader) is stream:
            follower.disconnected(stream.leader)

    def forget_closed_streams(self) -> None:
        self.streams = [s for s in self.streams if s.open_above or s.open_below]

    def next_value(self) -> int:
        self._value += 1
        return self._value
