"""The binary format of the data that members of a stream application and their leader send each other.

It is the user data in the subscriptions and assignments of `vocabulary/parsing/consumer_protocol.py`, and
has the same encoding: numbers are big-endian; strings, bytes and arrays begin with their length. Tasks are an
array of subtopologies, each with its name and an array of partitions.

There is one version so far. Later ones must append fields: a higher version is decoded as this one, and the
rest is ignored. Any other deviation is an `InconsistentGroupProtocol` that names the position.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from strandline.errors import InconsistentGroupProtocol
from strandline.streams.core.task import TaskId
from strandline.vocabulary.groups import NO_GENERATION
from strandline.vocabulary.parsing.fields import INT16, INT32, FieldReader, int32s, string

VERSION: Final = 0

_TASKS_BYTES_MIN: Final = INT16.size + INT32.size
"""A subtopology without a name and without partitions."""
_MEMBER_BYTES_MIN: Final = 2 * INT16.size
_OWNED_BYTES: Final = 2 * INT32.size


@dataclass(frozen=True, slots=True)
class MemberData:
    """A member's data besides its subscription and owned partitions. `True`: it could run that task now."""

    revoked: frozenset[TaskId] = frozenset()
    learning: Mapping[TaskId, bool] = field(default_factory=dict)
    standbys: Mapping[TaskId, bool] = field(default_factory=dict)
    leaving: bool = False
    application_server: str = ""
    assigned: frozenset[TaskId] = frozenset()
    """Tasks that it runs. Its partitions imply them, but the leader may not know some of their topics yet."""
    generation: int = NO_GENERATION
    """Its last completed generation: of two members that report to run a task, the later generation counts.
    """

    def encode(self) -> bytes:
        """The bytes; tasks are sorted in them."""
        return b"".join(
            (
                INT16.pack(VERSION),
                INT16.pack(self.leaving),
                INT32.pack(self.generation),
                string(self.application_server),
                _tasks(self.assigned),
                _tasks(self.revoked),
                _flagged(self.learning),
                _flagged(self.standbys),
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> MemberData:
        """Decode member data. Raises InconsistentGroupProtocol for invalid bytes."""
        reader = _Reader(data, "member data")
        version = reader.version()
        leaving, generation, server = reader.flag(), reader.generation(), reader.string()
        assigned, revoked = frozenset(reader.tasks()), frozenset(reader.tasks())
        decoded = cls(revoked, reader.flagged(), reader.flagged(), leaving, server, assigned, generation)
        reader.end_of(version)
        return decoded


@dataclass(frozen=True, slots=True)
class AssignmentData:
    """The data of a member's assignment besides its partitions."""

    learning: frozenset[TaskId] = frozenset()
    """Tasks to learn; includes assigned tasks that it learned, whose partitions may arrive a generation
    later."""
    standbys: frozenset[TaskId] = frozenset()
    learned: Mapping[TaskId, bool] = field(default_factory=dict)
    """Tasks of this member that others learn; True for those that their learners could run now."""
    revoked: frozenset[TaskId] = frozenset()
    """Tasks that it revoked and that moved to another member."""
    directory: bytes = b""
    """An encoded `Directory`, the same for all members; empty if there is none."""

    def encode(self) -> bytes:
        """The bytes; tasks are sorted in them."""
        return b"".join(
            (
                INT16.pack(VERSION),
                _tasks(self.learning),
                _tasks(self.standbys),
                _flagged(self.learned),
                _tasks(self.revoked),
                INT32.pack(len(self.directory)),
                self.directory,
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> AssignmentData:
        """Decode assignment data. Raises InconsistentGroupProtocol for invalid bytes."""
        reader = _Reader(data, "assignment data")
        version = reader.version()
        learning, standbys = frozenset(reader.tasks()), frozenset(reader.tasks())
        decoded = cls(learning, standbys, reader.flagged(), frozenset(reader.tasks()), reader.blob())
        reader.end_of(version)
        return decoded


@dataclass(frozen=True, slots=True)
class Directory:
    """Where to query the state of a task: which member runs it, and the members' addresses."""

    owners: Mapping[TaskId, str] = field(default_factory=dict)
    """Member ids, each of which is in `servers`."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """Addresses by member id; empty for a member without one."""

    def encode(self) -> bytes:
        """The bytes; members and tasks are sorted in them. Raises KeyError for an owner without a server."""
        members = sorted(self.servers)
        place = {member: number for number, member in enumerate(members)}
        parts = [INT16.pack(VERSION), INT32.pack(len(members))]
        for member in members:
            parts += [string(member), string(self.servers[member])]
        subtopologies = _by_subtopology(self.owners)
        parts.append(INT32.pack(len(subtopologies)))
        for subtopology, numbers in subtopologies:
            owners = (place[self.owners[TaskId(subtopology, number)]] for number in numbers)
            parts += [string(subtopology), int32s(numbers), struct.pack(f">{len(numbers)}i", *owners)]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Directory:
        """Decode a directory. Raises InconsistentGroupProtocol for invalid bytes."""
        reader = _Reader(data, "directory")
        version = reader.version()
        members: list[str] = []
        servers: dict[str, str] = {}
        for _ in range(reader.array(_MEMBER_BYTES_MIN)):
            members.append(reader.string())
            servers[members[-1]] = reader.string()
        owners: dict[TaskId, str] = {}
        for _ in range(reader.array(_TASKS_BYTES_MIN)):
            subtopology = reader.string()
            count = reader.array(_OWNED_BYTES)
            numbers = reader.numbers(count)
            for number, place in zip(numbers, reader.numbers(count, below=len(members)), strict=True):
                owners[TaskId(subtopology, number)] = members[place]
        reader.end_of(version)
        return cls(owners, servers)


def _by_subtopology(tasks: Iterable[TaskId]) -> list[tuple[str, list[int]]]:
    return [
        (subtopology, [number for _, number in group])
        for subtopology, group in groupby(sorted(tasks), key=lambda task: task.subtopology)
    ]


def _tasks(tasks: Iterable[TaskId]) -> bytes:
    subtopologies = _by_subtopology(tasks)
    parts = [INT32.pack(len(subtopologies))]
    for subtopology, numbers in subtopologies:
        parts += [string(subtopology), int32s(numbers)]
    return b"".join(parts)


def _flagged(tasks: Mapping[TaskId, bool]) -> bytes:
    """Ready tasks, then the others."""
    return _tasks(t for t, ready in tasks.items() if ready) + _tasks(t for t, r in tasks.items() if not r)


class _Reader(FieldReader):
    def __init__(self, data: bytes, what: str) -> None:
        super().__init__(data, what, InconsistentGroupProtocol)

    def flag(self) -> bool:
        start, number = self.at, self.int16()
        if number not in (0, 1):
            raise self.wrong(start, f"{number} is neither 0 nor 1")
        return number == 1

    def generation(self) -> int:
        start, number = self.at, self.int32()
        if number < NO_GENERATION:
            raise self.wrong(start, f"generation {number}")
        return number

    def numbers(self, count: int, *, below: int = 2**31) -> tuple[int, ...]:
        """`count` numbers, each at least 0 and less than `below`."""
        start, numbers = self.at, self.int32s(count)
        for number in numbers:
            if not 0 <= number < below:
                raise self.wrong(start, f"number {number}, and from 0 to {below - 1} there may be")
        return numbers

    def tasks(self) -> list[TaskId]:
        found: list[TaskId] = []
        for _ in range(self.array(_TASKS_BYTES_MIN)):
            subtopology = self.string()
            found += (TaskId(subtopology, n) for n in self.numbers(self.array(INT32.size)))
        return found

    def flagged(self) -> dict[TaskId, bool]:
        """Ready tasks, then the others."""
        return dict.fromkeys(self.tasks(), True) | dict.fromkeys(self.tasks(), False)

    def end_of(self, version: int) -> None:
        """Raises if bytes are left and the version is known."""
        if version == VERSION:
            self.end()
