"""Plays a group of the consumer protocol on a stage: its members are clients that do what they are asked to
do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from strandline.broker.core.consumer_groups.topics import Topic
from strandline.broker.core.groups.requests import ConsumerBeats, DescribeConsumers
from strandline.errors import GroupIdNotFound, StrandlineError
from strandline.ids import PartitionKey, TopicId
from strandline.vocabulary.groups import ConsumerBeat, ConsumerHeartbeat, DescribedConsumerGroup
from tests.broker.core.consumer_groups.classic_client import ClassicClient
from tests.broker.core.groups.support.stage import HOST, LIMITS, Stage

GROUP = "readers"
TIMEOUT_MS = 60_000
LIMITS_HERE = LIMITS


@dataclass
class Client:
    """A member as its process sees it. `owned`: what it reads now; `assigned`: what it may read."""

    member: str
    instance: str | None = None
    epoch: int = 0
    owned: frozenset[PartitionKey] = frozenset()
    assigned: frozenset[PartitionKey] = frozenset()
    topics: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)


class Play:
    """`clients` by name. Topics have ids that begin with their names."""

    def __init__(self) -> None:
        self.stage = Stage(LIMITS_HERE)
        self.clients: dict[str, Client] = {}
        self.classic: dict[str, ClassicClient] = {}
        self.ids: dict[str, int] = {}
        """How many ids were made for joins, by the client's name."""
        self.topics: dict[str, Topic | None] = {}
        self.made = 0

    def make(self, name: str, partitions: int) -> None:
        """Makes a topic, or makes it larger; with 0 partitions it is deleted."""
        known = self.topics.get(name)
        if partitions == 0:
            self.topics[name] = None
        elif known is not None:
            self.topics[name] = Topic(known.topic_id, partitions)
        else:
            self.made += 1
            self.topics[name] = Topic(
                TopicId(f"{name.encode().hex()}{self.made:02x}".ljust(32, "0")), partitions
            )

    def partitions_of(self, name: str) -> int:
        topic = self.topics.get(name)
        return 0 if topic is None else topic.partitions

    def name_of(self, key: PartitionKey) -> str:
        return f"{bytes.fromhex(key.topic_id)[:1].decode()}-{key.partition}"

    def look(self) -> None:
        """The broker looks at the topics."""
        seen = {name: self.topics.get(name) for name in self.stage.core.subscribed()}
        self.stage.play(self.stage.core.see_topics(seen, self.stage.now))

    def described(self) -> DescribedConsumerGroup | None:
        """None if there is no group of this protocol."""
        answer = self.stage.answers[self.stage.ask(DescribeConsumers(GROUP))]
        assert isinstance(answer, DescribedConsumerGroup | GroupIdNotFound), answer
        return answer if isinstance(answer, DescribedConsumerGroup) else None

    # --- members -----------------------------------------------------------------------------

    def send(self, client: Client, epoch: int, **said: Any) -> str:
        """Sends one heartbeat; returns the token of its answer."""
        request = ConsumerHeartbeat(GROUP, client.member, epoch, client.instance, client_id="client", **said)
        wanted = {*(request.topics or ()), *self.stage.core.unseen(GROUP)}
        topics = {each: self.topics.get(each) for each in sorted(wanted)}
        return self.stage.ask(ConsumerBeats(request, HOST, topics))

    def take(self, client: Client, token: str) -> ConsumerBeat | StrandlineError | None:
        """The client takes its answer; None while that waits for the log."""
        answer: ConsumerBeat | StrandlineError | None = self.stage.answers.get(token)
        if isinstance(answer, ConsumerBeat):
            client.epoch = answer.epoch
            if answer.assignment is not None:
                client.assigned = frozenset(answer.assignment)
        return answer

    def ask(self, client: Client, epoch: int, **said: Any) -> ConsumerBeat | StrandlineError | None:
        return self.take(client, self.send(client, epoch, **said))

    def join(self, name: str, topics: tuple[str, ...], **more: Any) -> ConsumerBeat | StrandlineError | None:
        client = self.clients.setdefault(name, Client(name))
        client.instance = more.pop("instance", client.instance)
        client.owned = client.assigned = frozenset()
        client.topics = topics
        return self.ask(
            client, 0, topics=topics, rebalance_timeout_ms=TIMEOUT_MS, owned=(), **{**client.more, **more}
        )

    def beat(self, name: str) -> ConsumerBeat | StrandlineError | None:
        """A heartbeat that says nothing new."""
        return self.ask(self.clients[name], self.clients[name].epoch)

    def reconcile(self, name: str) -> ConsumerBeat | StrandlineError | None:
        """The client stops what it may not read, says so, and begins what it may read."""
        client = self.clients[name]
        client.owned &= client.assigned
        owned = tuple(sorted(client.owned))
        answer = self.ask(client, client.epoch, owned=owned)
        client.owned = client.assigned
        return answer
