"""A member of the application's group: what its rebalances mean for the tasks here."""

from __future__ import annotations

import asyncio
import logging

from strandline.consumer.consumer import Consumer
from strandline.consumer.group.listener import RebalanceListener
from strandline.errors import InvalidRequest
from strandline.ids import TopicPartition
from strandline.streams.core.assignor import LearnerAssignor
from strandline.streams.core.member import Received, StreamMember
from strandline.streams.core.task import TaskId
from strandline.streams.runtime.tasks.all_local import LocalTasks
from strandline.streams.runtime.tasks.inputs import Inputs
from strandline.streams.runtime.tasks.local import Wanted

logger = logging.getLogger(__name__)


class GroupSide(RebalanceListener):
    """The consumer tells it of partitions, the assignor what else the leader said; `member` keeps the rules.

    Both come within one rebalance, the assignor's word first; after either, tasks are arranged anew.
    """

    def __init__(
        self,
        member: StreamMember[TaskId],
        assignor: LearnerAssignor,
        consumer: Consumer,
        inputs: Inputs,
        tasks: LocalTasks,
    ) -> None:
        self._member = member
        self._assignor = assignor
        self._consumer = consumer
        self._inputs = inputs
        self._tasks = tasks
        self._told: set[TopicPartition] = set()
        """Partitions that the consumer said are this member's."""
        self.over = asyncio.Event()
        """Set once a member that was leaving has nothing left, or nothing more is to be waited for."""
        self.handed_over = False
        """True in the first case."""

    # --- what comes from the group --------------------------------------------------------------

    def received(self, received: Received[TaskId]) -> None:
        """An assignment came. What it says of partitions follows by the listener."""
        logger.info("stream tasks: %s", received)
        if self._assignor.misheard:
            logger.warning("stream tasks: the assignment is not understood: %s", self._assignor.misheard)
        for line in self._assignor.unreadable:
            logger.warning("stream tasks: %s", line)
        if received.over or self._member.stays_alone():
            self.handed_over = True
            self.over.set()
        self._arrange()
        if received.asks:
            self._ask("a task is learned that its owner has not given up")

    def on_assigned(self, added: set[TopicPartition]) -> None:
        self._inputs.hold(added)
        self._told |= added
        self._arrange()
        for task in self._assignor.tasks_of(added):
            if (local := self._tasks.find(task)) is not None:
                local.assigned_more()

    async def on_revoked(self, removed: set[TopicPartition]) -> None:
        going = self._assignor.tasks_of(removed)
        await self._tasks.suspend(going)
        self._inputs.forget(removed)
        self._told -= removed
        self._member.taken(going)
        self._arrange()

    def on_lost(self, lost: set[TopicPartition]) -> None:
        for task in self._assignor.tasks_of(lost):
            self._tasks.abandon(task)
        self._inputs.forget(lost)
        self._told -= lost
        if not self._told:
            self._member.lost()
        self._arrange()

    def _arrange(self) -> None:
        """Each task here becomes what the member holds it as."""
        member, told = self._member, self._assignor.tasks_of(self._told)
        for task in told & member.assigned:
            self._tasks.want(task, Wanted.RUN)
        others = {local.task for local in self._tasks} | member.learning.keys() | member.standbys.keys()
        for task in others - told - member.assigned:
            if task in member.learning:
                self._tasks.want(task, Wanted.LEARN)
            elif task in member.standbys:
                self._tasks.want(task, Wanted.STAND_BY)
            elif task not in member.revoked:
                self._tasks.want(task, Wanted.CLOSE)

    # --- what goes to the group -----------------------------------------------------------------

    def ready(self, task: TaskId) -> None:
        """A learner or standby is near enough; a learner asks for its task at once (CORRECTNESS S5)."""
        if self._member.caught_up(task):
            self._ask(f"task {task} is learned")

    def leave(self) -> None:
        """Hand everything over from now on."""
        if self._member.leave():
            self._ask("a member leaves, and hands its tasks over")

    def _ask(self, reason: str) -> None:
        try:
            self._consumer.enforce_rebalance(reason)
        except InvalidRequest as error:
            logger.debug("no rebalance is asked for: %s", error)  # it is on its way out, or not yet in
