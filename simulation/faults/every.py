"""Every kind of fault there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.simulation.faults import coordination, machines, networks, processes
from strandline.simulation.faults.fault import Kind

POWER: Final = "lose power"

KINDS: Final[Mapping[str, Kind]] = {
    "kill broker": processes.kill_broker,
    "stop broker": processes.stop_broker,
    "pause": processes.pause,
    "kill controller": processes.kill_controller,
    "cut": networks.cut,
    "reset": networks.reset,
    "lose the ZooKeeper leader": coordination.lose_leader,
    "isolate a ZooKeeper server": coordination.isolate,
    "expire a session": coordination.expire,
    "fill disk": machines.fill_disk,
    "spoil disk": machines.spoil_disk,
    "jump of the date": machines.jump_date,
    POWER: machines.lose_power,
}
