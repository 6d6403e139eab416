"""A plan of faults for one round, drawn from lots: which, when, to whom. The same lots give the same plan.

A plan is made of strikes. Most are one fault, some are several at the same moment on different roles, a few
are all brokers at once, or ZooKeeper's majority. Sometimes there is none: what is found wrong then is
nobody's fault but the cluster's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

from strandline.chaos.core.faults import Fault, FaultKind, Member, Role, Target

T = TypeVar("T")
Lots = Callable[[], float]
"""The next lot: a number from 0 to below 1."""

CALM_SHARE: Final = 0.05
"""Of the plans, those without a fault."""
STRIKE_EVERY_S: Final = 6.0
"""A strike each so many seconds, on the mean."""
LASTS_S_MIN: Final = 0.3
LASTS_S_MAX: Final = 9.0
"""Longer than a session with ZooKeeper, and than a replica may stay behind."""
APART_S: Final = 1.0
"""Between two faults of the same member."""
TOGETHER_S: Final = 0.4
"""The faults of one strike begin within this."""
TRIES: Final = 5
"""A fault whose member has another one at that time is drawn anew, so many times in all."""

FALLEN: Final = frozenset({FaultKind.KILL, FaultKind.TERMINATE, FaultKind.PAUSE, FaultKind.DISCONNECT})
"""What can be done to a member of any role, but that clients are not cut off."""
OFTEN: Final = frozenset({FaultKind.KILL, FaultKind.PAUSE})
ISOLATED: Final = frozenset({FaultKind.UNREACHABLE, FaultKind.REFUSED})
"""A broker and all others are cut off from each other."""
AT_ONCE: Final = frozenset({FaultKind.REASSIGN, FaultKind.ADD_PARTITIONS})
"""What is done, and not undone: it lasts no time."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic of a round, and how many partitions it begins with."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Setting:
    """What a plan is drawn for. `members` are those of the cluster, and clients; `groups`: how many read."""

    seconds: float
    members: Sequence[Member]
    topics: Sequence[TopicPlan]
    groups: int
    can: Collection[FaultKind]

    @property
    def partitions(self) -> int:
        """Of all topics. A fault's partition is a number below this, through the topics in order."""
        return sum(topic.partitions for topic in self.topics)

    def of_role(self, role: Role) -> list[Member]:
        return [member for member in self.members if member.role is role]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done in a round. `faults` in the order of their beginnings."""

    seed: int
    seconds: float
    members: tuple[Member, ...]
    topics: tuple[TopicPlan, ...]
    faults: tuple[Fault, ...]

    def partition(self, number: int) -> tuple[str, int]:
        """The topic and the partition that a fault's number stands for."""
        for topic in self.topics:
            if number < topic.partitions:
                return topic.topic, number
            number -= topic.partitions
        raise ValueError(f"no topic of the plan has partition {number}")


def draw(lots: Lots, seed: int, setting: Setting) -> Plan:
    """A plan. `seed` is only written down, for whoever wants to repeat it: `lots` must come from it."""
    drawn: list[Fault] = []
    if setting.can and lots() >= CALM_SHARE:
        strikes = 1 + int(lots() * 2 * setting.seconds / STRIKE_EVERY_S)
        for _ in range(strikes):
            drawn += _strike(lots, setting, drawn)
    faults = sorted(drawn, key=lambda fault: (fault.begins_s, fault.role, fault.number))
    return Plan(seed, setting.seconds, tuple(setting.members), tuple(setting.topics), tuple(faults))


def _strike(lots: Lots, setting: Setting, before: Sequence[Fault]) -> list[Fault]:
    """Faults that begin at about the same time; fewer than meant if the members are under others."""
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


def _roles(lots: Lots, setting: Setting) -> Iterator[Role]:
    """Brokers more often than the others, but no role is left out; different ones, one after the other."""
    present = [role for role in Role if setting.of_role(role)]
    while present:
        others = [role for role in present if role is not Role.BROKER]
        if Role.BROKER in present and (not others or lots() < 0.6):
            yield Role.BROKER
        if others:
            yield _pick(lots, others)


def _fault(lots: Lots, setting: Setting, role: Role, begins_s: float, lasts_s: float) -> Fault | None:
    """One fault of this role; None if nothing can be done to it."""
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
    if kind in FALLEN:
        return role is not Role.CLIENT or kind is not FaultKind.DISCONNECT
    if kind in {FaultKind.ONE_WAY, *ISOLATED} and len(setting.of_role(role)) < 2:
        return False
    return role is Role.BROKER and (
        kind in {FaultKind.ONE_WAY, FaultKind.DISK_FULL, *ISOLATED} or setting.partitions > 0
    )


def _target(lots: Lots, setting: Setting, role: Role, kind: FaultKind) -> tuple[Target, int]:
    """Whom it is meant for, and the number that says who that is."""
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
    """True if one of the others has one of the same members at the same time.

    Of those whose member is not known before they are done, the nemesis finds out then.
    """
    own = _touched(fault)
    return any(
        own & _touched(other)
        and fault.begins_s < other.ends_s + APART_S
        and other.begins_s < fault.ends_s + APART_S
        for other in others
    )


def _touched(fault: Fault) -> set[Member]:
    """The members that are known to be under it."""
    if fault.target is not Target.ANY:
        return set()
    return {Member(fault.role, number) for number in (fault.number, fault.other) if number >= 0}


def _between(lots: Lots, low: float, high: float) -> float:
    """Short times as often as long ones: a pause of half a second is not one of five."""
    lot = lots()
    return low + max(0.0, high - low) * lot * lot


def _pick(lots: Lots, choices: Sequence[T]) -> T:
    return choices[int(lots() * len(choices))]


def _two(lots: Lots, choices: Sequence[int]) -> tuple[int, int]:
    first = _pick(lots, choices)
    return first, _pick(lots, [each for each in choices if each != first])


# --- where a partition goes --------------------------------------------------------------------


def moved(replicas: Sequence[int], brokers: Collection[int], factor: int) -> tuple[int, ...]:
    """Other replicas for a partition, such that data always moves or a leader does.

    A broker that has none takes the place of the first; one that is missing for the `factor` is added as
    the preferred one; where every broker has a replica already, the first goes.
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
    """The plan that was written down so. Raises ValueError, KeyError, TypeError for anything else."""
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
