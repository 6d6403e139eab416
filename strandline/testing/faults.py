"""Faults on demand: what a test can do to the members of its cluster."""

from __future__ import annotations

from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.testing.application import Application
from strandline.testing.errors import NotPossible
from strandline.testing.members import FIRST_ID, Members, Party


class Faults(Members):
    """Each fault begins at once and lasts until the test ends it, or calls `heal`.

    Brokers are given by their ids, or by role: `cluster.kill(cluster.leader("orders", 0))`. Every method
    raises UnknownMember for a member that does not exist, and NotPossible where it makes no sense, such as
    the start of a broker that runs.
    """

    # --- brokers -----------------------------------------------------------------------------

    def kill(self, broker: int) -> None:
        """As kill -9. Its disk keeps everything that it wrote."""
        self._running_broker(broker, "kill").kill()

    def stop(self, broker: int) -> None:
        """As SIGTERM: it hands its leaderships over, and then ends by itself."""
        self._running_broker(broker, "stop").sigterm()

    def start(self, broker: int) -> None:
        """Run a broker again on what its disk has."""
        process = self._broker(broker)
        if process.life.alive:
            raise NotPossible(f"broker {broker} runs already")
        self._need_power(process, f"broker {broker}")
        self._now.cluster.start_broker(broker - FIRST_ID)

    def pause(self, broker: int) -> None:
        """As SIGSTOP: nothing of it runs, and its connections stay open."""
        self._running_broker(broker, "pause").pause()

    def resume(self, broker: int) -> None:
        """Continue a paused broker: it finds out by itself what it has missed."""
        process = self._running_broker(broker, "resume")
        if not process.life.paused:
            raise NotPossible(f"broker {broker} is not paused")
        process.resume()

    def expire_session(self, broker: int) -> None:
        """ZooKeeper ends the session of a broker, as after a long silence."""
        session = self._now.seen.session_of(self._known(broker))
        if session is None:
            raise NotPossible(f"broker {broker} is not registered, so it has no session that could expire")
        self._now.world.zookeeper.expire(session)

    # --- machines ----------------------------------------------------------------------------

    def lose_power(self, member: int | Application) -> None:
        """Of a broker or an application: it ends, and of its disk only what was synced is sure to stay.

        The machine does not even refuse connections: others hear nothing of it.
        """
        process = self._process(member)
        if not self._now.world.network.has_power(process.machine.host):
            raise NotPossible(f"{process.name} has no power already")
        self._now.world.lose_power(process.machine)

    def return_power(self, member: int | Application) -> None:
        """Switch the machine on. Its process does not run before `start`."""
        process = self._process(member)
        if self._now.world.network.has_power(process.machine.host):
            raise NotPossible(f"{process.name} has power")
        self._now.world.return_power(process.machine)

    def fill_disk(self, broker: int, *, full: bool = True) -> None:
        """No file on the disk of a broker can grow; `full=False`: they can again. Replicas that failed
        meanwhile return when the broker is started anew, as `heal` does."""
        self._broker(broker).machine.disk.full = full

    # --- controllers and ZooKeeper -----------------------------------------------------------

    def kill_controller(self, controller: int) -> None:
        """As kill -9."""
        process = self._controller(controller)
        if not process.life.alive:
            raise NotPossible(f"controller {controller} does not run")
        process.kill()

    def start_controller(self, controller: int) -> None:
        if self._controller(controller).life.alive:
            raise NotPossible(f"controller {controller} runs already")
        self._now.cluster.start_controller(controller - FIRST_ID)

    def lose_zookeeper_leader(self) -> None:
        """ZooKeeper elects another leader: for up to two seconds it answers no request."""
        self._now.world.zookeeper.lose_leader()

    # --- network -----------------------------------------------------------------------------

    def cut(self, one: Party, other: Party, *, both_ways: bool = True) -> None:
        """Let nothing through between two parties until `mend` or `heal`. Without `both_ways`, only what
        `one` sends is lost."""
        for source, target in self._ways(one, other, both_ways=both_ways):
            self._now.world.network.cut(source, target)

    def isolate(self, member: int | Application) -> None:
        """Cut a member off from everything until `heal`: the other brokers, the controllers, ZooKeeper and
        all clients, also those of applications that are made later."""
        host = self._process(member).machine.host
        world = self._now.world
        self._now.isolated.add(host)
        others = [machine.host for machine in world.machines]
        others += [server.process.host for server in world.zookeeper.servers]
        for other in others:
            if other != host:
                self._cut_both_ways(host, other)

    def _cut_both_ways(self, one: str, other: str) -> None:
        self._now.world.network.cut(one, other)
        self._now.world.network.cut(other, one)

    def mend(self, one: Party, other: Party) -> None:
        """End the cut between two parties, both ways."""
        for source, target in self._ways(one, other, both_ways=True):
            self._now.world.network.heal(source, target)

    def _ways(self, one: Party, other: Party, *, both_ways: bool) -> list[tuple[str, str]]:
        pairs = [(a, b) for a in self._hosts(one) for b in self._hosts(other) if a != b]
        if not pairs:
            raise NotPossible(f"{one!r} cannot be cut off from itself")
        return pairs + [(b, a) for a, b in pairs] if both_ways else pairs

    # --- all ---------------------------------------------------------------------------------

    def heal(self) -> None:
        """End every fault, and start every broker and controller that does not run.

        An application that was paused continues; one that has ended stays so. A broker that is shutting down,
        or whose disk is full, is killed first. The cluster needs a while: `await
        cluster.run_until(cluster.is_whole)`.
        """
        world, cluster = self._now.world, self._now.cluster
        world.network.heal_all()
        self._now.isolated.clear()
        for process in cluster.brokers:
            if process.stopping or process.machine.disk.full:
                process.kill()
        for machine in world.machines:
            machine.disk.full = False
            if not world.network.has_power(machine.host):
                world.return_power(machine)
        for process in [*cluster.brokers, *cluster.controllers, *(a.process for a in self._now.applications)]:
            process.resume()
        for number, process in enumerate(cluster.brokers):
            if not process.life.alive:
                cluster.start_broker(number)
        for number, process in enumerate(cluster.controllers):
            if not process.life.alive:
                cluster.start_controller(number)

    # --- look up -----------------------------------------------------------------------------

    def _known(self, broker: int) -> int:
        self._broker(broker)
        return broker

    def _running_broker(self, broker: int, what: str) -> SimulatedProcess:
        process = self._broker(broker)
        if not process.life.alive:
            raise NotPossible(f"cannot {what} broker {broker}: it does not run; `start` runs it again")
        return process

    def _process(self, member: int | Application) -> SimulatedProcess:
        return member.process if isinstance(member, Application) else self._broker(member)

    def _need_power(self, process: SimulatedProcess, name: str) -> None:
        if not self._now.world.network.has_power(process.machine.host):
            raise NotPossible(f"{name} cannot start: its machine has no power; `return_power` first")
