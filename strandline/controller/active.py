"""The active controller: it carries out requests and upkeep until its epoch ends."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from typing import Any, TypeVar

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.zookeeper import znodes
from strandline.client.events.writer import EventWriter
from strandline.config.services.controller import ControllerSettings
from strandline.controller.core.cluster import ClusterPicture
from strandline.controller.leadership.preferred import elect_preferred
from strandline.controller.leadership.unclean import elect_unclean
from strandline.controller.replicas.forgetting import forget_broker
from strandline.controller.replicas.reassignment import Reassignments
from strandline.controller.security.acls import AclRequests
from strandline.controller.security.notices import remove_old_notices
from strandline.controller.security.quotas import QuotaRequests
from strandline.controller.security.users import UserRequests
from strandline.controller.term.fenced_session import Deposed, FencedSession
from strandline.controller.term.reading import read_topics
from strandline.controller.term.results import for_user
from strandline.controller.term.term import Term
from strandline.controller.topics.topics import Topics
from strandline.controller.upkeep.description import describe_cluster
from strandline.controller.upkeep.health import ClusterHealth
from strandline.controller.upkeep.upkeep import Upkeep
from strandline.errors import NotController, OutcomeUnknown, StrandlineError
from strandline.host import Host
from strandline.ids import BrokerId, TopicPartition
from strandline.ports import NoNode
from strandline.security.acls import AclBinding, AclFilter
from strandline.security.authorizer import Authorizer
from strandline.security.login.credentials import UserChange
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import EntityQuotas, QuotaAlteration, QuotaFilter
from strandline.vocabulary.admin import (
    AclResult,
    AlterTopic,
    BalanceAction,
    BalanceDescription,
    BalancePlan,
    BrokerCheck,
    ClusterDescription,
    DeletedAcls,
    DrainBroker,
    DrainProgress,
    ElectUnclean,
    ForgottenBroker,
    NewTopic,
    OngoingReassignment,
    PartitionResult,
    QuotaResult,
    Reassign,
    StartBalance,
    TopicResult,
    UncleanElection,
    UserDescription,
    UserResult,
)
from strandline.vocabulary.metadata import Endpoint

T = TypeVar("T")


class ActiveController:
    """The services of one controller epoch. Tasks of its own carry out the requests: if a client disconnects
    or its deadline passes, no request stays half done, and the picture of the cluster stays true."""

    def __init__(
        self,
        session: FencedSession,
        endpoint: Endpoint,
        settings: ControllerSettings,
        host: Host,
        key: MemberKey,
        authorizer: Authorizer,
        quotas: ClientQuotas,
    ) -> None:
        self._session = session
        self._reconcile_s = settings.reconcile_ms / 1000
        self._term = Term(session, endpoint, settings, host, key)
        self._topics = Topics(self._term)
        self._reassignments = Reassignments(self._term)
        self._acls = AclRequests(self._term, authorizer)
        self._quotas = QuotaRequests(self._term, quotas)
        self._users = UserRequests(self._term, authorizer)
        self._upkeep = Upkeep(self._term, self._reassignments)
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def epoch(self) -> int:
        return self._session.epoch

    @property
    def picture(self) -> ClusterPicture:
        """All topics with their assignments, which placements of this epoch start from."""
        return self._term.picture

    @property
    def health(self) -> ClusterHealth:
        """The cluster's health at the last look."""
        return self._upkeep.health

    @property
    def balance_seen(self) -> BalanceDescription | None:
        """How far the balance was at the last look; None before the first one."""
        return self._upkeep.balance_seen

    @property
    def events(self) -> EventWriter | None:
        """Writes this controller's events; None before it has found a broker."""
        return self._term.recorder.events

    async def load(self) -> None:
        """Reads the cluster's state. Requests are accepted after this."""
        await self._session.sync()
        self._term.picture, self._topics.growth.left = await read_topics(self._session)
        await self._acls.load()
        await self._quotas.load()

    async def run(self) -> None:
        """Serves until another controller is active; then raises Deposed or SessionEnded."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                tasks.create_task(self._upkeep.run())
                try:
                    await self._reconcile()
                finally:
                    self._tasks = None  # set before the group cancels its tasks and waits: it accepts no more
        finally:
            await self._term.recorder.close()

    async def _reconcile(self) -> None:
        """Finishes earlier work, and checks that this controller is still the active one (CORRECTNESS E8)."""
        while True:
            await self._check_role()
            await self._term.brokers()
            await self._topics.resume()
            await self._reassignments.follow()
            await self._term.unrecorded.look()
            await self._acls.reconcile()
            await self._quotas.reconcile()
            await remove_old_notices(self._session)
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

    async def _carry_out(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of `work`, which continues if the caller is cancelled."""
        if self._tasks is None:
            work.close()
            raise NotController("this controller is no longer active")
        task = self._tasks.create_task(_caught(work))
        await asyncio.wait((task,))
        if task.cancelled():
            raise OutcomeUnknown("this controller lost its role under the request: look what became of it")
        result = task.result()
        if isinstance(result, StrandlineError):
            raise for_user(result)
        return result

    # --- requests ------------------------------------------------------------------------------

    async def create_topics(
        self, topics: Sequence[NewTopic], repeated: Collection[str], *, validate_only: bool, internal: bool
    ) -> list[TopicResult]:
        return await self._carry_out(self._topics.create(topics, repeated, validate_only, internal))

    async def delete_topics(
        self, names: Sequence[str], topic_ids: Sequence[str], repeated: Collection[str]
    ) -> list[TopicResult]:
        return await self._carry_out(self._topics.delete(names, topic_ids, repeated))

    async def alter_topic(self, alteration: AlterTopic) -> None:
        await self._carry_out(self._topics.alter(alteration))

    async def reassign(self, asked: Reassign, repeated: Collection[TopicPartition]) -> list[PartitionResult]:
        work = self._reassignments.ask(
            asked.partitions,
            repeated,
            throttle_bytes_per_s=asked.throttle_bytes_per_s,
            validate_only=asked.validate_only,
            timeout_ms=asked.timeout_ms,
            cancel_at_deadline=asked.cancel_at_deadline,
        )
        return await self._carry_out(work)

    async def list_reassignments(self) -> list[OngoingReassignment]:
        return await self._carry_out(self._reassignments.ongoing())

    async def elect_preferred(
        self, names: Sequence[TopicPartition], repeated: Collection[TopicPartition]
    ) -> list[PartitionResult]:
        return await self._carry_out(elect_preferred(self._term, names, repeated))

    async def elect_unclean(
        self, asked: ElectUnclean, repeated: Collection[TopicPartition]
    ) -> list[UncleanElection]:
        return await self._carry_out(elect_unclean(self._term, asked, repeated))

    async def describe_cluster(self) -> ClusterDescription:
        return await self._carry_out(describe_cluster(self._term))

    async def check_broker(self, broker: BrokerId, *, end_drain: bool = False) -> BrokerCheck:
        return await self._carry_out(self._upkeep.check(broker, end_drain=end_drain))

    async def drain_broker(self, asked: DrainBroker) -> DrainProgress:
        broker = BrokerId(asked.broker)
        work = self._upkeep.undo_drain(broker) if asked.undo else self._upkeep.drain(broker, asked)
        return await self._carry_out(work)

    async def forget_broker(self, broker: BrokerId) -> ForgottenBroker:
        return await self._carry_out(forget_broker(self._term, broker))

    async def balance(self, asked: StartBalance) -> BalancePlan:
        return await self._carry_out(self._upkeep.balance(asked))

    async def describe_balance(self) -> BalanceDescription:
        return await self._carry_out(self._upkeep.describe_balance())

    async def alter_balance(self, action: BalanceAction) -> BalanceDescription:
        return await self._carry_out(self._upkeep.alter_balance(action))

    async def create_acls(self, bindings: Sequence[AclBinding]) -> list[AclResult]:
        return await self._carry_out(self._acls.create(bindings))

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[DeletedAcls]:
        return await self._carry_out(self._acls.delete(filters))

    async def describe_acls(self, wanted: AclFilter) -> list[AclBinding]:
        return await self._carry_out(self._acls.describe(wanted))

    async def alter_users(self, changes: Sequence[UserChange]) -> list[UserResult]:
        return await self._carry_out(self._users.alter(changes))

    async def describe_users(self, names: Sequence[str]) -> list[UserDescription]:
        return await self._carry_out(self._users.describe(names))

    async def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool
    ) -> list[QuotaResult]:
        return await self._carry_out(self._quotas.alter(alterations, validate_only=validate_only))

    async def describe_client_quotas(self, wanted: QuotaFilter) -> list[EntityQuotas]:
        return await self._carry_out(self._quotas.describe(wanted))

    async def broker_addresses(self) -> list[str]:
        """The addresses of live brokers, for readers of their logs."""
        return await self._carry_out(self._addresses())

    async def _addresses(self) -> list[str]:
        live = (await self._term.brokers()).live
        return [registration.endpoint.address for registration in live.values()]


async def _caught(work: Coroutine[Any, Any, T]) -> T | StrandlineError:
    """Returns an error as a value, so that a refused request does not end the tasks of the others."""
    try:
        return await work
    except StrandlineError as error:
        return error
