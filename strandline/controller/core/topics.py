"""Checks a topic's name, size, config and assignment; each refusal has a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from strandline.config.limits import (
    PARTITIONS_PER_REQUEST_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    REPLICAS_PER_BROKER_MAX,
    TOPICS_PER_REQUEST_MAX,
)
from strandline.controller.core.broker_list import listed
from strandline.controller.core.cluster import ClusterPicture
from strandline.controller.core.placement import ReplicaAssignment, place
from strandline.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    TopicAlreadyExists,
)
from strandline.ids import INTERNAL_PREFIX, BrokerId, TopicPartition
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.metadata import Registration
from strandline.vocabulary.topic_config import TopicConfig
from strandline.vocabulary.topics import check_topic_name

NEW_PARTITIONS_PER_REQUEST_MAX: Final = 20_000
"""The bound over all topics that one request creates: they are placed together."""

INTERNAL_CONFIGS: Final = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "max.message.bytes",
        "message.timestamp.type",
        "min.compaction.lag.ms",
        "unclean.leader.election.enable",
    }
)
"""Configs of internal topics that the system sets. Retention, segments and `min.insync.replicas` are the
administrator's."""

CONFIG_NAMES: Final = frozenset(field.alias or name for name, field in TopicConfig.model_fields.items())


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A planned topic: the config overrides, and one assignment per partition, in order."""

    name: str
    config: Mapping[str, str]
    assignments: Sequence[ReplicaAssignment]


@dataclass(frozen=True, slots=True)
class Brokers:
    """Brokers that may get replicas: the registered ones, and the ids that were registered once."""

    live: Mapping[BrokerId, Registration]
    known: Set[BrokerId]
    emptied: Set[BrokerId] = frozenset()
    """Brokers whose replicas are drained to others."""

    @property
    def staying(self) -> Mapping[BrokerId, Registration]:
        """The live that are not shutting down: only these lead or are in sync (CORRECTNESS I7)."""
        return {id_: broker for id_, broker in self.live.items() if not broker.shutting_down}

    @property
    def hosting(self) -> str:
        """The hosts' condition, for people."""
        return "alive and not being drained" if self.emptied else "alive"

    @property
    def hosts(self) -> Sequence[Registration]:
        """Brokers eligible for automatic placement."""
        return [broker for id_, broker in self.staying.items() if id_ not in self.emptied]


def check_request(names: Collection[str]) -> set[str]:
    """The duplicate names. Raises InvalidRequest if there are too many names."""
    if len(names) > TOPICS_PER_REQUEST_MAX:
        raise InvalidRequest(
            f"{len(names)} topics in one request; send at most {TOPICS_PER_REQUEST_MAX} at a time",
            limit=TOPICS_PER_REQUEST_MAX,
        )
    return {name for name, count in Counter(names).items() if count > 1}


def check_new_partitions(topics: Collection[NewTopic]) -> None:
    """Raises InvalidRequest if there are too many partitions, over all topics, to place at once."""
    asked = (max(new.partitions, len(new.assignments)) for new in topics)
    total = sum(count for count in asked if 0 < count <= PARTITIONS_PER_TOPIC_MAX)
    if total > NEW_PARTITIONS_PER_REQUEST_MAX:
        raise InvalidRequest(
            f"{total} partitions in one request; create at most {NEW_PARTITIONS_PER_REQUEST_MAX} at a time",
            limit=NEW_PARTITIONS_PER_REQUEST_MAX,
        )


def check_partitions_asked(names: Collection[TopicPartition]) -> set[TopicPartition]:
    """The duplicate partitions. Raises InvalidRequest if there are too many."""
    if len(names) > PARTITIONS_PER_REQUEST_MAX:
        raise InvalidRequest(
            f"{len(names)} partitions in one request; send at most {PARTITIONS_PER_REQUEST_MAX} at a time",
            limit=PARTITIONS_PER_REQUEST_MAX,
        )
    return {name for name, count in Counter(names).items() if count > 1}


def check_name(name: str, *, internal: bool) -> None:
    """Checks a name by Kafka's rules and the rule about internal names. Raises InvalidTopic."""
    check_topic_name(name)
    if name.startswith(INTERNAL_PREFIX) and not internal:
        raise InvalidTopic(
            f"topic name {name!r}: names that begin with {INTERNAL_PREFIX!r} are the system's own"
        )


def check_config(values: Mapping[str, str]) -> dict[str, str]:
    """The config as it is stored: overrides only, under Kafka's names.

    Raises InvalidConfig, also for values that contradict each other.
    """
    config = TopicConfig.parse_new(values)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise InvalidConfig(
            f"min.compaction.lag.ms={config.min_compaction_lag_ms} is more than "
            f"max.compaction.lag.ms={config.max_compaction_lag_ms}",
            limit=config.max_compaction_lag_ms,
        )
    return config.overrides()


def check_internal_config(name: str, values: Collection[str]) -> None:
    """Raises InvalidConfig for a change that would break the system's own use of the topic."""
    if not name.startswith(INTERNAL_PREFIX):
        return
    for config in sorted(INTERNAL_CONFIGS & set(values)):
        raise InvalidConfig(
            f"topic {name!r} is the system's own: its {config} cannot be changed, "
            "since records could be lost or refused that brokers rely on"
        )


def change_config(now: Mapping[str, str], set_: Mapping[str, str], unset: Collection[str]) -> dict[str, str]:
    """The config after a change. Raises InvalidConfig, InvalidRequest."""
    both = sorted(set_.keys() & set(unset))
    if both:
        raise InvalidRequest(f"topic config {both[0]!r} is to be set and unset at once")
    for name in unset:
        if name not in CONFIG_NAMES:
            raise InvalidConfig(f"unknown topic config {name!r}; known are {', '.join(sorted(CONFIG_NAMES))}")
    kept = {name: value for name, value in now.items() if name not in unset}
    return check_config({**kept, **set_})


def plan_topic(new: NewTopic, brokers: Brokers, picture: ClusterPicture, *, internal: bool) -> TopicPlan:
    """Check a new topic completely, and place it.

    Raises InvalidTopic, TopicAlreadyExists, InvalidPartitions, InvalidReplicationFactor,
    InvalidReplicaAssignment, InvalidConfig; the message names the value and the bound.
    """
    if new.name in picture:
        raise TopicAlreadyExists(f"topic {new.name!r} exists already")
    check_name(new.name, internal=internal)
    check_internal_config(new.name, new.config.keys() - {"cleanup.policy"})
    if new.assignments:
        assignments = _check_assignments(new, brokers)
    else:
        _check_size(new, brokers)
        assignments = ()
    config = check_config(new.config)
    if not assignments:
        assignments = place(
            [broker.endpoint for broker in brokers.hosts],
            partitions=new.partitions,
            replication_factor=new.replication_factor,
            first=picture.placed,
            load=picture.replicas,
        )
    check_load(new.name, assignments, picture)
    return TopicPlan(new.name, config, assignments)


def _check_size(new: NewTopic, brokers: Brokers) -> None:
    check_partitions(new.name, new.partitions)
    live = len(brokers.hosts)
    if not 1 <= new.replication_factor <= live:
        raise InvalidReplicationFactor(
            f"topic {new.name!r}: replication factor {new.replication_factor}, but {live} "
            f"{'broker is' if live == 1 else 'brokers are'} {brokers.hosting}; choose 1 to {live}"
            if live
            else f"topic {new.name!r}: no broker is alive to hold it",
            limit=live,
        )


def check_partitions(name: str, partitions: int) -> None:
    """Raises InvalidPartitions."""
    if not 1 <= partitions <= PARTITIONS_PER_TOPIC_MAX:
        raise InvalidPartitions(
            f"topic {name!r}: {partitions} partitions; 1 to {PARTITIONS_PER_TOPIC_MAX} are allowed",
            limit=PARTITIONS_PER_TOPIC_MAX,
        )


def _check_assignments(new: NewTopic, brokers: Brokers) -> tuple[ReplicaAssignment, ...]:
    count = len(new.assignments)
    check_partitions(new.name, count)
    if new.partitions not in (0, count):
        raise InvalidReplicaAssignment(
            f"topic {new.name!r}: {new.partitions} partitions, but assignments for {count}"
        )
    replication_factor = len(new.assignments[0])
    return check_assignments(new.name, new.assignments, brokers, replication_factor)


def check_assignments(
    name: str,
    assignments: Sequence[Sequence[int]],
    brokers: Brokers,
    replication_factor: int,
    *,
    first: int = 0,
) -> tuple[ReplicaAssignment, ...]:
    """Checks the assignments of new partitions, from number `first` on. Raises InvalidReplicaAssignment."""
    checked = []
    for partition, replicas in enumerate(assignments, first):
        where = f"topic {name!r}, partition {partition}: replicas {list(replicas)}"
        checked.append(check_replicas(where, replicas, brokers))
        if len(replicas) != replication_factor:
            raise InvalidReplicaAssignment(
                f"{where} are {len(replicas)}, those of partition 0 are {replication_factor}; "
                "all partitions of a topic have equally many"
            )
    return tuple(checked)


def check_replicas(where: str, replicas: Sequence[int], brokers: Brokers) -> ReplicaAssignment:
    """Checks the replicas of one partition. Raises InvalidReplicaAssignment that begins with `where`."""
    if not replicas:
        raise InvalidReplicaAssignment(f"{where} name no broker")
    if len(set(replicas)) != len(replicas):
        raise InvalidReplicaAssignment(f"{where} name a broker twice")
    unknown = sorted(set(replicas) - brokers.known)
    if unknown:
        raise InvalidReplicaAssignment(
            f"{where}: broker {unknown[0]} is not known; {_known_are(brokers.known)}"
        )
    if not any(replica in brokers.staying for replica in replicas):
        raise InvalidReplicaAssignment(f"{where}: none of them is alive, so nobody could lead")
    return tuple(map(BrokerId, replicas))


def _known_are(known: Set[BrokerId]) -> str:
    return f"known are {listed(known)}" if known else "none is known yet"


def check_load(name: str, assignments: Sequence[ReplicaAssignment], picture: ClusterPicture) -> None:
    """Raises InvalidPartitions if a broker would have too many replicas with these."""
    added = Counter(broker for assignment in assignments for broker in assignment)
    for broker, count in sorted(added.items()):
        total = picture.replicas.get(broker, 0) + count
        if total > REPLICAS_PER_BROKER_MAX:
            raise InvalidPartitions(
                f"topic {name!r} would give broker {broker} {total} replicas; at most "
                f"{REPLICAS_PER_BROKER_MAX} are allowed: choose fewer partitions or replicas, or add brokers",
                limit=REPLICAS_PER_BROKER_MAX,
            )
