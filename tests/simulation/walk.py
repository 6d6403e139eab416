"""Random walks: any event may be next, chosen by one seed; then all faults end.

During the walk, the world breaks: processes stop, pause and come back, sessions expire late, streams break,
writes to ZooKeeper are refused or lose their replies. No claim of `Truth` may break. Afterwards nothing
breaks any longer, and the partition must serve again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from strandline.ids import NO_BROKER
from tests.simulation.healing import Healing
from tests.simulation.leading import KEEP_IN_SYNC_S
from tests.simulation.process import Process
from tests.simulation.rules import Rule
from tests.simulation.truth import Violation
from tests.simulation.world import Machine, World

Action = Callable[[], bool]
"""True if there was anything to do."""


@dataclass(frozen=True, slots=True)
class Walked:
    """The results of one walk."""

    steps: int
    committed: int
    acknowledged: int
    elections: int


class Walk:
    """One walk from one seed."""

    def __init__(self, seed: int, *, steps: int, broken: Rule | None = None) -> None:
        self._random = random.Random(seed)
        self._steps = steps
        brokers, min_insync = self._random.choice((3, 3, 3, 4)), self._random.choice((1, 2, 2))
        self.world = World(brokers, min_insync=min_insync, broken=broken)
        table = self._what_works() + self._what_breaks()
        self._actions = tuple(action for action, _ in table)
        self._weights = tuple(weight for _, weight in table)

    def _what_works(self) -> list[tuple[Action, float]]:
        """The regular steps of a partition, and their frequency relative to the others."""
        return [
            (self._produce, 12),
            (self._read_above, 26),
            (self._push, 16),
            (self._read_below, 20),
            (self._connect, 8),
            (self._look, 8),
            (self._claim, 6),
            (self._zookeeper_takes, 8),
            (self._zookeeper_answers, 8),
            (self._look_at_the_living, 5),
            (self._turn_of_time, 1),
            (self._sync, 1),
            (self._checkpoint, 2),
            (self._ask_again, 3),
            (self._register, 6),
            (self._start, 4),
            (self._wake, 4),
            (self._probe_again, 2),
            (self._unclog, 1.5),
            (self._resign, 2),
            (self._lead_on, 1),
        ]

    def _what_breaks(self) -> list[tuple[Action, float]]:
        """Each walk has its own mixture: what never happens gives the rest time to go further."""
        faults: list[tuple[Action, float]] = [
            (self._pause, 1),
            (self._kill, 0.6),
            (self._lose_power, 0.5),
            (self._expire, 1.5),
            (self._break_stream, 1),
            (self._clog, 2),
            (self._suspect, 1),
            (self._hand_over, 0.6),
            (self._turn_of_time, 2),
        ]
        storm = self._random.sample(faults, self._random.randint(1, 5))
        return [(action, weight * self._random.choice((0.3, 1, 3))) for action, weight in storm]

    def run(self) -> Walked:
        """Walk, heal, and return the results. Raises Violation."""
        world = self.world
        for machine in world.machines.values():
            world.start(machine)
            self._process(machine).register()
        taken = 0
        choices = self._random.choices(self._actions, self._weights, k=self._steps)
        for number, action in enumerate(choices):
            if number % 64 == 0 and not world.eligible:
                break
            try:
                taken += action()
            except (AssertionError, ValueError) as error:
                raise Violation(f"step {taken}, {action.__name__.strip('_')}: {error}") from error
        if world.broken is None:
            Healing(world, self._random).run()
        truth = world.truth
        return Walked(taken, len(truth.committed), len(truth.acknowledged), truth.elections)

    # --- choices -----------------------------------------------------------------------------

    @staticmethod
    def _process(machine: Machine) -> Process:
        assert machine.process is not None
        return machine.process

    def _machine(self) -> Machine:
        return self.world.machines[self._random.choice(self.world.assigned)]

    def _any(self, able: Callable[[Process], object]) -> Process | None:
        """A moving process that can do it."""
        found = [
            process
            for machine in self.world.machines.values()
            if (process := machine.running) is not None and able(process)
        ]
        return self._random.choice(found) if found else None

    # --- what the partition does -------------------------------------------------------------

    def _produce(self) -> bool:
        process = self._any(lambda p: p.leadership is not None)
        if process is None or process.leadership is None:
            return False
        return process.leadership.produce(self.world.next_value())

    def _read_above(self) -> bool:
        """A leader takes the next message of some stream, or notices that it ended."""
        ready = [
            s
            for s in self.world.streams
            if s.open_above
            and not s.clogged
            and (s.up or not s.open_below)
            and self.world.machines[s.leader].running is not None
        ]
        if not ready:
            return False
        stream = self._random.choice(ready)
        self._process(self.world.machines[stream.leader]).server.read(stream)
        if not stream.open_above:
            self.world.forget_closed_streams()
        return True

    def _push(self) -> bool:
        ready = [
            s
            for s in self.world.streams
            if s.open_above and s.open_below and self.world.machines[s.leader].running is not None
        ]
        if not ready:
            return False
        stream = self._random.choice(ready)
        return self._process(self.world.machines[stream.leader]).server.push(
            stream, self._random.choice((1, 2, 8))
        )

    def _read_below(self) -> bool:
        """A follower takes the next push, or notices that the stream ended."""
        ready = [
            s
            for s in self.world.streams
            if s.open_below
            and not s.clogged
            and (s.down or not s.open_above)
            and self.world.machines[s.follower].running is not None
        ]
        if not ready:
            return False
        self.world.read_below(self._random.choice(ready))
        return True

    def _connect(self) -> bool:
        process = self._any(lambda p: p.target is not None and p.target not in p.links)
        if process is None or process.target is None:
            return False
        if not self.world.connect(process, process.target):
            process.suspect(process.target)
        return True

    def _ask_again(self) -> bool:
        process = self._any(lambda p: p.ask_again)
        if process is not None:
            process.fetch_again()
        return process is not None

    def _look(self) -> bool:
        machine = self._machine()
        process = machine.running
        if process is None or process.life is None or process.candidacy is not None:
            return False
        return process.look_if_notified()

    def _claim(self) -> bool:
        process = self._any(lambda p: p.candidacy is not None and not p.candidacy.sent)
        if process is not None:
            process.claim()
        return process is not None

    def _turn_of_time(self) -> bool:
        self.world.now += self._random.choice((0.1, 0.4, KEEP_IN_SYNC_S))
        process = self._any(lambda p: p.leadership is not None)
        if process is not None and process.leadership is not None:
            process.leadership.turn()
        return True

    def _sync(self) -> bool:
        machine = self._machine()
        machine.log.synced = machine.log.end
        return True

    def _checkpoint(self) -> bool:
        process = self._any(lambda p: True)
        if process is not None:
            process.machine.checkpoint = process.high_watermark
        return process is not None

    # --- ZooKeeper ---------------------------------------------------------------------------

    def _zookeeper_takes(self) -> bool:
        waiting = [w for w in self.world.zookeeper.writes if not w.arrived]
        if not waiting:
            return False
        self.world.zookeeper.arrive(self._random.choice(waiting))
        return True

    def _zookeeper_answers(self) -> bool:
        """A reply arrives, or its connection broke: then the outcome is unknown, and a request that did
        not arrive never will."""
        writes = self.world.zookeeper.writes
        ready = [w for w in writes if w.arrived or self._random.random() < 0.1]
        if not ready:
            return False
        write = self._random.choice(ready)
        return self.world.answer(write, lost=not write.arrived or self._random.random() < 0.1)

    def _look_at_the_living(self) -> bool:
        process = self._any(lambda p: p.life is not None)
        if process is None or process.life is None:
            return False
        process.look_at_the_living()
        return True

    def _register(self) -> bool:
        process = self._any(lambda p: p.life is None)
        if process is not None:
            process.register()
        return process is not None

    # --- what goes wrong ---------------------------------------------------------------------

    def _start(self) -> bool:
        machine = self._machine()
        if machine.process is not None:
            return False
        self.world.start(machine)
        return True

    def _pause(self) -> bool:
        machine = self._machine()
        if machine.running is None:
            return False
        machine.paused = True
        return True

    def _wake(self) -> bool:
        machine = self._machine()
        woken, machine.paused = machine.paused, False
        return woken

    def _kill(self) -> bool:
        machine = self._machine()
        if machine.process is None:
            return False
        self.world.kill(machine)
        return True

    def _lose_power(self) -> bool:
        machine = self._machine()
        self.world.lose_power(machine, self._random.randint(machine.log.synced, machine.log.end))
        return True

    def _expire(self) -> bool:
        """Mostly the session of a dead or hanging process; now and then the network cuts a healthy one
        off."""
        machine = self._machine()
        if machine.broker not in self.world.zookeeper.live:
            return False
        if machine.running is not None and self._random.random() < 0.9:
            return False
        self.world.zookeeper.expire(machine.broker)
        return True

    def _break_stream(self) -> bool:
        streams = [s for s in self.world.streams if s.open_below]
        if not streams:
            return False
        stream = self._random.choice(streams)
        if self._random.random() < 0.5:
            stream.open_above = False
            leader = self.world.machines[stream.leader].running
            if leader is not None:
                leader.server.close(stream)
        self.world.disconnect(stream)
        return True

    def _clog(self) -> bool:
        streams = [s for s in self.world.streams if not s.clogged]
        if not streams:
            return False
        self._random.choice(streams).clogged = True
        return True

    def _unclog(self) -> bool:
        streams = [s for s in self.world.streams if s.clogged]
        if not streams:
            return False
        self._random.choice(streams).clogged = False
        return True

    def _suspect(self) -> bool:
        """A port refuses a connection although its broker is alive: two leaders, if another one takes
        over."""
        process = self._any(lambda p: p.leader not in (NO_BROKER, p.me))
        if process is not None:
            process.suspect(process.leader)
        return process is not None

    def _probe_again(self) -> bool:
        """Time passes until the next probe of a suspect is due, and it is made."""
        process = self._any(lambda p: p.suspects.next_due() is not None)
        if process is None:
            return False
        due = process.suspects.next_due()
        assert due is not None
        self.world.now = max(self.world.now, due)
        return process.probe_again()

    # --- giving leadership away --------------------------------------------------------------

    def _hand_over(self) -> bool:
        process = self._any(lambda p: p.leadership is not None)
        if process is None or process.leadership is None or self._random.random() < 0.5:
            return False
        process.leadership.draining = True
        return True

    def _resign(self) -> bool:
        """Drained, or not in time."""
        process = self._any(lambda p: p.leadership is not None and p.leadership.draining and not p.resigning)
        if process is None:
            return False
        process.resign(leave=self._random.random() < 0.5)
        return True

    def _lead_on(self) -> bool:
        """It was not drained in time, or whom it was for could not take over."""
        process = self._any(lambda p: p.leadership is not None and p.leadership.draining and not p.resigning)
        if process is not None:
            process.lead_on()
        return process is not None
