"""What a case is made of: requests with names of fields as in Kafka's definitions, and what they stand on.

A text in a body, a topic or a target may have `{v}`: it becomes the version under test, so that each version
finds topics and groups of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from strandline_lab.conformance.batches import Batch

VERSION_MAX: Final = 99
VERSION: Final = "{v}"


@dataclass(frozen=True, slots=True)
class TopicId:
    """Stands for the id of a topic, which each system chose."""

    topic: str


@dataclass(frozen=True, slots=True)
class Taken:
    """Stands for a value that an earlier call of the case took from its answer; `missing` if it had none."""

    name: str
    missing: Any = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that a case needs. Broker 1 leads each partition, and every broker has a replica. The first
    partition has `batches`."""

    name: str
    partitions: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)
    batches: Sequence[Batch] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Stands for the broker that coordinates a group."""

    name: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """Stands for the broker that coordinates a transactional id."""

    name: str


@dataclass(frozen=True, slots=True)
class Leader:
    """Stands for the broker that leads partition 0 of a topic that the system made."""

    topic: str


Role = Group | Transaction | Leader
Target = int | Role
"""A broker's id, or one that has a role."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request. A call with a version of its own prepares: its answer is not compared.

    `take` names values of the answer by their paths, such as `Topics.0.TopicId`. `settled` says that errors
    of a coordinator or leader that is not ready yet are waited out. `until` is a path whose value must be
    `value`, or not be empty if that is None: the request is sent again until then, since systems show what
    changed only after a while. The call is carried out `times` times.
    """

    api: str
    body: Mapping[str, Any]
    version: int | None = None
    to: Target = 1
    take: Mapping[str, str] = field(default_factory=dict)
    settled: bool = True
    until: str | None = None
    value: Any = None
    times: int = 1


@dataclass(frozen=True, slots=True)
class Case:
    """A request that is compared at each version from `since` to `until`, after others and with topics."""

    name: str
    call: Call
    before: Sequence[Call] = ()
    topics: Sequence[Topic] = ()
    since: int = 0
    until: int = VERSION_MAX
    only: str = ""
    """Only elements of the answer whose names begin so are compared: others are of other cases."""

    @property
    def api(self) -> str:
        return self.call.api


def in_version(value: Any, version: int) -> Any:
    """`value`, with `{v}` replaced in all of its texts."""
    match value:
        case str():
            return value.replace(VERSION, str(version))
        case TopicId(topic):
            return TopicId(in_version(topic, version))
        case Group(name):
            return Group(in_version(name, version))
        case Transaction(name):
            return Transaction(in_version(name, version))
        case Mapping():
            return {name: in_version(each, version) for name, each in value.items()}
        case list() | tuple():
            return [in_version(each, version) for each in value]
        case _:
            return value


def topics_of(case: Case, versions: Sequence[int]) -> Iterator[Topic]:
    """The topics that the case needs in these versions."""
    for version in versions:
        for topic in case.topics:
            yield replace(topic, name=in_version(topic.name, version))


def names_in(value: Any) -> Iterator[str]:
    """All names of fields in a body."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield name
            yield from names_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from names_in(each)
