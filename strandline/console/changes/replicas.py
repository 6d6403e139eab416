"""Changes to where replicas and leaders are: reassign, cancel and throttle moves, balance, drain, elect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from strandline.client.admin.admin import Admin
from strandline.client.admin.moves import ReassignmentProgress
from strandline.client.admin.refusals import raise_first
from strandline.client.arguments import INT32_MAX, INT64_MAX
from strandline.console.changes.topics import described
from strandline.console.clients import Clients
from strandline.console.core.changes import Effect, Ended, Place
from strandline.console.core.forms import Form
from strandline.console.core.topics import moves
from strandline.console.core.words import counted, listed
from strandline.errors import ElectionNotNeeded, InvalidRequest, UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.vocabulary.admin import BalanceAction

TIMEOUT_S_MAX: Final = 30 * 24 * 3600
BALANCE_TOPICS_CHARS_MAX: Final = 20_000


def _throttle(form: Form) -> int:
    """Bytes a second; 0: no limit."""
    return form.whole("throttle", 0, INT64_MAX, 0)


@dataclass(frozen=True, slots=True)
class Reassign:
    """Other replicas for one partition."""

    name: TopicPartition
    replicas: tuple[int, ...]
    throttle_bytes_per_s: int
    timeout_s: int | None

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        replicas = form.brokers("replicas")
        if not replicas:
            raise InvalidRequest("replicas is missing: name brokers with commas between them")
        name = TopicPartition(form.needed("topic"), form.whole("partition", 0, INT32_MAX))
        timeout_s = form.whole_or_none("timeout_s", 0, TIMEOUT_S_MAX)
        return cls(name, replicas, _throttle(form), timeout_s)

    @property
    def place(self) -> Place:
        return Place(topic=self.name.topic, partition=self.name.partition)

    async def plan(self, clients: Clients) -> Effect:
        """Raises UnknownTopicOrPartition, InvalidReplicaAssignment, …"""
        topic = await described(clients, self.name.topic)
        if self.name.partition >= len(topic.partitions):
            raise UnknownTopicOrPartition(f"there is no partition {self.name}")
        warnings = await clients.admin.reassign({self.name: self.replicas}, validate_only=True)
        ongoing = next(
            (each for each in await clients.admin.list_reassignments() if each.name == self.name), None
        )
        partition = topic.partitions[self.name.partition]
        return moves.reassignment(
            topic, partition, self.replicas, self.throttle_bytes_per_s, ongoing, warnings
        )

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises the controller's refusal."""
        warnings = await clients.admin.reassign(
            {self.name: self.replicas},
            throttle_bytes_per_s=self.throttle_bytes_per_s,
            timeout_ms=None if self.timeout_s is None else 1000 * self.timeout_s,
            topic_ids={self.name.topic: effect.topic_id},
        )
        return Ended.done(f"{self.name} moves to brokers {listed(self.replicas)}.", *warnings)


@dataclass(frozen=True, slots=True)
class ChosenMoves:
    """Moves under way: that of one partition, or all of a topic, or all."""

    topic: str
    partition: int | None

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        topic, partition = form.text("topic"), form.whole_or_none("partition", 0, INT32_MAX)
        if partition is not None and not topic:
            raise InvalidRequest(f"partition = {partition} without a topic: name its topic too")
        return cls(topic, partition)

    @property
    def place(self) -> Place:
        return Place(topic=self.topic, partition=self.partition)

    async def find(self, admin: Admin) -> list[ReassignmentProgress]:
        """These moves, in order. Raises NotController."""
        found = [
            each
            for each in await admin.reassignment_progress()
            if self.topic in ("", each.move.name.topic) and self.partition in (None, each.move.name.partition)
        ]
        return sorted(found, key=lambda each: each.move.name)


@dataclass(frozen=True, slots=True)
class CancelMoves:
    """Moves under way are taken back."""

    chosen: ChosenMoves

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        return cls(ChosenMoves.read(form))

    @property
    def place(self) -> Place:
        return self.chosen.place

    async def plan(self, clients: Clients) -> Effect:
        """Raises NoReassignmentInProgress, NotController."""
        return moves.taking_back(await self.chosen.find(clients.admin))

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises the controller's refusal."""
        found = [each.move.name for each in await self.chosen.find(clients.admin) if not each.move.reverting]
        await clients.admin.cancel_reassignment(found)
        return Ended.done(f"{counted(len(found), 'move')} cancelled: {listed(found[:20])}.")


@dataclass(frozen=True, slots=True)
class ThrottleMoves:
    """Another throttle for moves under way."""

    chosen: ChosenMoves
    throttle_bytes_per_s: int

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        return cls(ChosenMoves.read(form), _throttle(form))

    @property
    def place(self) -> Place:
        return self.chosen.place

    async def plan(self, clients: Clients) -> Effect:
        """Raises NoReassignmentInProgress, NotController."""
        return moves.throttling(await self.chosen.find(clients.admin), self.throttle_bytes_per_s)

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises the controller's refusal."""
        names = [each.move.name for each in await self.chosen.find(clients.admin)]
        changed = await clients.admin.throttle_reassignments(
            names, throttle_bytes_per_s=self.throttle_bytes_per_s
        )
        return Ended.done(f"The throttle of {counted(len(changed), 'move')} is changed.")


@dataclass(frozen=True, slots=True)
class StartBalance:
    """Replicas and preferred leaders are spread evenly: over these brokers, none: all; of these topics."""

    brokers: tuple[int, ...]
    topics: tuple[str, ...]
    throttle_bytes_per_s: int

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        named = form.text("topics", chars_max=BALANCE_TOPICS_CHARS_MAX)
        topics = tuple(each.strip() for each in named.split(",") if each.strip())
        return cls(form.brokers("brokers"), topics, _throttle(form))

    @property
    def place(self) -> Place:
        return Place(topic=self.topics[0] if len(self.topics) == 1 else "")

    async def plan(self, clients: Clients) -> Effect:
        """Raises InvalidRequest, UnknownTopicOrPartition, NotController."""
        plan = await clients.admin.plan_balance(brokers=self.brokers, topics=self.topics)
        return moves.balance(plan, self.throttle_bytes_per_s)

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises as `plan`."""
        plan = await clients.admin.start_balance(
            brokers=self.brokers, topics=self.topics, throttle_bytes_per_s=self.throttle_bytes_per_s
        )
        return Ended.done(f"The balance has begun: {counted(len(plan.moves), 'move')}.")


_ACTIONS: Final = {
    "pause": BalanceAction.PAUSE,
    "resume": BalanceAction.RESUME,
    "cancel": BalanceAction.CANCEL,
    "revert": BalanceAction.REVERT,
}


@dataclass(frozen=True, slots=True)
class AlterBalance:
    """The balance under way is paused, resumed, cancelled or taken back."""

    action: BalanceAction

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        return cls(_ACTIONS[form.choice("action", list(_ACTIONS))])

    @property
    def place(self) -> Place:
        return Place()

    async def plan(self, clients: Clients) -> Effect:
        """Raises InvalidRequest if no balance is under way, NotController."""
        return moves.balance_change(await clients.admin.describe_balance(), self.action)

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises as `plan`."""
        admin = clients.admin
        match self.action:
            case BalanceAction.PAUSE:
                now = await admin.pause_balance()
            case BalanceAction.RESUME:
                now = await admin.resume_balance()
            case _:
                now = await admin.cancel_balance(revert=self.action is BalanceAction.REVERT)
        return Ended.done(f"The balance is {now.state}.")


@dataclass(frozen=True, slots=True)
class DrainBroker:
    """A broker without leaderships or replicas, until the drain is ended."""

    broker: int
    replicas: bool
    throttle_bytes_per_s: int

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        return cls(form.whole("broker", 0, INT32_MAX), form.flag("replicas"), _throttle(form))

    @property
    def place(self) -> Place:
        return Place(broker=self.broker)

    async def plan(self, clients: Clients) -> Effect:
        """Raises InvalidRequest for an unknown broker, NotController."""
        cluster = await clients.admin.describe_cluster()
        if self.broker not in {each.endpoint.id for each in cluster.brokers}:
            raise InvalidRequest(f"there is no broker {self.broker}")
        topics = (await clients.admin.metadata()).topics
        return moves.drain(
            topics, self.broker, replicas=self.replicas, throttle_bytes_per_s=self.throttle_bytes_per_s
        )

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises the controller's refusal."""
        left = await clients.admin.drain_broker(
            self.broker, replicas=self.replicas, throttle_bytes_per_s=self.throttle_bytes_per_s
        )
        still = f"{counted(left.leaderships, 'leadership')} and {counted(left.replicas, 'replica')}"
        return Ended.done(f"Broker {self.broker} is drained. It still has {still}.", *left.problems)


@dataclass(frozen=True, slots=True)
class UndrainBroker:
    """The end of a drain."""

    broker: int

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        return cls(form.whole("broker", 0, INT32_MAX))

    @property
    def place(self) -> Place:
        return Place(broker=self.broker)

    async def plan(self, clients: Clients) -> Effect:
        """Raises InvalidRequest if the broker is not drained, NotController."""
        cluster = await clients.admin.describe_cluster()
        found = next((each for each in cluster.brokers if each.endpoint.id == self.broker), None)
        return moves.undrain(self.broker, is_drained=found is not None and found.drained)

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises the controller's refusal."""
        await clients.admin.undrain_broker(self.broker)
        return Ended.done(f"The drain of broker {self.broker} is ended.")


@dataclass(frozen=True, slots=True)
class ElectPreferred:
    """The preferred leaders of a topic lead."""

    topic: str

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        return cls(form.needed("topic"))

    @property
    def place(self) -> Place:
        return Place(topic=self.topic)

    async def plan(self, clients: Clients) -> Effect:
        """Raises UnknownTopicOrPartition, InvalidRequest if they lead already."""
        (topic,) = (await clients.admin.metadata([self.topic])).topics
        return moves.preferred_election(topic)

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises the first refusal, with the others as notes, once the other elections are made."""
        (topic,) = (await clients.admin.metadata([self.topic])).topics
        names = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
        results = [
            each
            for each in await clients.admin.elect_preferred(names)
            if not isinstance(each.error, ElectionNotNeeded)
        ]
        raise_first((each.name, each.error) for each in results)
        return Ended.done(f"The preferred leaders of topic {topic.name} lead.")
