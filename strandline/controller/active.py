"""The active controller: it carries out requests and upkeep until its epoch ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.zookeeper import znodes
from strandline.client.events.writer import EventWriter
from strandline.config.services.controller import ControllerSettings
from strandline.controller.core.cluster import ClusterPicture
from strandline.controller.replicas.reassignment import Reassignments
from strandline.controller.security.acls import AclRequests
from strandline.controller.security.group_configs import GroupConfigRequests
from strandline.controller.security.notices import remove_old_notices
from strandline.controller.security.quotas import QuotaRequests
from strandline.controller.security.users import UserRequests
from strandline.controller.term.fenced_session import Deposed, FencedSession
from strandline.controller.term.reading import read_topics
from strandline.controller.term.results import for_user
from strandline.controller.term.term import Term
from strandline.controller.topics.topics import Topics
from strandline.controller.upkeep.health import ClusterHealth
from strandline.controller.upkeep.upkeep import Upkeep
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ports import NoNode
from strandline.security.authorizer import Authorizer
from strandline.security.quotas.bill import ClientQuotas
from strandline.serving.carried_out import Changes, lost_role
from strandline.vocabulary.admin import BalanceDescription
from strandline.vocabulary.metadata import Endpoint


class ActiveController:
    """The services of one controller epoch. `changes` carries out requests: if a client disconnects or its
    deadline passes, no request stays half done, and the picture of the cluster stays true."""

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
        self.term = Term(session, endpoint, settings, host, key)
        self.topics = Topics(self.term)
        self.reassignments = Reassignments(self.term)
        self.acls = AclRequests(self.term, authorizer)
        self.quotas = QuotaRequests(self.term, quotas)
        self.group_configs = GroupConfigRequests(self.term)
        self.users = UserRequests(self.term, authorizer)
        self.upkeep = Upkeep(self.term, self.reassignments)
        self.changes = Changes()

    @property
    def epoch(self) -> int:
        return self._session.epoch

    @property
    def picture(self) -> ClusterPicture:
        """All topics with their assignments, which placements of this epoch start from."""
        return self.term.picture

    @property
    def health(self) -> ClusterHealth:
        """The cluster's health at the last look."""
        return self.upkeep.health

    @property
    def balance_seen(self) -> BalanceDescription | None:
        """How far the balance was at the last look; None before the first one."""
        return self.upkeep.balance_seen

    @property
    def events(self) -> EventWriter | None:
        """Writes this controller's events; None before it has found a broker."""
        return self.term.recorder.events

    async def load(self) -> None:
        """Reads the cluster's state. Requests are accepted after this."""
        await self._session.sync()
        self.term.picture, self.topics.growth.left = await read_topics(self._session)
        await self.acls.load()
        await self.quotas.facts.load()
        await self.group_configs.facts.load()

    async def run(self) -> None:
        """Serves until another controller is active; then raises Deposed or SessionEnded."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.upkeep.run())
                with self.changes.accepted(tasks):
                    await self._reconcile()
        finally:
            await self.term.recorder.close()

    async def _reconcile(self) -> None:
        """Finishes earlier work, and checks that this controller is still the active one (CORRECTNESS E8)."""
        while True:
            await self._check_role()
            await self.term.brokers()
            await self.topics.resume()
            await self.reassignments.follow()
            await self.term.unrecorded.look()
            await self.acls.reconcile()
            await self.quotas.facts.reconcile()
            await self.group_configs.facts.reconcile()
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

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """For a request that has begun: what its end means to a client. A task of `changes` is cancelled when
        this controller loses its role, and for nothing else."""
        try:
            yield
        except asyncio.CancelledError:
            raise lost_role() from None
        except StrandlineError as error:
            shown = for_user(error)
            if shown is error:
                raise
            raise shown from error

    async def broker_addresses(self) -> list[str]:
        """The addresses of live brokers, for readers of their logs."""

        async def read() -> list[str]:
            with self.at_work():
                live = (await self.term.brokers()).live
            return [registration.endpoint.address for registration in live.values()]

        return await self.changes.carry_out(read)
