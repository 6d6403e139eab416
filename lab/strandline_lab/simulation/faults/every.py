"""Every kind of fault there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline_lab.simulation.faults import (
    coordination,
    cuts,
    machines,
    networks,
    parts,
    processes,
    sequences,
    transactions,
)
from strandline_lab.simulation.faults.fault import Kind

POWER: Final = frozenset(
    {"lose power", "lose all power", "shrink to one, then lose power", "lose power as others crash"}
)
"""Kinds that take the power of machines."""

COORDINATOR: Final = "isolate a coordinator"
"""Only seeds with a group have it."""
CUT_LOG: Final = "cut a log"
"""Only seeds with a topic that allows it have it."""
CUT_AND_BACK: Final = "cut a log, and back"
"""Only seeds whose readers remember all epochs that they have read."""
LOST_DISK: Final = "lose disk"
AIMED: Final = (
    "two leaders in turn",
    "return on a slow way",
    "return to an old watermark",
    "shrink in doubt",
    "lose answers",
    "lose ZooKeeper's answers to a leader",
    "set ZooKeeper back",
)
"""Rare sequences that any seed may have."""
AIMED_AT_CONTROLLERS: Final = (
    "lose the ZooKeeper leader as a controller writes",
    "kill a controller that deletes",
)
"""Only seeds with an operator have these."""
AIMED_AT_PARTS: Final = (
    "kill a writer between parts",
    "pause a writer between parts",
    "expire a writer's session between parts",
    "reset a writer's connection between parts",
    "lose the ZooKeeper leader between parts",
    "kill a broker between parts",
)
"""Only seeds have these in which small writes are divided."""
AIMED_AT_COORDINATORS: Final = (
    "kill a coordinator at a step",
    "pause a coordinator at a step",
    "stop a coordinator at a step",
    "cut a coordinator off at a step",
)
"""Only seeds with transactions, or with a group whose coordinator assigns, have these."""
AIMED_AT_TRANSACTIONS: Final = (
    *AIMED_AT_COORDINATORS,
    "kill a leader at a step",
    "kill a coordinator and a leader at a step",
)
"""Only seeds with transactions have these."""
AIMED_AT_HARDER: Final = (
    "kill a leader with markers",
    "two leaders in turn at a step",
    "set the dates of coordinators apart",
)
"""Only seeds with the harder ones have these."""
APART: Final = frozenset({
    LOST_DISK, COORDINATOR, CUT_LOG, CUT_AND_BACK, *AIMED, *AIMED_AT_CONTROLLERS, *AIMED_AT_PARTS,
    *AIMED_AT_TRANSACTIONS, *AIMED_AT_HARDER,
})  # fmt: skip
"""Kinds that are drawn with lots of their own, so that the other faults of a seed do not depend on them."""

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
    LOST_DISK: machines.lose_disk,
    COORDINATOR: sequences.isolate_coordinator,
    CUT_LOG: cuts.cut_log,
    CUT_AND_BACK: cuts.cut_log_and_back,
    "lose power": machines.lose_power,
    "slow network": networks.slow,
    "kill the active controller": processes.kill_active_controller,
    "freeze a coordinator": processes.freeze_coordinator,
    "kill a leader": sequences.kill_leader,
    "freeze a leader": sequences.freeze_leader,
    "part a leader": sequences.part_leader,
    "lose ZooKeeper": sequences.lose_zookeeper,
    "shrink unseen": sequences.shrink_unseen,
    "shrink to one": sequences.shrink_to_one,
    "bounce, then kill the leader": sequences.bounce,
    "shrink to one, then lose power": sequences.shrink_to_one_and_lose_power,
    "lose power as others crash": sequences.lose_power_and_crash,
    "lose all power": sequences.lose_all_power,
    "two leaders in turn": sequences.lead_in_turn,
    "return on a slow way": sequences.return_slowly,
    "return to an old watermark": sequences.return_to_old_watermark,
    "shrink in doubt": sequences.shrink_in_doubt,
    "lose answers": networks.lose_answers,
    "lose ZooKeeper's answers to a leader": sequences.lose_zookeepers_answers,
    "set ZooKeeper back": coordination.set_back,
    "lose the ZooKeeper leader as a controller writes": coordination.lose_leader_under_write,
    "kill a controller that deletes": processes.kill_deleting_controller,
    "kill a writer between parts": parts.kill_writer,
    "pause a writer between parts": parts.pause_writer,
    "expire a writer's session between parts": parts.expire_writer,
    "reset a writer's connection between parts": parts.reset_writer,
    "lose the ZooKeeper leader between parts": parts.lose_leader,
    "kill a broker between parts": parts.kill_broker,
    "kill a coordinator at a step": transactions.kill_coordinator,
    "pause a coordinator at a step": transactions.pause_coordinator,
    "stop a coordinator at a step": transactions.stop_coordinator,
    "cut a coordinator off at a step": transactions.cut_coordinator_off,
    "kill a leader at a step": transactions.kill_leader,
    "kill a coordinator and a leader at a step": transactions.kill_both,
    "kill a leader with markers": transactions.kill_leader_with_markers,
    "two leaders in turn at a step": transactions.lead_in_turn_at_a_step,
    "set the dates of coordinators apart": transactions.set_dates_apart,
}
