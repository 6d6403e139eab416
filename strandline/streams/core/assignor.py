"""Assigns stream tasks, as an assignor of the partitions of a consumer group.

A task is one partition of each of its subtopology's topics. The leader derives claims on tasks from the
members' partitions and user data, lets `placement` place them, and converts the shares back to partitions. If
a member owns any partition of a task, no other member gets the task: its owner revokes it by itself, before
it joins (`release_before_join`). So assigned tasks are free, and are assigned in the same generation. A
leader that does not know a topic yet sees no claim on its partitions, so members also report which tasks they
run.
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
"""The largest directory sent to each member; the group's coordinator accepts 128 KiB for one member."""
DIRECTORIES_BYTES_MAX: Final = 512 * 1024
"""The largest sum of directories sent to all members; the group's coordinator keeps 2 MiB for one group,
compressed less."""


class LearnerAssignor:
    """The assignor of one member, and of the leader if this member leads. It never blocks.

    `sources` has the topics of each subtopology; a topic belongs to only one. `on_received` is called with
    the changes of an assignment, after `owners` and `servers` were updated.
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
        """The member id of the member that runs each task, from the last assignment; empty in a very large
        group."""
        self.servers: Mapping[str, str] = {}
        """`application_server` by member id, from the last assignment."""
        self.unreadable: tuple[str, ...] = ()
        """A line for each member whose data the leader could not decode, and for each with another topology,
        from the last round that it led."""
        self.undecodable = ""
        """Why the data of the last assignment, or its directory, could not be decoded; it was then ignored.
        """
        self._member = member
        self._sources = {name: tuple(topics) for name, topics in sources.items()}
        self._subtopology = {topic: name for name, topics in self._sources.items() for topic in topics}
        assert len(self._subtopology) == sum(map(len, self._sources.values())), f"a topic twice: {sources}"
        self._num_standbys = num_standbys
        self._application_server = application_server
        self._on_received = on_received
        self._stateless = frozenset(stateless)
        self._generation = NO_GENERATION
        """The generation of the last assignment."""
        self._owns = False
        """Whether this member owns partitions as it joins: only then the consumer calls
        `release_before_join`."""

    # --- partitions and tasks ------------------------------------------------------------------

    def tasks_of(self, partitions: Iterable[TopicPartition]) -> frozenset[TaskId]:
        """The tasks to which these partitions belong. Partitions of other topics have none."""
        return frozenset(
            TaskId(self._subtopology[topic], number)
            for topic, number in partitions
            if topic in self._subtopology
        )

    def partitions_of(self, tasks: Iterable[TaskId]) -> frozenset[TopicPartition]:
        """One partition of each topic of the subtopology, whether or not the topic has that many."""
        return frozenset(
            TopicPartition(topic, number)
            for subtopology, number in tasks
            for topic in self._sources.get(subtopology, ())
        )

    # --- member side ---------------------------------------------------------------------------

    def release_before_join(self) -> frozenset[TopicPartition]:
        """The partitions of tasks that other members learn."""
        self._owns = True
        return self.partitions_of(self._member.giving_up())

    def subscription_user_data(self) -> bytes:
        claim = self._member.claim()
        # After a member has lost everything, this may run before it is notified of the loss: it runs no
        # tasks then.
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
        """Learned and standby tasks follow from the user data; the tasks that run here follow only from
        `assigned`."""
        data, directory = self._decode(user_data)
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

    def _decode(self, user_data: bytes) -> tuple[AssignmentData, Directory]:
        self.undecodable = ""
        data, directory = AssignmentData(), Directory()
        try:
            if user_data:
                data = AssignmentData.decode(user_data)
            if data.directory:
                directory = Directory.decode(data.directory)
        except InconsistentGroupProtocol as error:
            self.undecodable = error.message
        return data, directory

    # --- leader side ---------------------------------------------------------------------------

    def assign(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> dict[str, list[TopicPartition]]:
        """See `strandline.consumer.core.assignors.assignor.Assignor.assign`."""
        return self.assign_with_user_data(members, partitions)[0]

    def assign_with_user_data(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> tuple[dict[str, list[TopicPartition]], dict[str, bytes]]:
        """As `assign`, and the `AssignmentData` of each member.

        A member whose data cannot be decoded keeps what it owns, and gets no task to learn or to stand by
        for.
        """
        decoded = self._decode_members(members)
        claims = self._claims(members, decoded)
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
        servers = {name: decoded[name].application_server for name in members}
        return assigned, _assignment_data(shares, claims, servers)

    def _decode_members(self, members: Mapping[str, MemberSubscription]) -> dict[str, MemberData]:
        decoded: dict[str, MemberData] = {}
        unreadable: list[str] = []
        for name, subscription in sorted(members.items()):
            try:
                decoded[name] = MemberData.decode(subscription.user_data)
            except InconsistentGroupProtocol as error:
                decoded[name] = MemberData()
                unreadable.append(f"member {name} keeps what it has, and learns nothing: {error.message}")
            if foreign := sorted(set(subscription.topics) - self._subtopology.keys()):
                unreadable.append(
                    f"member {name} reads {', '.join(foreign)}, which the topology of this leader does not: "
                    "no member runs tasks of it, until all members have the same topology"
                )
        self.unreadable = tuple(unreadable)
        return decoded

    def _claims(
        self, members: Mapping[str, MemberSubscription], decoded: Mapping[str, MemberData]
    ) -> dict[str, Claim[TaskId]]:
        """A task is held by the member that owns a partition of it, else by the one that reports to run it;
        otherwise it is owned by the one that reports to have revoked it. Of two such reports the later
        generation counts."""
        latest_first = sorted(members, key=lambda name: (-decoded[name].generation, name))
        holders: dict[TaskId, str] = {}
        owners: dict[TaskId, str] = {}
        for name in sorted(members):
            for task in self.tasks_of(members[name].owned):
                holders.setdefault(task, name)
        for name in latest_first:
            for task in decoded[name].assigned:
                holders.setdefault(task, name)
            for task in decoded[name].revoked:
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
            for name, data in decoded.items()
        }

    def _placeable(
        self, members: Mapping[str, MemberSubscription], partitions: Mapping[str, int]
    ) -> list[tuple[list[TaskId], tuple[str, ...]]]:
        """Groups of tasks, with the members that subscribe to all of their topics: one group, unless members
        disagree."""
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


def _assignment_data(
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
