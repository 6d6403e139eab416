"""A walk whose steps are written down: for schedules too rare to be met at random."""

from __future__ import annotations

import random

from strandline.ids import BrokerId
from tests.simulation.healing import Healing
from tests.simulation.leading import KEEP_IN_SYNC_S
from tests.simulation.process import Process
from tests.simulation.rules import Rule
from tests.simulation.streams import Stream
from tests.simulation.world import World

ROUNDS_MAX = 50


class Script:
    """Three brokers that run; 1 leads, all are in sync, two records are committed."""

    def __init__(self, broken: Rule | None) -> None:
        self.world = World(3, broken=broken)
        for machine in self.world.machines.values():
            self.world.start(machine)
            self.process(machine.broker).register()
        for broker in self.world.assigned:
            self.process(broker).look_at_the_living()
        self.elect(1)
        for follower in (2, 3):
            self.follow(follower)
        self.settle()
        self.produce(1, 2)
        self.settle()
        assert len(self.world.truth.committed) == 2
        assert self.world.zookeeper.state.isr_ids == (1, 2, 3)

    def process(self, broker: int) -> Process:
        return self.world.process(BrokerId(broker))

    def stream(self, follower: int, leader: int) -> Stream:
        """The one that the follower's present process has open."""
        return self.process(follower).links[BrokerId(leader)]

    # --- steps -------------------------------------------------------------------------------

    def produce(self, leader: int, count: int) -> None:
        leadership = self.process(leader).leadership
        assert leadership is not None
        for _ in range(count):
            assert leadership.produce(self.world.next_value())

    def elect(self, broker: int, *, instead_of: int | None = None, expired: int | None = None) -> None:
        """This one stands and wins. `instead_of` is a leader whose port refuses it, `expired` one whose
        session ends; both may be well."""
        process = self.process(broker)
        if instead_of is not None:
            process.suspect(BrokerId(instead_of))
        if expired is not None:
            self.world.zookeeper.expire(BrokerId(expired))
            process.look_at_the_living()
        process.look()
        process.claim()
        self.answer_all()
        assert process.leadership is not None

    def follow(self, broker: int) -> None:
        """Find the leader, and request the missing records; the request is not answered yet."""
        process = self.process(broker)
        if process.life is None or not self.world.zookeeper.has_session(process.me, process.life):
            process.look_at_the_living()
            process.register()
            for other in self.world.assigned:
                if other != broker:
                    self.process(other).look_at_the_living()
        for life in process.suspects.lives:  # the port that refused one connection answers the next probe
            process.heard(life)
        process.look()
        if process.target is not None and process.target not in process.links:
            assert self.world.connect(process, process.target)

    def pass_time(self, leader: int) -> None:
        """Let enough time pass for every replica that lacks records to be late and leave the ISR."""
        leadership = self.process(leader).leadership
        assert leadership is not None
        self.world.now += 2 * KEEP_IN_SYNC_S
        leadership.turn()
        self.answer_all()

    def heal(self) -> None:
        """From here on nothing breaks any longer. Raises Violation if the partition does not come back."""
        for stream in self.world.streams:
            stream.clogged = False
        Healing(self.world, random.Random(0)).run()

    def answer_all(self) -> None:
        """ZooKeeper takes what was sent, and every reply arrives."""
        writes = self.world.zookeeper.writes
        while writes:
            write = writes.pop(0)
            self.world.zookeeper.arrive(write)
            write.reply(write.version_written)

    def settle(self) -> None:
        """Everything is delivered that is not clogged, until nothing is left to say."""
        for _ in range(ROUNDS_MAX):
            said = False
            for stream in self.world.streams:
                if not stream.clogged:
                    said |= self._exchange(stream)
            self.answer_all()
            if not said:
                return
        raise AssertionError("the streams never come to rest")

    def _exchange(self, stream: Stream) -> bool:
        said = bool(stream.up)
        server = self.process(stream.leader).server
        while stream.up:
            server.read(stream)
        said |= server.push(stream, 8)
        while stream.down:
            self.process(stream.follower).receive(stream)
        return said
