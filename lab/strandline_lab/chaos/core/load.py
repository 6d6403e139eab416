"""The clients of a round: which there are, what they read and write, and in which groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from strandline_lab.chaos.core import faults
from strandline_lab.chaos.core.faults import Member
from strandline_lab.chaos.core.plan import TopicPlan

WATERMARKS_EVERY_S: Final = 0.5
SESSION_TIMEOUT_MS: Final = 4_000

TRANSACTED: Final = TopicPlan("tide", 3)
"""Only transactions write to it."""
TOPICS: Final = (TopicPlan("swell", 4), TopicPlan("ebb", 2), TRANSACTED)
MIN_INSYNC: Final = {"swell": 2, "ebb": 1, "tide": 2}
"""In `ebb` a single replica may acknowledge. It is then the only one that may lead (E2)."""
BY_HAND: Final = ("--by-hand", "--max-poll-interval-ms", "3000")
BLOCKING: Final = (*BY_HAND, "--block", "4")
"""The member blocks for longer than its group waits. The group removes it, and it joins again."""


class Library(StrEnum):
    """The library that a client uses; each name is also that of its package."""

    STRANDLINE = "strandline"
    CONFLUENT = "confluent-kafka"
    AIOKAFKA = "aiokafka"


KAFKA: Final = (Library.CONFLUENT, Library.AIOKAFKA)


@dataclass(frozen=True, slots=True)
class ClientRole:
    """A client of the load. `options` are those of `strandline verify produce` or `verify consume`, or of the
    same commands of a Kafka client (`strandline_lab.chaos.kafka`); or those of a client with transactions
    (`strandline_lab.chaos.transactions`)."""

    name: str
    """The name of its history without the number of the process: `produce-p1`."""
    topic: str
    options: Sequence[str]
    value_prefix: str = ""
    """The prefix of the values that a client sends. Each of its processes has another one, so that no value
    is sent twice."""
    group: str = ""
    """The group of a member."""
    library: Library = Library.STRANDLINE

    @property
    def produces(self) -> bool:
        return bool(self.value_prefix) and not self.group

    @property
    def processes(self) -> bool:
        """It sends what it makes of the records that its group gives it."""
        return bool(self.value_prefix and self.group)

    @property
    def transacts(self) -> bool:
        return "--transactional-id" in self.options

    @property
    def begins_with(self) -> str:
        """The event that shows that the client does its work. Without a promise (acks=1), no event tells of
        an acknowledgement."""
        if not self.produces:
            return "assigned"
        return "sent" if set(self.options) >= _LEADER_ALONE else "acked"


@dataclass(frozen=True, slots=True)
class ClientRoles:
    """All clients of a round."""

    roles: Sequence[ClientRole]

    @property
    def members(self) -> Mapping[Member, ClientRole]:
        """The clients that may be harmed: members of groups. A group without joins and leaves proves
        little."""
        in_groups = (role for role in self.roles if role.group)
        return {Member(faults.Role.CLIENT, number): role for number, role in enumerate(in_groups, 1)}

    @property
    def group_topics(self) -> Mapping[str, str]:
        """The topic of each group. A plan refers to groups by their numbers in this order."""
        return {role.group: role.topic for role in self.roles if role.group}

    @property
    def has_kafka(self) -> bool:
        return any(role.library in KAFKA for role in self.roles)

    @property
    def option(self) -> str:
        """The option of a round that asks for these clients."""
        return "--kafka-clients" if self.has_kafka else "--no-kafka-clients"

    @property
    def groups(self) -> Sequence[str]:
        return list(self.group_topics)


def _producer(
    name: str, topic: str, rate: int, *options: str, library: Library = Library.STRANDLINE
) -> ClientRole:
    return ClientRole(
        f"produce-{name}", topic, ("--rate", str(rate), *options), value_prefix=name, library=library
    )


def _transactional(name: str) -> Sequence[str]:
    """The transactional id stays the same over all processes of the client."""
    return "--transactional-id", f"chaos-{name}", "--partitions", str(TRANSACTED.partitions)


def _processor(
    name: str, topic: str, group: str, number: int, *, library: Library = Library.STRANDLINE
) -> ClientRole:
    """A member that sends, in transactions, one record for each that it is given."""
    reading = ("--group", group, "--client-id", f"{group}-{number}")
    session = ("--session-timeout-ms", str(SESSION_TIMEOUT_MS))
    options = (*_transactional(name), "--to", TRANSACTED.topic, *reading, *session)
    history = f"consume-group-{group}-{number}"
    return ClientRole(history, topic, options, value_prefix=name, group=group, library=library)


def _reader(name: str, topic: str, *, library: Library = Library.STRANDLINE) -> ClientRole:
    # A Kafka client always begins at the earliest record, and reads what is committed.
    begin = ("--from", "earliest", "--isolation", "committed") if library is Library.STRANDLINE else ()
    return ClientRole(
        f"consume-assign-{name}", topic, (*begin, "--watermarks", str(WATERMARKS_EVERY_S)), library=library
    )


def _member(group: str, topic: str, number: int, protocol: str, *manner: str) -> ClientRole:
    reading = ("--from", "earliest", "--watermarks", str(WATERMARKS_EVERY_S))
    options = ("--group", group, "--rebalance-protocol", protocol, "--client-id", f"{group}-{number}")
    session = ("--session-timeout-ms", str(SESSION_TIMEOUT_MS))
    name = f"consume-group-{group}-{number}"
    return ClientRole(name, topic, (*reading, *options, *session, *manner), group=group)


def _kafka_member(group: str, topic: str, number: int, library: Library, assignor: str) -> ClientRole:
    options = ("--group", group, "--assignor", assignor, "--client-id", f"{group}-{number}")
    session = ("--session-timeout-ms", str(SESSION_TIMEOUT_MS))
    name = f"consume-group-{group}-{number}"
    return ClientRole(name, topic, (*options, *session), group=group, library=library)


_LEADER_ALONE: Final = {"--acks", "1"}

_OWN_ROLES: Final = (
    _producer("p1", "swell", 150),
    _producer("p2", "swell", 100, "--keys", "50", "--delivery-timeout-ms", "15000"),
    _producer("p3", "ebb", 100, "--delivery-timeout-ms", "30000"),
    _reader("1", "swell"),
    _reader("2", "ebb"),
    _member("eager", "swell", 1, "eager"),
    _member("eager", "swell", 2, "eager"),
    _member("cooperative", "swell", 1, "cooperative"),
    _member("cooperative", "swell", 2, "cooperative"),
    _member("mixed", "ebb", 1, "eager"),
    _member("mixed", "ebb", 2, "eager"),
    _member("mixed", "ebb", 3, "cooperative"),
    _member("by-hand", "ebb", 1, "cooperative", *BY_HAND),
    _member("by-hand", "ebb", 2, "cooperative", *BLOCKING),
    _producer("t1", TRANSACTED.topic, 50, *_transactional("t1")),
    _reader("3", TRANSACTED.topic),
    _processor("s1", "ebb", "process", 1),
)

# librdkafka takes a new epoch when an idempotent producer gives records up, and may store others twice then
# (its issue 4953). So the idempotent ones do not give up within a round.
_KAFKA_ROLES: Final = (
    _producer("k1", "swell", 100, library=Library.CONFLUENT),
    _producer("k2", "ebb", 25, "--delivery-timeout-ms", "40000", library=Library.AIOKAFKA),
    _producer("k3", "ebb", 25, "--acks", "1", "--delivery-timeout-ms", "10000", library=Library.CONFLUENT),
    _reader("k1", "ebb", library=Library.CONFLUENT),
    _reader("k2", "swell", library=Library.AIOKAFKA),
    _kafka_member("kafka", "swell", 1, Library.CONFLUENT, "range"),
    _kafka_member("kafka", "swell", 2, Library.AIOKAFKA, "range"),
    _member("shared-eager", "ebb", 1, "eager"),
    _kafka_member("shared-eager", "ebb", 2, Library.CONFLUENT, "range"),
    _member("shared-cooperative", "swell", 1, "cooperative"),
    _kafka_member("shared-cooperative", "swell", 2, Library.CONFLUENT, "cooperative-sticky"),
    _producer("t2", TRANSACTED.topic, 50, *_transactional("t2"), library=Library.CONFLUENT),
    _reader("k3", TRANSACTED.topic, library=Library.CONFLUENT),
    _processor("s2", "ebb", "process", 2, library=Library.CONFLUENT),
)

OWN: Final = ClientRoles(_OWN_ROLES)
"""strandline's own clients."""
WITH_KAFKA: Final = ClientRoles((*_OWN_ROLES, *_KAFKA_ROLES))
"""The same, and Kafka clients beside them, at the end: the numbers of the others stay what they are."""
