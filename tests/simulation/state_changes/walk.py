"""A random walk: something happens, again and again, and then all heals."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from strandline.ports import LinkState
from tests.simulation.state_changes.rules import Rule
from tests.simulation.state_changes.world import BROKERS, TOPICS, World

WARM_UP_ROUNDS = 30
TIMES_S = (1 / 64, 1 / 16, 1 / 8, 1 / 4, 1.0)
"""Their sums are exact: a timer that misses its time by a rounding error would wait forever, as time does
not move."""


class Walk:
    """One world, one source of chance. Its methods are what may happen; each does nothing if it cannot."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random

    def run(self, steps: int) -> None:
        self.begin()
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.answer, 60),
            (self.pass_time, 12),
            (self.fetch, 12),
            (self.record, 10),
            (self.create, 3),
            (self.delete, 3),
            (self.grow, 1),
            (self.reassign, 4),
            (self.take_back, 1),
            (self.elect_preferred, 1),
            (self.broker_dies, 2),
            (self.controller_dies, 1),
            (self.start, 4),
            (self.expire_dead, 3),
            (self.expire_living, 1),
            (self.disconnect, 2),
            (self.connect, 4),
            (self.lose_event, 1),
            (self.drop_record, 2),
            (self.take_turns, 6),
        ]
        actions = [action for action, _ in kinds]
        weights = [weight for _, weight in kinds]
        for action in self.random.choices(actions, weights, k=steps):
            action()
        self.world.heal()

    def begin(self) -> None:
        """All processes run, and there is a topic."""
        world = self.world
        world.answer_all()
        for _ in range(WARM_UP_ROUNDS):
            if any(controller.active for controller in world.controllers.values()):
                break
            world.pass_time(TIMES_S[2])
            world.answer_all()
        world.create(TOPICS[0], (1, 2, 3), (2, 3, 1))

    # --- background work -----------------------------------------------------------------------

    def answer(self) -> None:
        """A few requests of one session are taken, or answers and events of it arrive."""
        ready = [s for s in self.world.sessions() if s.is_waiting or s.events]
        if not ready:
            return
        session = self.random.choice(ready)
        for _ in range(self.random.choice((1, 1, 2, 5, 30))):
            if session.events and (not session.is_waiting or self.random.random() < 0.3):
                path = self.random.choice(sorted(session.events))
                self.world.act(lambda path=path: session.tell(path))  # type: ignore[misc]
            elif session.is_waiting:
                self.world.act(session.take)
            else:
                return

    def take_turns(self) -> None:
        """All goes well for a moment."""
        for _ in range(self.random.randrange(30)):
            for session in self.world.sessions():
                if session.is_waiting:
                    self.world.act(session.take)

    def pass_time(self) -> None:
        self.world.pass_time(self.random.choice(TIMES_S))

    def fetch(self) -> None:
        self.world.fetch(self.random.choice(BROKERS))

    def record(self) -> None:
        if recordings := self.world.recordings():
            recording = self.random.choice(recordings)
            for _ in range(min(len(recording.under_way), self.random.choice((1, 1, 5, 20)))):
                self.world.act(recording.write_one)

    # --- what is asked for -----------------------------------------------------------------------

    def _placement(self) -> tuple[int, ...]:
        return tuple(self.random.sample(BROKERS, self.random.choice((1, 2, 2, 3))))

    def create(self) -> None:
        first = self._placement()
        second = tuple(self.random.sample(BROKERS, len(first)))
        self.world.create(self.random.choice(TOPICS), *(first, second)[: self.random.choice((1, 2))])

    def delete(self) -> None:
        self.world.delete(self.random.choice(TOPICS))

    def grow(self) -> None:
        self.world.grow(self.random.choice(TOPICS), self.random.choice((2, 3)))

    def reassign(self) -> None:
        self.world.reassign(self.random.choice(TOPICS), self.random.randrange(2), self._placement())

    def take_back(self) -> None:
        self.world.reassign(self.random.choice(TOPICS), self.random.randrange(2), ())

    def elect_preferred(self) -> None:
        self.world.elect_preferred()

    # --- what goes wrong -------------------------------------------------------------------------

    def broker_dies(self) -> None:
        self._die([process for process in self.world.brokers.values() if process.up])

    def controller_dies(self) -> None:
        self._die([process for process in self.world.controllers.values() if process.up])

    def _die(self, living: list) -> None:  # type: ignore[type-arg]
        if not living:
            return
        process = self.random.choice(living)
        # events that reached the log without the writer's knowledge
        for _ in range(self.random.choice((0, 0, 1, 3))):
            if process.recording.under_way:
                process.recording.write_unheard()
        self.world.die(process, self.random.choice((0, 0, 1, 2, 100)))

    def start(self) -> None:
        if dead := [process for process in self.world.processes if not process.up]:
            self.world.act(self.random.choice(dead).start)

    def expire_dead(self) -> None:
        if orphans := self.world.orphans():
            self.world.act(self.random.choice(orphans).close_at_server)

    def expire_living(self) -> None:
        """Whose session it is learns it late."""
        if sessions := self.world.sessions():
            self.world.act(self.random.choice(sessions).expire_at_server)

    def disconnect(self) -> None:
        if sessions := [s for s in self.world.sessions() if s not in self.world.orphans()]:
            session, taken = self.random.choice(sessions), self.random.choice((0, 1, 2, 100))
            self.world.act(lambda: session.disconnect(taken))

    def connect(self) -> None:
        waiting = [
            s for s in self.world.sessions()
            if s.state is LinkState.SUSPENDED and s not in self.world.orphans()
        ]  # fmt: skip
        if waiting:
            self.world.act(self.random.choice(waiting).connect)

    def lose_event(self) -> None:
        if notified := [s for s in self.world.sessions() if s.events]:
            session = self.random.choice(notified)
            path = self.random.choice(sorted(session.events))
            self.world.act(lambda: session.tell(path, lost=True))

    def drop_record(self) -> None:
        if recordings := self.world.recordings():
            self.world.act(self.random.choice(recordings).drop_one)


def walk(seed: int, steps: int, broken: Rule | None = None) -> World:
    """Raises Violation."""
    world = World(broken)
    with world.opened():
        Walk(world, Random(seed)).run(steps)
    return world
