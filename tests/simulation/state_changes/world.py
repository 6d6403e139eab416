"""Brokers, controllers and ZooKeeper together: what may happen next, and what has to hold once all heals."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import pytest
import structlog

from strandline.adapters.service_host import service_host
from strandline.adapters.zookeeper import znodes
from strandline.controller.term import term
from strandline.ids import BrokerId, PartitionId, PartitionKey, TopicPartition
from strandline.ports import LinkState
from strandline.vocabulary.admin import AlterTopic, NewTopic, PartitionReassignment
from tests.simulation.state_changes.breaking import breaking
from tests.simulation.state_changes.broker import BrokerProcess
from tests.simulation.state_changes.controller import ControllerProcess, Request, recorder
from tests.simulation.state_changes.loop import VirtualClock, VirtualLoop
from tests.simulation.state_changes.recording import Recording
from tests.simulation.state_changes.rules import Rule
from tests.simulation.state_changes.truth import Truth, Violation
from tests.simulation.state_changes.zookeeper import SimulatedSession, SimulatedZooKeeper

BROKERS: Final = tuple(BrokerId(broker) for broker in (1, 2, 3))
CONTROLLERS: Final = (101, 102)
TOPICS: Final = ("orders", "users")

HEALING_S_MAX: Final = 120.0
HEALING_STEP_S: Final = 1 / 8
ANSWERS_MAX: Final = 20_000
"""At one moment of the healing."""


class World:
    """See the module. Callers call `open` first and `close` last."""

    def __init__(self, broken: Rule | None = None) -> None:
        self.broken = broken
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.host = replace(service_host(), clock=self.clock)
        self.truth = Truth(broken)
        self.zookeeper = SimulatedZooKeeper(self.truth)
        self.truth.watch(self.zookeeper.tree)
        self.truth.known_assignment = self._known_assignment
        self.brokers = {broker: BrokerProcess(broker, self) for broker in BROKERS}
        self.controllers = {number: ControllerProcess(number, self) for number in CONTROLLERS}

    @contextmanager
    def opened(self) -> Iterator[World]:
        with pytest.MonkeyPatch.context() as patches, breaking(self):
            patches.setattr(term, "RequestRecorder", recorder)
            structlog_before = structlog.get_config()
            structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
            try:
                for process in self.processes:
                    self.act(process.start)
                yield self
            finally:
                structlog.configure(**structlog_before)
                self._close()

    def _close(self) -> None:
        for process in self.processes:
            if process.up:
                self.act(lambda process=process: process.die(0), quietly=True)  # type: ignore[misc]
        self.loop.close()

    @property
    def processes(self) -> list[BrokerProcess | ControllerProcess]:
        return [*self.controllers.values(), *self.brokers.values()]

    @property
    def tree(self) -> dict[str, object]:
        return dict(self.zookeeper.tree.nodes)

    def _known_assignment(self, broker: BrokerId, key: PartitionKey) -> tuple[BrokerId, ...] | None:
        manager = self.brokers[broker].manager_if_up()
        replica = None if manager is None else manager.get(key)
        return None if replica is None else replica.assigned

    # --- one thing happens ---------------------------------------------------------------------

    def act(self, action: Callable[[], object], *, quietly: bool = False) -> None:
        """Do this on the loop, and everything that follows from it."""
        raised: list[BaseException] = []

        def guarded() -> None:
            try:
                action()
            except Exception as error:
                raised.append(error)

        self.loop.call_soon(guarded)
        self.loop.turn()
        if not quietly:
            self._raise(raised)

    def pass_time(self, seconds: float) -> None:
        self.loop.pass_time(seconds)
        self._raise([])

    def _raise(self, raised: list[BaseException]) -> None:
        self.truth.raise_any()
        for process in self.processes:
            if (failure := process.failure()) is not None:
                raise Violation(f"{type(process).__name__} {process.id} failed") from failure
        if raised:
            raise raised[0]
        if self.loop.failures:
            raise Violation(self.loop.failures[0])

    def sessions(self) -> list[SimulatedSession]:
        return self.zookeeper.open_sessions()

    def recordings(self) -> list[Recording]:
        return [process.recording for process in self.processes if process.up and process.recording.under_way]

    def die(self, process: BrokerProcess | ControllerProcess, taken: int) -> None:
        """Its session stands, and with it what is ephemeral; see `expire_dead`."""
        self.act(lambda: process.die(taken))
        if isinstance(process, BrokerProcess):
            self.act(process.buried)

    def orphans(self) -> list[SimulatedSession]:
        """Sessions whose processes are gone."""
        used = {id(process.coordination) for process in self.processes if process.up}
        return [session for session in self.sessions() if id(session) not in used]

    def fetch(self, broker: BrokerId) -> None:
        session = self.brokers[broker].session
        if self.brokers[broker].up and session is not None:
            self.act(session.fetch)

    # --- what is asked of the controller ---------------------------------------------------------

    def ask(self, request: Request) -> bool:
        """Call the controller that believes to be active; False if there is none."""
        for controller in self.controllers.values():
            if controller.active is not None:
                self.act(lambda controller=controller: controller.ask(request))  # type: ignore[misc]
                return True
        return False

    def create(self, name: str, *assignments: tuple[int, ...]) -> bool:
        new = NewTopic(name, 0, assignments=assignments)
        return self.ask(lambda active: active.create_topics([new], (), validate_only=False, internal=False))

    def delete(self, name: str) -> bool:
        return self.ask(lambda active: active.delete_topics([name], ()))

    def grow(self, name: str, partitions: int) -> bool:
        return self.ask(lambda active: active.alter_topic(AlterTopic(name, partitions=partitions)))

    def reassign(self, name: str, partition: int, replicas: tuple[int, ...]) -> bool:
        """No replicas: take it back."""
        move = PartitionReassignment(TopicPartition(name, PartitionId(partition)), replicas)
        return self.ask(
            lambda active: active.reassign([move], (), throttle_bytes_per_s=0, validate_only=False)
        )

    def elect_preferred(self) -> bool:
        return self.ask(lambda active: active.elect_preferred((), ()))

    # --- healing -------------------------------------------------------------------------------

    def heal(self) -> None:
        """All live, all answer at once; then the cluster must reach its normal state in bounded time."""
        for session in self.orphans():
            self.act(session.close_at_server)
        for process in self.processes:
            if not process.up:
                self.act(process.start)
        until = self.loop.now + HEALING_S_MAX
        wrong = "nothing was looked at"
        while self.loop.now < until:
            self.answer_all()
            if not (wrong := self.what_is_wrong()):
                return
            for broker in BROKERS:
                self.fetch(broker)
            self.pass_time(HEALING_STEP_S)
        raise Violation(f"after {HEALING_S_MAX} s of health: {wrong}")

    def answer_all(self) -> None:
        """Everything under way arrives."""
        for _ in range(ANSWERS_MAX):
            waiting = [session for session in self.sessions() if session.state is LinkState.SUSPENDED]
            for session in waiting:
                self.act(session.connect)
            ready = [session for session in self.sessions() if session.is_waiting or session.events]
            for session in ready:
                if session.is_waiting:
                    self.act(session.take)
                elif session.events:
                    self.act(lambda session=session: session.tell(next(iter(session.events))))  # type: ignore[misc]
            recordings = self.recordings()
            for recording in recordings:
                self.act(recording.write_one)
            if not (waiting or ready or recordings):
                return
        raise Violation("it never comes to rest")

    def what_is_wrong(self) -> str:
        """The first deviation from the normal state after healing; empty if there is none."""
        nodes = self.zookeeper.tree.nodes
        for process in self.brokers.values():
            if not process.serving:
                return f"broker {process.id} does not serve"
        for path in nodes:
            for folder in (znodes.STATE, znodes.ELECTIONS):
                if path.startswith(f"{folder}/") and path.count("/") == 4:
                    return f"{path} waits"
            # A topic's folder of reassignments may stay: the writer that removes its last child removes it
            # only if it can.
            if path.startswith(f"{znodes.REASSIGNED}/") and path.count("/") == 4:
                return f"{path} stands"
            if path.startswith(f"{znodes.DELETE_TOPICS}/"):
                return f"{path} stands"
        assigned: dict[BrokerId, set[PartitionKey]] = {broker: set() for broker in BROKERS}
        for name in self.zookeeper.tree.children(znodes.TOPICS):
            if wrong := self._wrong_with_topic(name, assigned):
                return wrong
        for broker, keys in assigned.items():
            disk = self.brokers[broker].disk.replicas.keys()
            if disk != keys:
                return f"broker {broker} has {sorted(disk)}, assigned are {sorted(keys)}"
        for request_id, (broker, change) in self.truth.requested.items():
            if len(self.truth.ends_of(request_id)) != 1:
                return f"of broker {broker} no end is recorded: {change}"
        return ""

    def _wrong_with_topic(self, name: str, assigned: dict[BrokerId, set[PartitionKey]]) -> str:
        nodes = self.zookeeper.tree.nodes
        topic = znodes.load_topic(name, nodes[znodes.topic(name)].data)
        if not topic.partitions or topic.growing:
            return f"topic {name} is not whole: {topic}"
        live = {int(child) for child in self.zookeeper.tree.children(znodes.BROKER_IDS)}
        for number in range(topic.partitions):
            state = znodes.load_isr(name, number, nodes[znodes.isr(name, number)].data)
            replicas = znodes.load_replicas(name, number, nodes[znodes.replicas(name, number)].data)
            key = PartitionKey(topic.topic_id, PartitionId(number))
            for broker in replicas:
                assigned[broker].add(key)
            if state.leader not in replicas or state.leader not in live:
                return f"none of {replicas} leads {name}-{number}: {state}"
            if set(state.isr_ids) != set(replicas):
                return f"not all of {replicas} are in sync: {name}-{number}: {state}"
            for (of, epoch), _ in self.truth.elections.items():
                if of == key and not self.truth.tells_election(key, epoch):
                    return f"the election of epoch {epoch} of {name}-{number} is not recorded"
        return ""
