"""Stream tasks as a way to assign the partitions of a consumer group.

A task is one partition of each of its subtopology's topics. The leader makes claims of tasks out of what the
members own and say, has `placement` place them, and turns the shares into partitions again. What
somebody owns one partition of is given to nobody else: its owner gives it up by itself, before it joins
(`release_before_join`). So what a member gets is free, and comes in the same generation. A leader that has
not heard of a topic yet sees no claim on its partitions, so members also say which tasks they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from strandline.consumer.core.assignors.assignor import MemberSubscription
from strandline.errors import InconsistentGroupProtocol, SettingsError
from strandline.ids import TopicPartition
from strandline.streams.core.member import Received, StreamMember
from strandline.streams.core.placement import Claim, Share, learned_tasks, place
from strandline.streams.core.protocol import AssignmentData, Directory, MemberData
from strandline.streams.core.task import TaskId
from strandline.vocabulary.groups import NO_GENERATION

APPLICATION_SERVER_BYTES_MAX: Final = 255
DIRECTORY_BYTES_MAX: Final = 48 * 1024
"""As it is told to each member; the group's coordinator takes 128 KiB for one member."""
DIRECTORIES_BYTES_MAX: Final = 512 * 1024
"""Told to all members together; the group's coordinator keeps 2 MiB for one group, compressed less."""


class LearnerAssignor:
    """One member's side, and the leader's when this member leads. It never waits.

    `sources` has the topics of each subtopology; a topic is in one only. `on_received` is called with what an
    assignment changes, after `owners` and `servers` have been brought up to date.
    """

    name: Final = "streams-learner"

    def __init__(
        self,
        member: StreamMember[TaskId],
        sources: Mapping[str, Sequence[str]],
        *,
        num_standbys: int,
        application_server: str,
        on_received: Callable[[Received[TaskId]], None],
        stateless: Iterable[str] = (),
    ) -> None:
        """`stateless`: subtopologies whose tasks need no standbys. Raises SettingsError."""
        if len(application_server.encode()) > APPLICATION_SERVER_BYTES_MAX:
            raise SettingsError(f"application_server has more than {APPLICATION_SERVER_BYTES_MAX} bytes")
        self.owners: Mapping[TaskId, str] = {}
        """Who runs each task, by member id, as the last assignment told; empty in a very large group."""
        self.servers: Mapping[str, str] = {}
        """`application_server` of each member, by member id, as the last assignment told."""
        self.unreadable: tuple[str, ...] = ()
        """A line for each member whose data the leader could not read, and for each with another topology, in
        the last round it led."""
        self.misheard = ""
        """Why the data of the last assignment, or its directory, could not be read: then nothing was told."""
        self._member = member
        self._sources = {name: tuple(topics) for name, topics in sources.items()}
        self._subtopology = {topic: name for name, topics in self._sources.items() for topic in topics}
        assert len(self._subtopology) == sum(map(len, self._sources.values())), f"a topic twice: {sources}"
        self._num_standbys = num_standbys
        self._application_server = application_server
        self._on_received = on_received
        self._stateless = frozenset(stateless)
        self._generation = NO_GENERATION
        """The last one that an assignment came of."""
        self._owns = False
        """Whether this member owns partitions as it joins: only then it is asked what it releases."""

    # --- partitions and tasks ------------------------------------------------------------------

    def tasks_of(self, partitions: Iterable[TopicPartition]) -> frozenset[TaskId]:
        """The tasks that any of these belong to. Partitions of other topics are of none."""
        return frozenset(
            TaskId(self._subtopology[topic], number)
            for topic, number in partitions
            if topic in self._subtopology
        )

    def partitions_of(self, tasks: Iterable[TaskId]) -> frozenset[TopicPartition]:
        """One of each topic of the subtopology, whether or not the topic has so many."""
        return frozenset(
            TopicPartition(topic, number)
            for subtopology, number in tasks
            for topic in self._sources.get(subtopology, ())
        )

    # --- a member ------------------------------------------------------------------------------

    def release_before_join(self) -> frozenset[TopicPartition]:
        """Of those tasks that others learn."""
        self._owns = True
        return self.partitions_of(self._member.giving_up())

    def subscription_user_data(self) -> bytes:
        claim = self._member.claim()
        # Who lost everything may say so before it has heard of that itself: it runs nothing then.
        owns, self._owns = self._owns, False
        return MemberData(
            claim.revoked,
            claim.learning,
            claim.standbys,
            claim.leaving,
            self._application_server,
            claim.assigned if owns else frozenset(),
            self._generation,
        ).encode()

    def on_assignment(self, user_data: bytes, assigned: frozenset[TopicPartition], generation: int) -> None:
        """What was told changes what is learned and kept; what runs here is `assigned`, and nothing else."""
        data, directory = self._heard(user_data)
        self.owners, self.servers = directory.owners, directory.servers
        share = Share(
            tuple(sorted(self.tasks_of(assigned))),
            tuple(sorted(data.revoked)),
            tuple(sorted(data.learning)),
            tuple(sorted(data.standbys)),
        )
        in_turn = self._generation in (NO_GENERATION, generation - 1)
        self._generation = generation
        self._on_received(self._member.receive(share, data.learned, in_turn=in_turn))

    def _heard(self, user_data: bytes) -> tuple[AssignmentData, Directory]:
        self.misheard = ""
        data, directory = AssignmentData(), Directory()
        try:
            if user_data:
                data = AssignmentData.decode(user_data)
            if data.directory:
                directory = Directory.decode(data.directory)
        except InconsistentGroupProtocol as error:
            self.misheard = error.message
        return data, directory

    # --- the leader ----------------------------------------------------------------------------

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        """See `strandline.consumer.core.assignors.assignor.Assignor.assign`."""
        return self.assign_and_tell(members, partitions)[0]

    def assign_and_tell(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> tuple[dict[str, list[TopicPartition]], dict[str, bytes]]:
        """As `assign`, and the `AssignmentData` of each member.

        Whose data cannot be read keeps what it owns, and learns and keeps nothing.
        """
        said = self._said(members)
        claims = self._claims(members, said)
        shares: dict[str, Share[TaskId]] = dict.fromkeys(members, Share())
        for tasks, able in self._placeable(members, partitions):
            placed = place(
                tasks,
                {name: claims[name] for name in able},
                num_standbys=self._num_standbys,
                stateless=frozenset(task for task in tasks if task.subtopology in self._stateless),
            )
            shares |= {name: _both(shares[name], share) for name, share in placed.items()}
        assigned = {
            name: sorted(
                partition
                for partition in self.partitions_of(share.assigned)
                if partition.partition < partitions.get(partition.topic, 0)
            )
            for name, share in shares.items()
        }
        servers = {name: said[name].application_server for name in members}
        return assigned, _told(shares, claims, servers)

    def _said(self, members: Mapping[str, MemberSubscription]) -> dict[str, MemberData]:
        said: dict[str, MemberData] = {}
        unreadable: list[str] = []
        for name, subscription in sorted(members.items()):
            try:
                said[name] = MemberData.decode(subscription.user_data)
            except InconsistentGroupProtocol as error:
                said[name] = MemberData()
                unreadable.append(f"member {name} keeps what it has, and learns nothing: {error.message}")
            if foreign := sorted(set(subscription.topics) - self._subtopology.keys()):
                unreadable.append(
                    f"member {name} reads {', '.join(foreign)}, which the topology of this leader does not: "
                    "nobody runs tasks of that, until all members have the same topology"
                )
        self.unreadable = tuple(unreadable)
        return said

    def _claims(
        self, members: Mapping[str, MemberSubscription], said: Mapping[str, MemberData]
    ) -> dict[str, Claim[TaskId]]:
        """A task is held by who owns a partition of it, else by who says that it runs it; else it is owned by
        who says that it gave it up. Of two who say so it is the one who heard of the later generation."""
        latest_first = sorted(members, key=lambda name: (-said[name].generation, name))
        holders: dict[TaskId, str] = {}
        owners: dict[TaskId, str] = {}
        for name in sorted(members):
            for task in self.tasks_of(members[name].owned):
                holders.setdefault(task, name)
        for name in latest_first:
            for task in said[name].assigned:
                holders.setdefault(task, name)
            for task in said[name].revoked:
                owners.setdefault(task, name)
        held: dict[str, set[TaskId]] = {name: set() for name in members}
        for task, name in holders.items():
            held[name].add(task)
        return {
            name: Claim(
                frozenset(held[name]),
                frozenset(task for task in data.revoked if owners[task] == name),
                data.learning,
                data.standbys,
                data.leaving,
            )
            for name, data in said.items()
        }

    def _placeable(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> list[tuple[list[TaskId], tuple[str, ...]]]:
        """Tasks, and who subscribes to all of their topics: in one piece, unless members do not agree."""
        by_members: dict[tuple[str, ...], list[TaskId]] = {}
        topics = {name: frozenset(subscription.topics) for name, subscription in members.items()}
        for subtopology, sources in sorted(self._sources.items()):
            there = {topic: partitions[topic] for topic in sources if topic in partitions}
            able = tuple(name for name in sorted(members) if topics[name].issuperset(there))
            tasks = by_members.setdefault(able, [])
            tasks += (TaskId(subtopology, number) for number in range(max(there.values(), default=0)))
        return [(tasks, able) for able, tasks in by_members.items()]


def _both(one: Share[TaskId], other: Share[TaskId]) -> Share[TaskId]:
    return Share(
        one.assigned + other.assigned,
        one.revoked + other.revoked,
        one.learning + other.learning,
        one.standbys + other.standbys,
    )


def _told(
    shares: Mapping[str, Share[TaskId]], claims: Mapping[str, Claim[TaskId]], servers: Mapping[str, str]
) -> dict[str, bytes]:
    learned = learned_tasks(shares, claims)
    owners = {task: name for name, share in shares.items() for task in share.assigned}
    directory = Directory(owners, servers).encode()
    if len(directory) > min(DIRECTORY_BYTES_MAX, DIRECTORIES_BYTES_MAX // max(1, len(shares))):
        directory = b""
    return {
        name: AssignmentData(
            frozenset(share.learning) | (claims[name].learning.keys() & share.assigned),
            frozenset(share.standbys) | (claims[name].standbys.keys() & share.assigned),
            {task: learned[task] for task in share.assigned if task in learned},
            frozenset(share.revoked),
            directory,
        ).encode()
        for name, share in shares.items()
    }
