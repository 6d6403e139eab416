"""The parts of a cluster that have lanes: partitions, brokers, groups, stream tasks."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.console.core.timeline.lanes.counts import Counts
from strandline.console.core.timeline.lanes.holdings import Holdings
from strandline.console.core.timeline.lanes.marks import Marks
from strandline.console.core.timeline.lanes.samples import Samples
from strandline.console.core.timeline.lanes.spans import Spans
from strandline.console.core.timeline.lanes.steps import ALWAYS, Steps
from strandline.console.core.timeline.places import NO_REF, Ref
from strandline.ids import NO_EPOCH
from strandline.vocabulary.transactions import TransactionState

LIVES_MAX: Final = 100
"""Topics of one name of which more than their bars is kept: those that events were about last."""
GONE: Final = -1
"""As a leader: no broker leads."""


def partition_key(topic: str, partition: int) -> tuple[bool, str, int]:
    """The key of a partition's row: internal topics are last."""
    return topic.startswith("__"), topic, partition


class Life(NamedTuple):
    """One of the topics that had a name: the greatest leader epoch of the partition that is known, and the
    request that says that it was deleted, NO_REF if none does."""

    topic_id: str
    epoch: int
    deleted_ms: int = ALWAYS
    deleted_by: Ref = NO_REF


class PartitionRow:
    """A partition by its name: all incarnations of the topic are in one row, since epochs never decrease."""

    __slots__ = (
        "brokers", "events", "exists", "isr", "leader", "lives", "marks", "partition", "reassignments",
        "replicas", "requests", "samples", "topic",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.leader: Steps[int] = Steps()
        self.isr: Steps[tuple[int, ...]] = Steps()
        self.requests = Spans()
        self.reassignments = Spans()
        self.marks = Marks()
        self.events = Marks()
        """All its events, by their kinds."""
        self.samples: Samples | None = None
        self.brokers: set[int] = set()
        """Those that had to do with it."""
        self.replicas = Counts()
        """How many it has, and had."""
        self.lives: tuple[Life, ...] = ()
        """A tuple takes less memory than a dict; there is seldom more than one."""
        self.exists = False
        """Whether the cluster has it, as it was seen last."""

    @property
    def key(self) -> tuple[bool, str, int]:
        return partition_key(self.topic, self.partition)

    @property
    def id(self) -> str:
        return f"partition/{self.topic}/{self.partition}"

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def life(self, topic_id: str) -> Life:
        """What is known of the partition of this topic."""
        return next((each for each in self.lives if each.topic_id == topic_id), Life(topic_id, NO_EPOCH))

    def lived(self, topic_id: str, epoch: int) -> None:
        """Notes that the partition of this topic had this leader epoch."""
        life = self.life(topic_id)
        if epoch > life.epoch:
            self._know(life._replace(epoch=epoch))

    def deleted(self, topic_id: str, at_ms: int, ref: Ref) -> None:
        """Notes that this topic was deleted, as an event says: its leader and its ISR end there."""
        self.replicas.changed(at_ms)
        self._know(self.life(topic_id)._replace(deleted_ms=at_ms, deleted_by=ref))

    def missed(self, topic_id: str, at_ms: int) -> None:
        """Notes that the partition of this topic was not seen any longer, which an event may say better."""
        life = self.life(topic_id)
        if life.deleted_by == NO_REF:
            self.leader.end(at_ms, NO_REF, life.epoch)
            self.isr.end(at_ms, NO_REF, life.epoch)

    def _know(self, life: Life) -> None:
        others = (each for each in self.lives if each.topic_id != life.topic_id)
        self.lives = (*others, life)[-LIVES_MAX:]
        if life.deleted_by != NO_REF:
            self.leader.end(life.deleted_ms, life.deleted_by, life.epoch)
            self.isr.end(life.deleted_ms, life.deleted_by, life.epoch)

    def trim(self, floor_ms: int) -> bool:
        """Forgets what is older. True if nothing is left to show."""
        if len(self.lives) > 1:
            self.lives = tuple(each for each in self.lives if not ALWAYS < each.deleted_ms <= floor_ms)
        for steps in (self.leader, self.isr):
            steps.trim(floor_ms)
        self.replicas.trim(floor_ms)
        for spans in (self.requests, self.reassignments):
            spans.trim(floor_ms)
        for marks in (self.marks, self.events):
            marks.trim(floor_ms)
        return not (self.exists or self.events)


class BrokerRow:
    """A broker by its id."""

    __slots__ = ("alive", "broker", "drain", "events", "marks", "requests")

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.alive: Steps[bool] = Steps()
        self.drain: Steps[bool] = Steps()
        self.requests = Spans()
        self.marks = Marks()
        self.events = Marks()
        """What the console itself saw of it."""

    @property
    def key(self) -> int:
        return self.broker

    @property
    def id(self) -> str:
        return f"broker/{self.broker}"

    @property
    def name(self) -> str:
        return f"broker {self.broker}"

    def trim(self, floor_ms: int) -> bool:
        """Forgets what is older. True if nothing is left to show."""
        self.alive.trim(floor_ms)
        self.drain.trim(floor_ms)
        self.requests.trim(floor_ms)
        self.marks.trim(floor_ms)
        self.events.trim(floor_ms)
        return not (self.alive or self.requests or self.marks or self.events)


class Phase(NamedTuple):
    """The state of a group: `rebalancing`, `joined` (its leader has to assign), `stable` or `ended`."""

    state: str
    generation: int
    reason: str = ""
    caused_by: str = ""


class Role(NamedTuple):
    """What a member does with a task. Unknown figures are -1."""

    state: str
    lag: int = -1
    records_per_s: float = -1
    remaining_ms: int = -1


NO_ROLE: Final = Role("closed")


class TaskRow:
    """A task of a stream application: what each member does with it."""

    __slots__ = ("group", "members", "task")

    def __init__(self, group: str, task: str) -> None:
        self.group = group
        self.task = task
        self.members: dict[str, Steps[Role]] = {}

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.task

    @property
    def id(self) -> str:
        return f"task/{self.group}/{self.task}"

    @property
    def name(self) -> str:
        return f"{self.group}: {self.task}"

    def of(self, member: str) -> Steps[Role]:
        return self.members.setdefault(member, Steps())

    def trim(self, floor_ms: int) -> bool:
        """Forgets what is older. True if nothing is left to show."""
        for member, steps in list(self.members.items()):
            steps.trim(floor_ms)
            if steps.last_ms <= floor_ms and steps.last in (NO_ROLE, None):
                del self.members[member]
        return not any(steps.last_ms > floor_ms for steps in self.members.values())


class GroupRow:
    """A group: its generations, what its members have, and their tasks."""

    __slots__ = ("events", "generations", "group", "members", "tasks")

    def __init__(self, group: str) -> None:
        self.group = group
        self.generations: Steps[Phase] = Steps()
        self.members: dict[str, Holdings] = {}
        self.tasks: dict[str, TaskRow] = {}
        self.events = Marks()

    @property
    def key(self) -> str:
        return self.group

    @property
    def id(self) -> str:
        return f"group/{self.group}"

    @property
    def name(self) -> str:
        return self.group

    def of(self, member: str) -> Holdings:
        return self.members.setdefault(member, Holdings())

    def trim(self, floor_ms: int) -> bool:
        """Forgets what is older. True if nothing is left to show."""
        self.generations.trim(floor_ms)
        self.events.trim(floor_ms)
        for member, held in list(self.members.items()):
            held.trim(floor_ms)
            if held.last_ms <= floor_ms and held.empty:
                del self.members[member]
        return not self.events


class Turn(NamedTuple):
    """What a transactional id does: the state of its transaction, and how many partitions that has."""

    state: TransactionState
    partitions: int


class TransactionRow:
    """The transactions of one transactional id, one after the other. It is made for each look at it."""

    __slots__ = ("ends", "transactional_id", "turns")

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.turns: Steps[Turn] = Steps()
        self.ends = Marks()
        """When each was committed or aborted in all of its partitions."""

    @property
    def id(self) -> str:
        return f"transaction/{self.transactional_id}"

    @property
    def name(self) -> str:
        return self.transactional_id


Row = PartitionRow | BrokerRow | GroupRow | TaskRow
