"""The active controller: what it knows and does while its epoch lasts, and not a moment longer.

A new epoch is a new object: nothing of an earlier one is left to act on (CORRECTNESS E13).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import structlog

from controller.alteration import alter_topic
from controller.core.cluster import ClusterPicture, PlacedTopic
from controller.core.topics import Brokers, NewTopic, TopicPlan, plan_topic
from controller.creation import create_topic
from controller.deletion import mark_for_deletion, read_deletions, remove_topic
from controller.fenced_session import Deposed, FencedSession
from controller.reading import count_requests, read_brokers, read_topics
from strandline.adapters import znodes
from strandline.config import TOPIC_CHANGES_IN_FLIGHT_MAX, ControllerSettings
from strandline.errors import InvalidRequest, InvalidTopic, NotController, OutcomeUnknown, StrandlineError
from strandline.ids import INTERNAL_PREFIX, BrokerId, TopicId
from strandline.metadata import Endpoint, Registration
from strandline.ports import Clock, NoNode, SessionEnded
from strandline.tasks import pipelined

logger = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of one topic of a request."""

    topic: str
    error: StrandlineError | None = None
    topic_id: TopicId | None = None


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A live broker, and the number of state-change requests in its queue."""

    registration: Registration
    queued: int


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller: Endpoint
    brokers: Sequence[BrokerDescription]


@dataclass(frozen=True, slots=True)
class _Creation:
    plan: TopicPlan
    topic_id: TopicId


class ActiveController:
    """See the module. Requests are carried out by tasks of its own: a client that hangs up, or whose
    deadline passes, leaves nothing half done and the picture true."""

    def __init__(
        self, session: FencedSession, endpoint: Endpoint, settings: ControllerSettings, clock: Clock
    ) -> None:
        self.endpoint = endpoint
        self._session = session
        self._reconcile_s = settings.reconcile_ms / 1000
        self._clock = clock
        self._picture = ClusterPicture()
        self._under_way: set[TopicId] = set()
        """Topics that a request is creating or deleting; their markers are not left over."""
        self._queues: set[BrokerId] = set()
        """Brokers whose queue is known to exist."""
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def epoch(self) -> int:
        return self._session.epoch

    async def load(self) -> None:
        """Learn what there is; requests come after this."""
        await self._session.sync()
        self._picture = await read_topics(self._session)

    async def run(self) -> None:
        """Serve until another controller is active: raises Deposed or SessionEnded then."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await self._reconcile()
            finally:
                self._tasks = None  # before the group waits for what it cancels: it takes no more

    async def _reconcile(self) -> None:
        """Finish what was left, and see that this one is still meant (CORRECTNESS E8)."""
        while True:
            await self._check_role()
            await self._resume_deletions()
            try:
                async with asyncio.timeout(self._reconcile_s):
                    await self._session.deposed.wait()
            except TimeoutError:
                continue
            raise Deposed(f"the controller epoch {self.epoch} is over")

    async def _check_role(self) -> None:
        try:
            node = await self._session.get(znodes.CONTROLLER)
        except NoNode:
            raise Deposed(f"{znodes.CONTROLLER} is gone") from None
        if node.ephemeral_owner != self._session.session_id:
            raise Deposed(f"{znodes.CONTROLLER} is another's")

    async def _resume_deletions(self) -> None:
        """Also the removal of topics whose creation was not finished."""

        async def resume(marked: tuple[str, TopicId]) -> None:
            name, topic_id = marked
            if topic_id in self._under_way:
                return
            logger.info("going on with a deletion", topic=name, topic_id=topic_id)
            try:
                await self._remove(name, topic_id)
            except OutcomeUnknown as error:
                logger.warning("deletion not finished yet", topic=name, reason=error.message)

        left = await read_deletions(self._session)
        await pipelined(resume, left, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)

    async def _carry_out(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which goes on if the caller goes away."""
        if self._tasks is None:
            work.close()
            raise NotController("this controller is not active any more")
        task = self._tasks.create_task(_caught(work))
        await asyncio.wait((task,))
        if task.cancelled():
            raise OutcomeUnknown("this controller lost its role under the request: look what became of it")
        result = task.result()
        if isinstance(result, StrandlineError):
            raise _for_user(result)
        return result

    # --- requests ------------------------------------------------------------------------------

    async def create_topics(
        self, topics: Sequence[NewTopic], repeated: Collection[str], *, validate_only: bool, internal: bool
    ) -> list[TopicOutcome]:
        """One outcome a topic, in order; one bad topic does not spoil the others."""
        return await self._carry_out(self._create_topics(topics, repeated, validate_only, internal))

    async def delete_topics(self, names: Sequence[str], repeated: Collection[str]) -> list[TopicOutcome]:
        """One outcome a name, in order; without an error the topic is gone, and may be created anew."""

        async def delete_all() -> list[TopicOutcome]:
            work = partial(self._delete, repeated=repeated)
            return await pipelined(work, names, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)

        return await self._carry_out(delete_all())

    async def alter_topic(self, name: str, set_: Mapping[str, str], unset: Collection[str]) -> None:
        await self._carry_out(alter_topic(self._session, name, set_, unset, self._clock.wall_ms()))

    async def describe_cluster(self) -> ClusterDescription:
        return await self._carry_out(self._describe_cluster())

    # --- carrying them out ---------------------------------------------------------------------

    async def _create_topics(
        self, topics: Sequence[NewTopic], repeated: Collection[str], validate_only: bool, internal: bool
    ) -> list[TopicOutcome]:
        await self._session.sync()
        brokers = await read_brokers(self._session)
        await self._ensure_queues(brokers)
        # No await from here to the last plan: each one counts on what those before it took.
        planned = [self._plan(new, brokers, repeated, validate_only, internal) for new in topics]
        work = partial(self._create, brokers=brokers)
        return await pipelined(work, planned, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)

    def _plan(
        self,
        new: NewTopic,
        brokers: Brokers,
        repeated: Collection[str],
        validate_only: bool,
        internal: bool,
    ) -> _Creation | TopicOutcome:
        try:
            if new.name in repeated:
                raise InvalidRequest(f"topic {new.name!r} stands more than once in the request")
            plan = plan_topic(new, brokers, self._picture, internal=internal)
        except StrandlineError as error:
            return TopicOutcome(new.name, error)
        if validate_only:
            return TopicOutcome(new.name)
        topic_id = TopicId(uuid4().hex)
        self._picture.add(plan.name, PlacedTopic(topic_id, plan.assignments))
        self._under_way.add(topic_id)
        return _Creation(plan, topic_id)

    async def _create(self, planned: _Creation | TopicOutcome, brokers: Brokers) -> TopicOutcome:
        if isinstance(planned, TopicOutcome):
            return planned
        name, topic_id = planned.plan.name, planned.topic_id
        try:
            await create_topic(self._session, planned.plan, topic_id, brokers, self._clock.wall_ms())
        except StrandlineError as error:
            self._picture.remove(name, topic_id)
            return TopicOutcome(name, _for_user(error))
        finally:
            self._under_way.discard(topic_id)
        logger.info("topic created", topic=name, topic_id=topic_id, partitions=len(planned.plan.assignments))
        return TopicOutcome(name, topic_id=topic_id)

    async def _ensure_queues(self, brokers: Brokers) -> None:
        """A broker makes its own queue when it starts, a moment after it registers."""
        for broker in sorted(brokers.known - self._queues):
            await self._session.ensure_path(znodes.state_queue(broker))
            self._queues.add(broker)

    async def _delete(self, name: str, repeated: Collection[str]) -> TopicOutcome:
        try:
            if name in repeated:
                raise InvalidRequest(f"topic {name!r} stands more than once in the request")
            if name.startswith(INTERNAL_PREFIX):
                raise InvalidTopic(f"topic {name!r} is the system's own: it cannot be deleted")
            topic_id = await mark_for_deletion(self._session, name)
            await self._remove(name, topic_id)
        except StrandlineError as error:
            return TopicOutcome(name, _for_user(error))
        return TopicOutcome(name, topic_id=topic_id)

    async def _remove(self, name: str, topic_id: TopicId) -> None:
        self._under_way.add(topic_id)
        try:
            await remove_topic(self._session, name, topic_id, self._clock.wall_ms())
        finally:
            self._under_way.discard(topic_id)
        self._picture.remove(name, topic_id)
        logger.info("topic deleted", topic=name, topic_id=topic_id)

    async def _describe_cluster(self) -> ClusterDescription:
        await self._session.sync()
        cluster_id = (await self._session.get(znodes.CLUSTER_ID)).data.decode()
        live = (await read_brokers(self._session)).live
        brokers = [
            BrokerDescription(registration, await count_requests(self._session, broker))
            for broker, registration in sorted(live.items())
        ]
        return ClusterDescription(cluster_id, self.endpoint, brokers)


async def _caught(work: Coroutine[Any, Any, T]) -> T | StrandlineError:
    """A request that is refused must not end the tasks of the others."""
    try:
        return await work
    except StrandlineError as error:
        return error


def _for_user(error: StrandlineError) -> StrandlineError:
    """NotController says that nothing of a whole request was done, which nobody knows half way."""
    if isinstance(error, Deposed | SessionEnded):
        return OutcomeUnknown(f"{error.message}: look what became of it, and ask the next controller")
    return error
