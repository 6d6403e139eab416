"""Applies the group's rebalances to the tasks of this member."""

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


class GroupListener(RebalanceListener):
    """Receives partitions from the consumer and the rest of the assignment from the assignor; `member` has
    the rules.

    Both come within one rebalance, the assignor's part first; after each of them the tasks are updated.
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
        self._assigned: set[TopicPartition] = set()
        """Partitions that the consumer assigned to this member."""
        self.over = asyncio.Event()
        """Set once a leaving member has nothing left, or need not wait any longer."""
        self.handed_over = False
        """True if a leaving member has nothing left."""

    # --- events of the group ----------------------------------------------------------------------

    def received(self, received: Received[TaskId]) -> None:
        """An assignment arrived. Its partitions follow through the listener."""
        logger.info("stream tasks: %s", received)
        if self._assignor.undecodable:
            logger.warning("stream tasks: the assignment is not understood: %s", self._assignor.undecodable)
        for line in self._assignor.unreadable:
            logger.warning("stream tasks: %s", line)
        if received.over or self._member.has_no_successor():
            self.handed_over = True
            self.over.set()
        self._update_tasks()
        if received.asks:
            self._request_rebalance("a task is learned that its owner has not given up")

    def on_assigned(self, added: set[TopicPartition]) -> None:
        self._inputs.hold(added)
        self._assigned |= added
        self._update_tasks()
        for task in sorted(self._assignor.tasks_of(added)):
            if (local := self._tasks.find(task)) is not None:
                local.assigned_more()

    async def on_revoked(self, removed: set[TopicPartition]) -> None:
        going = sorted(self._assignor.tasks_of(removed))
        await self._tasks.suspend(going)
        self._inputs.forget(removed)
        self._assigned -= removed
        self._member.taken(going)
        self._update_tasks()

    def on_lost(self, lost: set[TopicPartition]) -> None:
        for task in sorted(self._assignor.tasks_of(lost)):
            self._tasks.abandon(task)
        self._inputs.forget(lost)
        self._assigned -= lost
        if not self._assigned:
            self._member.lost()
        self._update_tasks()

    def _update_tasks(self) -> None:
        """Give each task the role that the member has for it."""
        member, assigned = self._member, self._assignor.tasks_of(self._assigned)
        for task in sorted(assigned & member.assigned):
            self._tasks.want(task, Wanted.RUN)
        others = {local.task for local in self._tasks} | member.learning.keys() | member.standbys.keys()
        for task in sorted(others - assigned - member.assigned):
            if task in member.learning:
                self._tasks.want(task, Wanted.LEARN)
            elif task in member.standbys:
                self._tasks.want(task, Wanted.STAND_BY)
            elif task not in member.revoked:
                self._tasks.want(task, Wanted.CLOSE)

    # --- requests to the group --------------------------------------------------------------------

    def ready(self, task: TaskId) -> None:
        """A learner or standby is ready; a learner requests its task at once (CORRECTNESS S5)."""
        if self._member.caught_up(task):
            self._request_rebalance(f"task {task} is learned")

    def leave(self) -> None:
        """Hand all tasks over from now on."""
        if self._member.leave():
            self._request_rebalance("a member leaves, and hands its tasks over")

    def _request_rebalance(self, reason: str) -> None:
        try:
            self._consumer.enforce_rebalance(reason)
        except InvalidRequest as error:
            logger.debug("no rebalance is asked for: %s", error)  # it is leaving, or not yet in
