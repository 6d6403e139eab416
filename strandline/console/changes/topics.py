"""Changes to topics: create, alter, grow and delete one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from strandline.client.admin.topics import TopicDescription
from strandline.config.limits import PARTITIONS_PER_TOPIC_MAX
from strandline.console.clients import Clients
from strandline.console.core.changes import Effect, Ended, Place
from strandline.console.core.forms import Form
from strandline.console.core.topics import effects
from strandline.console.core.words import counted
from strandline.errors import InvalidRequest, StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.topics import check_topic_name

CONFIG_CHARS_MAX: Final = 5_000
REPLICAS_MAX: Final = 100
STARTS_WAIT_MS: Final = 1_000
"""How long a deletion waits for leaders to say where their logs start."""


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """A new topic."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest, InvalidTopic."""
        name = form.needed("name")
        check_topic_name(name)
        return cls(
            name,
            form.whole("partitions", 1, PARTITIONS_PER_TOPIC_MAX),
            form.whole("replication_factor", 1, REPLICAS_MAX),
            effects.config_of(form.text("config", chars_max=CONFIG_CHARS_MAX)),
        )

    @property
    def place(self) -> Place:
        return Place(topic=self.name)

    async def plan(self, clients: Clients) -> Effect:
        """Raises the controller's refusal."""
        new = NewTopic(self.name, self.partitions, self.replication_factor, self.config)
        await clients.admin.create_topics([new], validate_only=True)
        alive = [broker.id for broker in (await clients.admin.metadata()).brokers]
        return effects.creation(self.name, self.partitions, self.replication_factor, self.config, alive)

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises the controller's refusal."""
        await clients.admin.create_topic(self.name, self.partitions, self.replication_factor, self.config)
        each = counted(self.partitions, "partition")
        return Ended.done(
            f"Topic {self.name} is created. Its {each} {'has' if self.partitions == 1 else 'have'} leaders."
        )


async def described(clients: Clients, topic: str) -> TopicDescription:
    """A topic with its replicas. Raises UnknownTopicOrPartition."""
    (found,) = await clients.admin.describe_topics([topic], replicas=True)
    return found


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """Other config for a topic."""

    topic: str
    to_set: Mapping[str, str]
    to_unset: tuple[str, ...]

    @classmethod
    def read(cls, form: Form) -> Self:
        """Reads `name` with `value` or with `unset`, and lines of `config`. Raises InvalidRequest."""
        to_set = effects.config_of(form.text("config", chars_max=CONFIG_CHARS_MAX))
        name = form.text("name")
        unset = form.flag("unset")
        if name and not unset:
            to_set[name] = form.text("value", chars_max=CONFIG_CHARS_MAX)
        if not name and not to_set:
            raise InvalidRequest("name is missing: choose a setting")
        return cls(form.needed("topic"), to_set, (name,) if name and unset else ())

    @property
    def place(self) -> Place:
        return Place(topic=self.topic)

    async def plan(self, clients: Clients) -> Effect:
        """Raises UnknownTopicOrPartition, InvalidConfig, InvalidRequest, …"""
        effect = effects.alteration(await described(clients, self.topic), self.to_set, self.to_unset)
        await clients.admin.alter_topic(self.topic, set=self.to_set, unset=self.to_unset, validate_only=True)
        return effect

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises the controller's refusal."""
        await clients.admin.alter_topic(
            self.topic, set=self.to_set, unset=self.to_unset, topic_id=effect.topic_id
        )
        return Ended.done(
            f"The config of topic {self.topic} is changed. Each broker reads it a moment later."
        )


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """More partitions for a topic."""

    topic: str
    partitions: int

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        return cls(form.needed("topic"), form.whole("partitions", 1, PARTITIONS_PER_TOPIC_MAX))

    @property
    def place(self) -> Place:
        return Place(topic=self.topic)

    async def plan(self, clients: Clients) -> Effect:
        """Raises UnknownTopicOrPartition, InvalidPartitions, …"""
        effect = effects.growth(await described(clients, self.topic), self.partitions)
        await clients.admin.alter_topic(self.topic, partitions=self.partitions, validate_only=True)
        return effect

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises the controller's refusal."""
        await clients.admin.alter_topic(self.topic, partitions=self.partitions, topic_id=effect.topic_id)
        return Ended.done(f"Topic {self.topic} has {counted(self.partitions, 'partition')}.")


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """The end of a topic; of the one with this id, if there is one by then."""

    topic: str

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        return cls(form.needed("topic"))

    @property
    def place(self) -> Place:
        return Place(topic=self.topic)

    async def plan(self, clients: Clients) -> Effect:
        """Raises UnknownTopicOrPartition."""
        topic = await described(clients, self.topic)
        names = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
        answers = await clients.admin.describe_replicas(names, wait_ms=STARTS_WAIT_MS)
        starts = {
            name.partition: answer.log_start_offset
            for name, answer in answers.items()
            if not isinstance(answer, StrandlineError)
        }
        return effects.deletion(topic, starts)

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises the controller's refusal."""
        await clients.admin.delete_topics({self.topic: effect.topic_id})
        return Ended.done(f"Topic {self.topic} is deleted with its records.")
