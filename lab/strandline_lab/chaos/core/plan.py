"""Draws a plan of faults for one round: which, when, and to which members. The same lots give the same plan.

A plan consists of strikes. Most strikes are one fault. Some are several faults at the same moment on
different roles, and a few hit all brokers at once, or ZooKeeper's majority. Some plans have no fault: a
problem that is found then is the cluster's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

from strandline_lab.chaos.core.faults import OPERATED, Fault, FaultKind, Member, Role, Target

T = TypeVar("T")
Lots = Callable[[], float]
"""Returns the next lot: a number from 0 to below 1."""

CALM_SHARE: Final = 0.05
"""Share of the plans that have no fault."""
STRIKE_EVERY_S: Final = 6.0
"""Mean time between two strikes."""
LASTS_S_MIN: Final = 0.3
LASTS_S_MAX: Final = 9.0
"""Longer than a session with ZooKeeper, and longer than a replica may lag."""
APART_S: Final = 1.0
"""Pause between two faults of the same member."""
TOGETHER_S: Final = 0.4
"""The faults of one strike begin within this time."""
TRIES: Final = 5
"""Draws of one fault in all. It is drawn again if its member has another fault at that time."""

FALLEN: Final = frozenset({FaultKind.KILL, FaultKind.TERMINATE, FaultKind.PAUSE, FaultKind.DISCONNECT})
"""Faults for a member of any role; clients are never disconnected."""
OFTEN: Final = frozenset({FaultKind.KILL, FaultKind.PAUSE})
ISOLATED: Final = frozenset({FaultKind.UNREACHABLE, FaultKind.REFUSED})
"""Faults that cut a broker and all other brokers off from each other."""
AT_ONCE: Final = frozenset({FaultKind.REASSIGN, FaultKind.ADD_PARTITIONS, FaultKind.BALANCE})
"""Faults that take no time and are not undone."""
OPERATED_BEGINS: Final = {FaultKind.BALANCE: (0.05, 0.25), FaultKind.LOSE_DISK: (0.35, 0.6)}
"""When an operator does it, as parts of the round: kills come before, meanwhile and after."""
DISK_LOST_PART: Final = 0.35
"""How long a broker without a disk is down at most, as a part of the round."""
OPERATED_TRIES: Final = 50


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic of a round, and its partition count at the beginning."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Setting:
    """The input of a plan. `members`: those of the cluster, and clients; `groups`: the number of consumer
    groups."""

    seconds: float
    members: Sequence[Member]
    topics: Sequence[TopicPlan]
    groups: int
    can: Collection[FaultKind]

    @property
    def partitions(self) -> int:
        """The partition count of all topics. A fault's partition is a number below it, through the topics in
        order."""
        return sum(topic.partitions for topic in self.topics)

    def of_role(self, role: Role) -> list[Member]:
        return [member for member in self.members if member.role is role]


@dataclass(frozen=True, slots=True)
class Plan:
    """The faults of a round. `faults` are in the order of their beginnings."""

    seed: int
    seconds: float
    members: tuple[Member, ...]
    topics: tuple[TopicPlan, ...]
    faults: tuple[Fault, ...]

    def partition(self, number: int) -> tuple[str, int]:
        """The topic and partition of a fault's number."""
        for topic in self.topics:
            if number < topic.partitions:
                return topic.topic, number
            number -= topic.partitions
        raise ValueError(f"no topic of the plan has partition {number}")


def draw(lots: Lots, seed: int, setting: Setting) -> Plan:
    """Draws a plan. `seed` is only recorded, so that the plan can be repeated: `lots` must come from it."""
    drawn: list[Fault] = []
    if setting.can and lots() >= CALM_SHARE:
        strikes = 1 + int(lots() * 2 * setting.seconds / STRIKE_EVERY_S)
        for _ in range(strikes):
            drawn += _strike(lots, setting, drawn)
    drawn += _operated(lots, setting, drawn)
    faults = sorted(drawn, key=lambda fault: (fault.begins_s, fault.role, fault.number))
    return Plan(seed, setting.seconds, tuple(setting.members), tuple(setting.topics), tuple(faults))


def _strike(lots: Lots, setting: Setting, before: Sequence[Fault]) -> list[Fault]:
    """Draws faults that begin at about the same time. They are fewer if the members have other faults
    then."""
    lasts_s = _between(lots, LASTS_S_MIN, min(LASTS_S_MAX, setting.seconds / 2))
    latest_s = max(0.0, setting.seconds - lasts_s - TOGETHER_S)
    begins_s = lots() * latest_s
    found: list[Fault] = []
    lot = lots()
    zookeepers = len(setting.of_role(Role.ZOOKEEPER))
    if lot < 0.06:
        wanted: list[Role | None] = [Role.BROKER] * len(setting.of_role(Role.BROKER))
    elif lot < 0.12 and zookeepers:
        wanted = [Role.ZOOKEEPER] * (zookeepers // 2 + 1)
    elif lot < 0.65:
        wanted = [None]
    else:
        wanted = [None, None] if lots() < 0.7 else [None, None, None]
    roles = _roles(lots, setting)
    for role in wanted:
        for _ in range(TRIES):
            begins = begins_s + lots() * TOGETHER_S
            fault = _fault(lots, setting, role or next(roles), begins, lasts_s)
            if fault is not None and not _contradicts(fault, [*before, *found]):
                found.append(fault)
                break
    return found


def _operated(lots: Lots, setting: Setting, before: Sequence[Fault]) -> list[Fault]:
    """Draws what an operator does, after all else: the other faults do not depend on it."""
    found: list[Fault] = []
    for kind, (earliest, latest) in OPERATED_BEGINS.items():
        if kind not in setting.can:
            continue
        lasts_s = 0.0 if kind in AT_ONCE else DISK_LOST_PART * setting.seconds
        for _ in range(OPERATED_TRIES):
            number = _pick(lots, setting.of_role(Role.BROKER)).number
            begins_s = (earliest + lots() * (latest - earliest)) * setting.seconds
            fault = Fault(kind, Role.BROKER, Target.ANY, number, round(begins_s, 3), round(lasts_s, 3))
            if not _contradicts(fault, [*before, *found]):
                found.append(fault)
                break
    return found


def _roles(lots: Lots, setting: Setting) -> Iterator[Role]:
    """Different roles, one after the other. Brokers come more often, but no role is left out."""
    present = [role for role in Role if setting.of_role(role)]
    while present:
        others = [role for role in present if role is not Role.BROKER]
        if Role.BROKER in present and (not others or lots() < 0.6):
            yield Role.BROKER
        if others:
            yield _pick(lots, others)


def _fault(lots: Lots, setting: Setting, role: Role, begins_s: float, lasts_s: float) -> Fault | None:
    """Draws one fault for this role; None if no fault is possible."""
    possible = [kind for kind in FaultKind if kind in setting.can and _fits(kind, role, setting)]
    kinds = [kind for kind in possible for _ in range(2 if kind in OFTEN else 1)]
    if not kinds:
        return None
    kind = _pick(lots, kinds)
    target, number = _target(lots, setting, role, kind)
    other = -1
    if kind is FaultKind.ONE_WAY:
        target = Target.ANY
        number, other = _two(lots, [member.number for member in setting.of_role(role)])
    if kind in AT_ONCE:
        lasts_s = 0.0
    return Fault(kind, role, target, number, round(begins_s, 3), round(lasts_s, 3), other)


def _fits(kind: FaultKind, role: Role, setting: Setting) -> bool:
    if kind in OPERATED:
        return False
    if kind in FALLEN:
        return role is not Role.CLIENT or kind is not FaultKind.DISCONNECT
    if kind in {FaultKind.ONE_WAY, *ISOLATED} and len(setting.of_role(role)) < 2:
        return False
    return role is Role.BROKER and (
        kind in {FaultKind.ONE_WAY, FaultKind.DISK_FULL, *ISOLATED} or setting.partitions > 0
    )


def _target(lots: Lots, setting: Setting, role: Role, kind: FaultKind) -> tuple[Target, int]:
    """Draws the target, and the number that the target refers to."""
    anybody = (Target.ANY, _pick(lots, setting.of_role(role)).number)
    if kind in AT_ONCE or kind is FaultKind.CHASE:
        return Target.LEADER, int(lots() * setting.partitions)
    if role is Role.CONTROLLER:
        return _pick(lots, [anybody, (Target.ACTIVE, 0), (Target.ACTIVE, 0)])
    if role is not Role.BROKER:
        return anybody
    choices = [anybody]
    if setting.partitions:
        partition = int(lots() * setting.partitions)
        choices += [(Target.LEADER, partition), (Target.FOLLOWER, partition)]
    if setting.groups:
        choices.append((Target.COORDINATOR, int(lots() * setting.groups)))
    return _pick(lots, choices)


def _contradicts(fault: Fault, others: Sequence[Fault]) -> bool:
    """True if another fault has one of the same members at the same time.

    For faults whose member is found only at their time, the nemesis checks this then.
    """
    own = _touched(fault)
    return any(
        own & _touched(other)
        and fault.begins_s < other.ends_s + APART_S
        and other.begins_s < fault.ends_s + APART_S
        for other in others
    )


def _touched(fault: Fault) -> set[Member]:
    """The members that the fault is known to hit."""
    if fault.target is not Target.ANY:
        return set()
    return {Member(fault.role, number) for number in (fault.number, fault.other) if number >= 0}


def _between(lots: Lots, low: float, high: float) -> float:
    """Draws a time. Short times are as likely as long ones: a pause of 0.5 s tests something else than one of
    5 s."""
    lot = lots()
    return low + max(0.0, high - low) * lot * lot


def _pick(lots: Lots, choices: Sequence[T]) -> T:
    return choices[int(lots() * len(choices))]


def _two(lots: Lots, choices: Sequence[int]) -> tuple[int, int]:
    first = _pick(lots, choices)
    return first, _pick(lots, [each for each in choices if each != first])


# --- reassignments -----------------------------------------------------------------------------


def moved(replicas: Sequence[int], brokers: Collection[int], factor: int) -> tuple[int, ...]:
    """Other replicas for a partition, chosen so that data or the leader always moves.

    A broker without a replica replaces the first. If there are fewer replicas than `factor`, one is added as
    the preferred one. If every broker has a replica already, the first is removed.
    """
    free = sorted(set(brokers) - set(replicas))
    if free and len(replicas) < factor:
        return (free[0], *replicas)
    if free:
        return (*replicas[1:], free[0])
    return tuple(replicas[1:]) if len(replicas) > 1 else tuple(replicas)


# --- as text -----------------------------------------------------------------------------------


def dump(plan: Plan) -> str:
    """`plan.json`."""
    said = {
        "seed": plan.seed,
        "seconds": plan.seconds,
        "members": [str(member) for member in plan.members],
        "topics": [asdict(topic) for topic in plan.topics],
        "faults": [asdict(fault) for fault in plan.faults],
    }
    return json.dumps(said, indent=1) + "\n"


def load(text: str) -> Plan:
    """Reads a dumped plan. Raises ValueError, KeyError, TypeError for anything else."""
    said = json.loads(text)
    return Plan(
        said["seed"],
        said["seconds"],
        tuple(_member(each) for each in said["members"]),
        tuple(TopicPlan(each["topic"], each["partitions"]) for each in said["topics"]),
        tuple(_dumped_fault(each) for each in said["faults"]),
    )


def _member(text: str) -> Member:
    role, _, number = text.partition(" ")
    return Member(Role(role), int(number))


def _dumped_fault(said: dict[str, Any]) -> Fault:
    named = {"kind": FaultKind(said["kind"]), "role": Role(said["role"]), "target": Target(said["target"])}
    return Fault(**{**said, **named})
