"""A stream application: its tasks, who runs each, who learns it or stands by for it. Pure.

Two sources say it. The group's description has what its leader decided: the data that members and leader
send each other (`strandline.streams.core.protocol`). The group's events have what the members did since:
which task runs, and how far a copy is. What neither says stays unknown, and `Application.unknown` says so in
sentences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from strandline.console.core.timeline import rows as timeline
from strandline.console.core.timeline.rows import NO_ROLE, GroupRow
from strandline.consumer.described.view import STABLE, GroupView
from strandline.errors import InconsistentGroupProtocol
from strandline.streams.core.assignor import LearnerAssignor
from strandline.streams.core.protocol import AssignmentData, Directory, MemberData
from strandline.streams.core.task import TaskId
from strandline.vocabulary.groups import DescribedMember
from strandline.vocabulary.parsing.consumer_protocol import Assignment, Subscription

ASSIGNOR: Final = LearnerAssignor.name
"""The protocol of groups that are stream applications."""
CHANGELOG: Final = "-changelog"
REPARTITION: Final = "-repartition"
READY: Final = "ready"
"""A member's word for a copy that is near enough to the end."""


class Role(Enum):
    """What a member does for a task."""

    RUNS = "runs it"
    RESTORES = "restores it, then runs it"
    STOPPED = "stopped it"
    OWNS = "was given it"
    """The leader gave it to the member, and no event says what the member did with it."""
    LEARNS = "learns it"
    STANDS_BY = "stands by"

    @property
    def owns(self) -> bool:
        """Whether this member is the one that runs the task, or is about to."""
        return self in (Role.RUNS, Role.RESTORES, Role.STOPPED, Role.OWNS)


@dataclass(frozen=True, slots=True)
class Progress:
    """What a member last said of its copy; None: it did not say. `at_ms` is the member's clock."""

    at_ms: int
    lag: int | None = None
    records_per_s: float | None = None
    remaining_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One member's part in a task. `ready`: it could run the task now; None is unknown."""

    member: str
    role: Role
    ready: bool | None = None
    progress: Progress | None = None

    @property
    def place(self) -> int:
        """0 for an owner, 1 for a learner, 2 for a standby."""
        return 0 if self.role.owns else 1 if self.role is Role.LEARNS else 2


@dataclass(frozen=True, slots=True)
class Task:
    """A task with those that have a part in it: its owner first, then its learner, then standbys."""

    name: str
    parts: tuple[Part, ...]
    input_lag: int | None = None
    """Records of its topics that it has not read yet; None is unknown."""

    @property
    def owner(self) -> Part | None:
        """Who runs it, or is about to."""
        return next((part for part in self.parts if part.role.owns), None)

    @property
    def others(self) -> tuple[Part, ...]:
        """Learners and standbys."""
        return tuple(part for part in self.parts if not part.role.owns)


@dataclass(frozen=True, slots=True)
class StreamMember:
    """A member. `server` is its address for queries; `leaving`: it hands its tasks over."""

    member: str
    client_id: str
    host: str
    server: str = ""
    leaving: bool = False
    readable: bool = True
    """Whether its data could be decoded."""


@dataclass(frozen=True, slots=True)
class Application:
    """A stream application as far as it is known."""

    group: GroupView
    members: tuple[StreamMember, ...]
    tasks: tuple[Task, ...]
    unknown: tuple[str, ...]

    def count(self, place: int) -> int:
        """How many parts of this place there are (`Part.place`)."""
        return sum(part.place == place for task in self.tasks for part in task.parts)


@dataclass(frozen=True, slots=True)
class Said:
    """What a member said last about a task: its role in the words of the timeline, and its figures."""

    role: str
    progress: Progress | None


Sayings = Mapping[tuple[str, str], Said]
"""By member and task."""


def sayings(row: GroupRow | None) -> Sayings:
    """The last word of each member about each task, as the timeline has it.

    A member that left says nothing any longer, nor does one about a task that it closed.
    """
    found: dict[tuple[str, str], Said] = {}
    for name, task in ({} if row is None else row.tasks).items():
        for member, steps in task.members.items():
            role = steps.last
            if role is not None and role.state != NO_ROLE.state:
                found[member, name] = Said(role.state, _progress(role, steps.last_ms))
    return found


def _progress(role: timeline.Role, at_ms: int) -> Progress | None:
    figures = [None if value < 0 else value for value in (role.lag, role.records_per_s, role.remaining_ms)]
    if figures == [None, None, None]:
        return None
    lag, rate, left = figures
    return Progress(at_ms, None if lag is None else int(lag), rate, None if left is None else int(left))


# --- from the group's description ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Decoded:
    claim: MemberData | None
    share: AssignmentData | None


def _decode(member: DescribedMember) -> _Decoded:
    claim = share = None
    try:
        claim = MemberData.decode(Subscription.decode(member.metadata).user_data)
        if member.assignment:
            data = Assignment.decode(member.assignment).user_data
            share = AssignmentData.decode(data) if data else None
    except InconsistentGroupProtocol:
        pass  # Application.unknown says so
    return _Decoded(claim, share)


def _owners(decoded: Iterable[_Decoded]) -> Mapping[TaskId, str] | None:
    """The directory of the last assignment, the same for all members; None in a group too large for one."""
    for each in decoded:
        if each.share is not None and each.share.directory:
            try:
                return Directory.decode(each.share.directory).owners
            except InconsistentGroupProtocol:
                return None
    return None


def application(view: GroupView, said: Sayings) -> Application:
    """The application of this group."""
    decoded = {member.member: _decode(member) for member in view.group.members}
    owners = _owners(decoded.values())
    parts: dict[str, dict[str, Part]] = defaultdict(dict)
    for name, each in decoded.items():
        if each.share is None:
            continue
        flags = {} if each.claim is None else {**each.claim.standbys, **each.claim.learning}
        for role, tasks in ((Role.STANDS_BY, each.share.standbys), (Role.LEARNS, each.share.learning)):
            for task in tasks:
                parts[str(task)][name] = Part(name, role, flags.get(task))
    for task, name in (owners or {}).items():
        parts[str(task)][name] = Part(name, Role.OWNS)
    for (name, task_name), word in said.items():
        if name in decoded:
            part = _with(parts[task_name].get(name), name, word, decided=owners is not None)
            if part is None:
                parts[task_name].pop(name, None)
            else:
                parts[task_name][name] = part
    lags = _input_lags(view, {_subtopology(task) for task in parts})
    found = tuple(
        Task(name, tuple(sorted(of.values(), key=_order)), lags.get(name))
        for name, of in sorted(parts.items(), key=lambda each: _natural(each[0]))
        if of
    )
    return Application(view, _members(view, decoded), found, _unknown(view, decoded, owners, said))


_ROLES: Final = {
    "running": Role.RUNS,
    "restoring": Role.RESTORES,
    "suspended": Role.STOPPED,
    "learning": Role.LEARNS,
    "ready": Role.LEARNS,
    "standby": Role.STANDS_BY,
}


def _with(part: Part | None, member: str, said: Said, *, decided: bool) -> Part | None:
    """A member's part with what it said last.

    Where the leader's decision is known, it says who owns a task. What members said before it counts only if
    it fits: a member that stopped a task may have no part in it any longer.
    """
    role = _ROLES.get(said.role)
    if part is None:
        return None if decided or role is None else _said(Part(member, role), said)
    if role is None or role.owns != part.role.owns:
        return part  # what was said before the leader decided
    return _said(replace(part, role=role) if role.owns else part, said)


def _said(part: Part, said: Said) -> Part:
    ready = True if said.role == READY else part.ready
    return replace(part, ready=None if part.role.owns else ready, progress=said.progress)


def _order(part: Part) -> tuple[int, str]:
    return part.place, part.member


def _natural(task: str) -> tuple[str, int, str]:
    try:
        parsed = TaskId.parse(task)
    except ValueError:
        return task, -1, task
    return parsed.subtopology, parsed.partition, task


def _subtopology(task: str) -> str:
    return task.rpartition("-")[0]


def _members(view: GroupView, decoded: Mapping[str, _Decoded]) -> tuple[StreamMember, ...]:
    found = []
    for member in view.members:
        claim = decoded[member.member].claim
        known = claim or MemberData()
        found.append(
            StreamMember(
                member.member,
                member.client_id,
                member.host,
                known.application_server,
                known.leaving,
                claim is not None,
            )
        )
    return tuple(found)


# --- the input of tasks -------------------------------------------------------------------------


def topics_of(
    application_id: str, subtopologies: Collection[str], topics: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """The topics that each subtopology reads, as far as their names say it.

    A subtopology has the name of its first topic, or of its repartition. Which one reads a further topic is
    known only if a single one is left that may.
    """
    found: dict[str, tuple[str, ...]] = {}
    left = set(topics)
    for name in subtopologies:
        own = f"{application_id}-{name}{REPARTITION}"
        if own in left:
            found[name] = (own,)
            left.discard(own)
    rest = [name for name in subtopologies if name not in found]
    if len(rest) == 1:
        return found | {rest[0]: tuple(sorted(left))}
    if left == set(rest):
        found |= {name: (name,) for name in rest}
    return found


def _input_lags(view: GroupView, subtopologies: Collection[str]) -> dict[str, int]:
    """The lag of each task whose topics are known, and known whole."""
    topics = {partition.name.topic for partition in view.partitions}
    reads = topics_of(view.group.group, subtopologies, topics)
    home = {topic: name for name, of in reads.items() for topic in of}
    sums: dict[str, int | None] = {}
    for partition in view.partitions:
        if (name := home.get(partition.name.topic)) is None:
            continue
        task = str(TaskId(name, partition.name.partition))
        before = sums.get(task, 0)
        sums[task] = None if before is None or partition.lag is None else before + partition.lag
    return {task: lag for task, lag in sums.items() if lag is not None}


# --- what is not known --------------------------------------------------------------------------


def _unknown(
    view: GroupView, decoded: Mapping[str, _Decoded], owners: object, said: Sayings
) -> tuple[str, ...]:
    sentences: list[str] = []
    if not decoded:
        return ("No member runs this application now, so its tasks have no owner.",)
    if view.group.state != STABLE:
        sentences.append(
            "The members are between two generations: who has what is what they said last, until it ends."
        )
    if owners is None and view.group.state == STABLE:
        sentences.append(
            "The assignment has no list of all tasks, as in a very large group: only tasks of which a member "
            "spoke are here."
        )
    if unreadable := sum(each.claim is None for each in decoded.values()):
        sentences.append(f"The data of {unreadable} of {len(decoded)} members could not be read.")
    if not said:
        sentences.append(
            "No event of a task is known: who has which task is what the group's last assignment says. "
            "Whether tasks run, and how far copies are, is not known."
        )
    return tuple(sentences)


# --- which groups are applications --------------------------------------------------------------


def application_names(
    groups: Sequence[str], topics: Iterable[str], spoke: Collection[str]
) -> tuple[str, ...]:
    """The groups that are stream applications: those whose members spoke of tasks, and those that have topics
    of their own. One of neither kind looks like any other group until it is described."""
    known = frozenset(groups)
    found = {group for group in spoke if group in known}
    for topic in topics:
        for suffix in (CHANGELOG, REPARTITION):
            if topic.endswith(suffix):
                found |= known.intersection(_starts(topic.removesuffix(suffix)))
    return tuple(sorted(found))


def _starts(name: str) -> Iterable[str]:
    """What stands before each hyphen.

    >>> list(_starts("a-b-c"))
    ['a', 'a-b']
    """
    at = name.find("-")
    while at >= 0:
        yield name[:at]
        at = name.find("-", at + 1)
