"""Makes this controller the active one, or waits for that, in one ZooKeeper session after the other.

The claim is one `multi`: it raises `/controller_epoch` by a compare-and-set and creates the ephemeral
`/controller`. A controller that loses therefore cannot fence the winner. The winner's epoch is the version
that all of its writes check (CORRECTNESS E5).

The other controllers look every `standby_poll_ms` instead of setting a watch. A read costs little beside a
session's own heartbeat, needs no second look for lost events, and causes no herd effect. A controller sets no
watch at all, but one on the folder of notices if its ports have logins.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import structlog

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.telemetry.audit import Audit
from strandline.adapters.token_keys import token_keys
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.metrics import Sessions
from strandline.adapters.zookeeper.security.pictures import user_picture
from strandline.adapters.zookeeper.security.security_watch import SecurityWatch
from strandline.adapters.zookeeper.set_back import SetBack, until_set_back
from strandline.adapters.zookeeper.unreadable import UnreadableLog
from strandline.config.services.controller import ControllerSettings
from strandline.controller.active import ActiveController
from strandline.controller.term.fenced_session import Deposed, FencedSession, until_answered
from strandline.errors import LeaderHint, NotController
from strandline.host import CoordinationSession, ServiceHost
from strandline.ports import (
    ConnectionLost,
    Coordination,
    Create,
    MultiFailed,
    NodeExists,
    NoNode,
    SessionEnded,
    SetData,
)
from strandline.security.access import Access
from strandline.security.authorizer import Authorizer
from strandline.security.login.authenticator import Authenticator
from strandline.security.quotas.bill import ClientQuotas
from strandline.tasks import until_failure
from strandline.vocabulary.metadata import Endpoint

logger = structlog.get_logger(__name__)

T = TypeVar("T")


class Activity:
    """Tracks the active controller, and this controller's own role. `run` is its task."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: ControllerSettings,
        host: ServiceHost,
        on_change: Callable[[], None],
        audit: Audit,
    ) -> None:
        self.active: ActiveController | None = None
        """This controller's services while it is the active one."""
        self.known: znodes.ControllerNode | None = None
        """The active controller, as far as this one knows."""
        self.sessions = Sessions()
        self._session: CoordinationSession | None = None
        self.endpoint = endpoint
        self.key = MemberKey(host.new_id)
        self.authorizer = Authorizer(settings.authorization_rules(), audit.decided)
        """Has the ACLs while this controller is the active one."""
        self.authenticator = Authenticator(
            settings.mechanisms,
            self.key.secret,
            self.authorizer.withholds,
            token_keys(settings, host.clock),
        )
        """Has the users, whether this controller is active or not: callers log in to hear which one is."""
        self.quotas = ClientQuotas(
            Access(self.authorizer, self.key.is_shown).is_member,
            host.clock.monotonic,
            delay_ms_max=settings.quota_delay_ms_max,
        )
        """Has the quotas while this controller is the active one."""
        self._settings = settings
        self.host = host
        self._clock = host.clock
        self._on_change = on_change

    def require(self) -> ActiveController:
        """This controller's services if it is active. Otherwise raises NotController, which names the active
        one if it is known."""
        if self.active is not None:
            return self.active
        raise self.not_active()

    @contextmanager
    def acting(self) -> Iterator[ActiveController]:
        """The same for a request, whose errors become those for clients."""
        active = self.require()
        with active.at_work():
            yield active

    async def carry_out(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the work returns, which goes on though its caller leaves, until this controller loses its
        role. Raises as `Changes.carry_out`."""
        if self.active is None:
            return await work()  # which refuses it, unless there is nothing to do
        return await self.active.changes.carry_out(work)

    def not_active(self) -> NotController:
        """The refusal of a controller that is not active. It names the active one if it is known."""
        if self.known is None:
            return NotController("this controller is not active, and knows of none that is; ask again soon")
        end = self.known.endpoint
        return NotController(
            f"controller {end.id} at {end.address} is the active one",
            leader=LeaderHint(end.id, end.host, end.port, self.known.epoch, end.external),
        )

    def withdraw(self) -> None:
        """Closes the session before it returns; for a process that ends."""
        if self._session is not None:
            self._session.close_now()

    async def run(self) -> None:
        """Contends until cancelled. Then the session ends at once, so that another controller takes over."""
        while True:
            session = await self.host.connect_coordination(self._settings, _say_waiting)
            self._session = session
            self.sessions.begin(session)
            try:
                await self._live(session)
            finally:
                self._learn(None)
                self.sessions.leave()
                await session.close()
                self._session = None

    async def _live(self, session: Coordination) -> None:
        """Uses one session until it or the active role ends."""
        ready = asyncio.Event()
        reason = await until_failure(
            (SessionEnded, ConnectionLost, Deposed),
            _until_ended(session),
            until_set_back(session, partial(self.host.connect_coordination, self._settings), self._clock),
            self._keep_users(session, ready),
            self._keep_key(session, ready),
            self._contend(session, ready),
        )
        logger.warning("this controller starts over", reason=str(reason))
        self.sessions.set_back += isinstance(reason, SetBack)

    async def _keep_users(self, session: Coordination, ready: asyncio.Event) -> None:
        """Runs until cancelled. Without logins it reads and watches nothing."""
        with_logins = bool(self.authenticator.mechanisms)
        watch = SecurityWatch(
            session,
            lambda reader: [user_picture(reader, self.authenticator)] if with_logins else [],
            self._clock,
        )
        await ready.wait()
        await watch.open()
        await watch.run()

    async def _keep_key(self, session: Coordination, ready: asyncio.Event) -> None:
        """Notices a members' key that an operator has replaced. Runs until cancelled."""
        await ready.wait()
        while True:
            await self._clock.sleep(self._settings.reconcile_ms / 1000)
            with contextlib.suppress(ConnectionLost):
                await self.key.read(session)

    async def _contend(self, session: Coordination, ready: asyncio.Event) -> None:
        """Sets `ready` once the layout and the members' key are there."""
        await lay_ground(session, self.host.new_id)
        await self.key.read(session)
        ready.set()
        epoch = await self._win(session)
        await self._be_active(FencedSession(session, epoch))

    async def _win(self, session: Coordination) -> int:
        """Waits until this controller is active. Returns its epoch."""
        unreadable = UnreadableLog()
        while True:
            try:
                found = await until_answered(lambda: session.get(znodes.CONTROLLER))
            except NoNode:
                self._learn(None)
                await self._claim(session)
                continue
            try:
                node = znodes.load_controller(found.data)
            except znodes.UnreadableZnode as error:  # it disappears with the session that created it
                unreadable.report(error)
                self._learn(None)
                await self._clock.sleep(self._settings.standby_poll_ms / 1000)
                continue
            if found.ephemeral_owner == session.session_id:
                return node.epoch
            self._learn(node)
            await self._clock.sleep(self._settings.standby_poll_ms / 1000)

    async def _claim(self, session: Coordination) -> None:
        """Tries once to claim the role. The next look finds out if it succeeded, even if the answer was
        lost."""
        last = await until_answered(lambda: session.get(znodes.CONTROLLER_EPOCH))
        mine = znodes.ControllerNode(self.endpoint, last.version + 1)
        try:
            await session.multi(
                [
                    SetData(znodes.CONTROLLER_EPOCH, b"", last.version),
                    Create(znodes.CONTROLLER, znodes.dump_controller(mine), ephemeral=True),
                ]
            )
        except (MultiFailed, ConnectionLost) as error:
            logger.info("claim not confirmed", controller=self.endpoint.id, reason=str(error))

    async def _be_active(self, session: FencedSession) -> None:
        active = ActiveController(
            session, self.endpoint, self._settings, self.host, self.key, self.authorizer, self.quotas
        )
        try:
            await active.load()
            logger.info("active", controller=self.endpoint.id, epoch=session.epoch)
            self.active = active
            self._learn(znodes.ControllerNode(self.endpoint, session.epoch))
            await active.run()
        finally:
            self.active = None
            self.authorizer.forget()

    def _learn(self, node: znodes.ControllerNode | None) -> None:
        if node != self.known:
            self.known = node
            self._on_change()


async def lay_ground(session: Coordination, new_id: Callable[[], str]) -> None:
    """Creates the persistent paths of the layout and the cluster's id. Brokers do the same."""
    for path in znodes.SKELETON:
        await session.ensure_path(path)
    try:
        await session.create(znodes.CLUSTER_ID, new_id().encode())
    except NodeExists:
        return


async def _until_ended(session: Coordination) -> None:
    await session.wait_ended()
    raise SessionEnded("the ZooKeeper session is over")


def _say_waiting(seconds: float) -> None:
    logger.warning("waiting for ZooKeeper", seconds=round(seconds, 1))
