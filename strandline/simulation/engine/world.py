"""One simulated world: its loop, its network, its ZooKeeper, its machines, and the one seed of them all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, Self, TypeVar

from strandline.adapters.zookeeper.requests.merged import OPERATIONS_MERGED_MAX
from strandline.simulation.engine.clocks import NS_PER_S, MachineClock
from strandline.simulation.engine.disks import Disk
from strandline.simulation.engine.hosts import Machine, SimulatedProcess
from strandline.simulation.engine.loop import SimulatedLoop
from strandline.simulation.engine.network import Network
from strandline.simulation.engine.trace import Trace
from strandline.simulation.engine.zookeeper.ensemble import Ensemble

T = TypeVar("T")

ZOOKEEPERS: Final = 3
ADDRESSES: Final = "10.0.0.{}"
WALL_MS: Final = 1_700_000_000_000
"""About the Unix time at which a simulation begins."""
CLOCK_DRIFT_MAX: Final = 0.000_2
CLOCK_OFFSET_MS_MAX: Final = 500
UPTIME_S_MAX: Final = 1_000_000


def drawn_clock(random: Random) -> MachineClock:
    """The clock of a machine that was switched on some time ago: a little wrong, a little fast or slow."""
    uptime_s = random.uniform(0, UPTIME_S_MAX)
    rate = 1 + random.uniform(-CLOCK_DRIFT_MAX, CLOCK_DRIFT_MAX)
    clock = MachineClock(rate, started_ns=-int(uptime_s * NS_PER_S))
    clock.jump(WALL_MS - clock.wall_ms(0) + random.randint(-CLOCK_OFFSET_MS_MAX, CLOCK_OFFSET_MS_MAX))
    return clock


class World:
    """Everything that a seed decides. Use it as a context manager: it deletes what is left at the end."""

    def __init__(
        self,
        seed: int,
        *,
        keep_trace: bool = False,
        loop: SimulatedLoop | None = None,
        new_clock: Callable[[Random], MachineClock] | None = None,
        addresses: str = ADDRESSES,
        operations_merged_max: int = OPERATIONS_MERGED_MAX,
    ) -> None:
        """`loop` may run on real time. `new_clock` makes the clocks of the machines. `addresses` are theirs,
        with a place for the number. `operations_merged_max`: see `Machine`."""
        self.seed = seed
        self._operations_merged_max = operations_merged_max
        self.loop = loop or SimulatedLoop.new(self.random("loop"))
        self._addresses = addresses
        self._new_clock = new_clock or drawn_clock
        self.trace = Trace(self.loop.now_ns, keep=keep_trace)
        self.network = Network(self.loop, self.random("network"), self.trace)
        hosts = [f"10.1.0.{number + 1}" for number in range(ZOOKEEPERS)]
        self.zookeeper = Ensemble(self.network, self.random("zookeeper"), hosts)
        self.machines: list[Machine] = []
        self.defects: list[str] = []
        """A line for each process that a defect ended."""
        self._lives = 0

    def random(self, purpose: str) -> Random:
        """Lots for one purpose: they do not depend on how many were drawn for others."""
        return Random(f"{self.seed} {purpose}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the world to its end."""
        return self.loop.run(work)

    # --- machines and processes --------------------------------------------------------------

    def new_machine(self) -> Machine:
        """Another machine."""
        host = self._addresses.format(len(self.machines) + 1)
        clock = self._new_clock(self.random(f"machine {host}"))
        machine = Machine(host, clock, Disk(self.random(f"disk {host}")), self._operations_merged_max)
        self.machines.append(machine)
        return machine

    def new_process(
        self, name: str, machine: Machine, on_defect: Callable[[str], None] | None = None
    ) -> SimulatedProcess:
        """A process that has not begun to run. Without `on_defect` its defects go to those of the world."""
        self._lives += 1
        random = self.random(f"process {name} {self._lives}")
        return SimulatedProcess(
            name, machine, self.loop, self.network, random, on_defect or self.defects.append
        )

    def lose_power(self, machine: Machine) -> None:
        """Processes end, unsynced writes may be lost, and the network hears nothing of the machine."""
        lives = [process.life for process in machine.processes]
        for process in list(machine.processes):
            process.power_lost()
        self.network.power_lost(machine.host, lives)
        machine.disk.power_lost()

    def return_power(self, machine: Machine) -> None:
        """The machine is switched on: its monotonic clock begins anew."""
        now_ns = self.loop.now_ns()
        machine.clock.wall_ms_at_zero = machine.clock.wall_ms(now_ns)
        machine.clock.started_ns = now_ns
        self.network.power_returned(machine.host)
        self.trace.note(f"power returned to {machine.host}")
