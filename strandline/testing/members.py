"""The members of a played cluster: brokers, controllers, applications, ZooKeeper, and the test itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from strandline.config.services.broker import BrokerSettings
from strandline.config.services.controller import ControllerSettings
from strandline.errors import SettingsError
from strandline.host import Host
from strandline.ids import NO_BROKER
from strandline.simulation.cluster import Cluster
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.simulation.engine.world import World
from strandline.testing.application import Application
from strandline.testing.errors import NotPossible, UnknownMember, Vacant
from strandline.testing.znodes_seen import ZnodesSeen

FIRST_ID: Final = 1
MEMBERS_MAX: Final = 100

Party = int | Application | Literal["test", "controllers", "zookeeper"]
"""One side of a cut: a broker by its id, an application, the clients of the test, all controllers, or all
servers of ZooKeeper."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a cluster is made of. Settings are those of `strandline.config`, by name."""

    brokers: int
    controllers: int
    broker_settings: Mapping[str, Any] = field(default_factory=dict)
    controller_settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises SettingsError."""
        for what, number in (("brokers", self.brokers), ("controllers", self.controllers)):
            if not 1 <= number <= MEMBERS_MAX:
                raise SettingsError(f"{what} = {number}: a cluster has 1 to {MEMBERS_MAX}")
        _check_names("broker_settings", self.broker_settings, BrokerSettings.model_fields)
        _check_names("controller_settings", self.controller_settings, ControllerSettings.model_fields)


def _check_names(argument: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise SettingsError(f"{argument} has no {unknown[0]!r}; docs/run/settings.md lists the settings")


@dataclass(slots=True)
class Running:
    """A cluster between its start and its end."""

    world: World
    cluster: Cluster
    host: Host
    """Of the test's clients."""
    test: SimulatedProcess
    """To which the test's clients belong."""
    seen: ZnodesSeen
    applications: list[Application] = field(default_factory=list)
    isolated: set[str] = field(default_factory=set)
    """The addresses of members that are cut off from everything, also from what is made later."""


class Members:
    """Finds members by id and by role. Ids begin at 1, as those of `LocalCluster`."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._running: Running | None = None

    @property
    def _now(self) -> Running:
        if self._running is None:
            raise NotPossible(f"this {type(self).__name__} does not run: use it in its `with` block")
        return self._running

    @property
    def broker_ids(self) -> list[int]:
        """All brokers, running or not."""
        return list(range(FIRST_ID, FIRST_ID + self._shape.brokers))

    @property
    def controller_ids(self) -> list[int]:
        return list(range(FIRST_ID, FIRST_ID + self._shape.controllers))

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker, running or not, separated by commas; only `host` reaches them."""
        return ",".join(self._now.cluster.bootstrap)

    @property
    def host(self) -> Host:
        """The host of the test's clients: `Producer(cluster.bootstrap, host=cluster.host)`."""
        return self._now.host

    # --- roles -------------------------------------------------------------------------------

    @property
    def registered(self) -> list[int]:
        """The brokers that the cluster takes for alive."""
        return self._now.seen.brokers()

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition. Raises Vacant if there is none."""
        leader = self._now.seen.state(topic, partition).leader
        if leader == NO_BROKER:
            raise Vacant(f"{topic}-{partition} has no leader now")
        return leader

    def replicas(self, topic: str, partition: int = 0) -> list[int]:
        """The brokers that have a replica, the preferred leader first."""
        return self._now.seen.replicas(topic, partition)

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """The brokers whose replica is in sync."""
        return list(self._now.seen.state(topic, partition).isr_ids)

    def followers(self, topic: str, partition: int = 0) -> list[int]:
        """The brokers that have a replica, without the leader."""
        leader = self._now.seen.state(topic, partition).leader
        return [broker for broker in self.replicas(topic, partition) if broker != leader]

    def controller(self) -> int:
        """The active controller. Raises Vacant if there is none."""
        controller = self._now.seen.controller()
        if controller is None:
            raise Vacant("there is no active controller now")
        return controller

    def coordinator(self, group: str) -> int:
        """The broker that coordinates a group. Raises Vacant if there is none."""
        coordinator = self._now.seen.coordinator(group)
        if coordinator is None:
            raise Vacant(f"group {group!r} has no coordinator now")
        return coordinator

    def runs(self, broker: int) -> bool:
        """The process of a broker has neither ended nor been killed. A paused one runs."""
        return self._broker(broker).life.alive

    # --- the whole ---------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """Every broker is registered, and there is an active controller."""
        return self.registered == self.broker_ids and self._now.seen.controller() is not None

    def is_whole(self) -> bool:
        """Every broker and controller runs, ZooKeeper knows them by their present lives, and each partition
        has a leader and all of its replicas in sync."""
        cluster, seen = self._now.cluster, self._now.seen
        processes = [*cluster.brokers, *cluster.controllers]
        return (
            all(process.life.running and not process.stopping for process in processes)
            and all(self._broker(n).life is seen.registered_process(n) for n in self.broker_ids)
            and any(process.life is seen.active_process() for process in cluster.controllers)
            and not seen.lagging()
        )

    def describe(self) -> str:
        """A line for each member, and for each partition that is not whole."""
        lines = [f"broker {number}: {self._broker_state(number)}" for number in self.broker_ids]
        for number in self.controller_ids:
            active = ", active" if self._now.seen.controller() == number else ""
            lines.append(f"controller {number}: {_process_state(self._controller(number))}{active}")
        lines += [f"application {each.name}: {each.state}" for each in self._now.applications]
        return "\n".join([*lines, *self._now.seen.lagging()])

    def _broker_state(self, number: int) -> str:
        process = self._broker(number)
        if not self._now.world.network.has_power(process.machine.host):
            return "no power"
        registered = "registered" if number in self.registered else "not registered"
        return f"{_process_state(process)}, {registered}"

    # --- look up -----------------------------------------------------------------------------

    def _broker(self, number: int) -> SimulatedProcess:
        return _member(self._now.cluster.brokers, number, "broker")

    def _controller(self, number: int) -> SimulatedProcess:
        return _member(self._now.cluster.controllers, number, "controller")

    def _hosts(self, party: Party) -> list[str]:
        """The addresses of a party. Raises UnknownMember."""
        match party:
            case Application():
                return [party.machine.host]
            case int():
                return [self._broker(party).machine.host]
            case "test":
                return [self._now.test.machine.host]
            case "controllers":
                return [process.machine.host for process in self._now.cluster.controllers]
            case "zookeeper":
                return [server.process.host for server in self._now.world.zookeeper.servers]
        raise UnknownMember(
            f"{party!r} is no party: give a broker's id, an application, 'test', 'controllers' or 'zookeeper'"
        )


def _member(members: list[SimulatedProcess], number: int, kind: str) -> SimulatedProcess:
    if not FIRST_ID <= number < FIRST_ID + len(members):
        last = FIRST_ID + len(members) - 1
        raise UnknownMember(f"there is no {kind} {number!r}; the {kind}s are {FIRST_ID} to {last}")
    return members[number - FIRST_ID]


def _process_state(process: SimulatedProcess) -> str:
    if process.life.alive:
        return "paused" if process.life.paused else "runs"
    return "killed or stopped" if process.defect is None else f"failed: {process.defect!r}"
