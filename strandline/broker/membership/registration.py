"""Registers this broker, watches the live brokers, and keeps the lease that depends on the registration."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_registrations
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.config.services.broker import BrokerSettings
from strandline.errors import SettingsError
from strandline.ids import BrokerEpoch, BrokerId
from strandline.ports import (
    Check,
    Clock,
    ConnectionLost,
    Coordination,
    LinkState,
    MultiFailed,
    NodeExists,
    NoNode,
    SessionEnded,
)
from strandline.vocabulary.metadata import Endpoint, Registration

logger = structlog.get_logger(__name__)

RENEWALS_PER_TIMEOUT: Final = 6
"""Renewals of the lease in one session timeout."""
RENEW_AGAIN_S_MIN: Final = 0.01


async def join_cluster(session: Coordination, folder: DataFolder, new_id: Callable[[], str]) -> str:
    """Creates the layout where it is missing. Returns the cluster's id.

    Raises SettingsError if the data folder belongs to another cluster.
    """
    for path in znodes.SKELETON:
        await session.ensure_path(path)
    with contextlib.suppress(NodeExists):
        await session.create(znodes.CLUSTER_ID, new_id().encode())
    cluster_id = znodes.load_cluster_id((await session.get(znodes.CLUSTER_ID)).data)
    folder.check_cluster(cluster_id)
    return cluster_id


class SessionRegistration:
    """This broker's registration in one ZooKeeper session, and the live brokers seen there."""

    def __init__(
        self,
        session: Coordination,
        folder: DataFolder,
        settings: BrokerSettings,
        clock: Clock,
        endpoint: Endpoint,
    ) -> None:
        self._session = session
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._path = znodes.broker(endpoint.id)
        self.own = Registration(endpoint, BrokerEpoch(-1), follower_fetch=True)
        self._has_waited = False
        self.live: Mapping[BrokerId, Registration] = {}
        self.lease_until = 0.0
        """The session cannot expire before this time of this process's clock (CORRECTNESS E1)."""
        self._changed = asyncio.Event()

    async def register(self) -> None:
        """Creates the ephemeral registration; its czxid is the broker epoch (KIP-380).

        Removes a registration that an earlier life of this folder left (E10). If another broker has this id,
        waits until that broker's session would have expired, and then raises SettingsError with its address.
        The time begins anew with each connection: ZooKeeper's next leader gives every session its whole time.
        """
        self._session.on_state(self._link_changed)
        self._begin_to_wait()
        data = znodes.dump_registration(self.own)
        while True:
            try:
                self._folder.begin_session(self._session.session_id)
                await self._session.create(self._path, data, ephemeral=True)
            except NodeExists:
                if await self._yields():
                    continue
            except ConnectionLost:
                await self._clock.sleep(self._settings.fetcher_retry_ms / 1000)
                continue
            node = await self._session.exists(self._path)
            if node is not None and node.ephemeral_owner == self._session.session_id:
                break
        self.own = replace(self.own, epoch=BrokerEpoch(node.czxid))
        self._folder.begin_life(self.own.epoch)
        logger.info("registered", broker=self.own.id, broker_epoch=node.czxid)

    def _link_changed(self, state: LinkState) -> None:
        if state is LinkState.CONNECTED:
            self._begin_to_wait()

    def _begin_to_wait(self) -> None:
        self._waits_until = self._clock.monotonic() + 2 * self._session.session_timeout_s + 1

    async def _yields(self) -> bool:
        """True if the registration in the way is gone, or may go soon; otherwise raises SettingsError."""
        node = await self._session.exists(self._path)
        if node is None or node.ephemeral_owner == self._session.session_id:
            return node is None
        if node.ephemeral_owner in self._folder.previous_sessions:
            logger.info("removing the registration of an earlier life", broker=self.own.id)
            with contextlib.suppress(NoNode):
                await self._session.delete(self._path)
            return True
        if self._clock.monotonic() > self._waits_until:
            try:
                found = await self._session.get(self._path)
            except NoNode:
                return True
            try:
                other = znodes.load_registration(self.own.id, found.data, found.czxid)
                where = other.endpoint.address
            except znodes.UnreadableZnode:
                where = "an address that cannot be read"
            raise SettingsError(
                f"setting broker_id = {self.own.id}: broker {self.own.id} is alive at "
                f"{where}; give each broker its own id (set STRANDLINE_BROKER_ID)"
            )
        if not self._has_waited:
            self._has_waited = True
            logger.info("waiting for another broker of this id to be gone", broker=self.own.id)
        await self._clock.sleep(self._settings.fetcher_retry_ms / 1000)
        return True

    async def leave(self) -> None:
        """Announces the shutdown: from now on no leader names this broker or adds it to an ISR (I7)."""
        self.own = replace(self.own, shutting_down=True)
        await self._session.set(self._path, znodes.dump_registration(self.own))

    # --- who is alive ------------------------------------------------------------------------

    async def watch(self, on_live: Callable[[Mapping[BrokerId, Registration]], None]) -> None:
        """Keeps `live` current: any event means "read again" (CORRECTNESS E8). Runs until cancelled."""
        self._session.watch_children(znodes.BROKER_IDS, lambda _children: self._changed.set())
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                live = await self.read_live()
            except ConnectionLost:
                await self._clock.sleep(self._settings.fetcher_retry_ms / 1000)
                self._changed.set()
                continue
            if live != self.live:
                logger.info("live brokers", brokers={b: r.epoch for b, r in live.items()})
                self.live = live
                on_live(live)

    def look_again(self) -> None:
        self._changed.set()

    async def read_live(self) -> Mapping[BrokerId, Registration]:
        """Reads the present registrations from ZooKeeper."""
        return await read_registrations(self._session)

    # --- the lease ---------------------------------------------------------------------------

    async def keep_lease(self) -> None:
        """Proves repeatedly that the session lives. Runs until cancelled.

        The proof is a write that changes nothing. A ZooKeeper server that has lost its quorum still answers
        reads, and `sync` for a while, although the other servers may end the session meanwhile. It answers a
        write only once a quorum has it. The lease counts from before the write was sent, because ZooKeeper
        received this session's message no earlier than that.

        Raises SessionEnded if the registration was changed by another process. A shutdown that an earlier
        life of this broker announced may arrive after this life has registered: no leader would ever take it
        back into an ISR (I7).
        """
        timeout = self._session.session_timeout_s
        margin = min(self._settings.session_margin_ms / 1000, timeout / 2)
        pace = timeout / RENEWALS_PER_TIMEOUT
        while True:
            asked = self._clock.monotonic()
            try:
                await self._session.multi([Check(self._path)])
                node = await self._session.exists(self._path)  # as of that write, or later
                if node is not None and node.czxid == self.own.epoch:
                    if node.version > 0 and not self.own.shutting_down:
                        raise SessionEnded(f"{self._path} was changed, and not by this life of the broker")
                    self.lease_until = asked + timeout - margin
            except (ConnectionLost, MultiFailed) as error:
                logger.debug("the lease was not renewed", reason=str(error))
            # After a slow answer the next renewal follows at once.
            await self._clock.sleep(max(RENEW_AGAIN_S_MIN, asked + pace - self._clock.monotonic()))

    @property
    def lease_s(self) -> float:
        """Seconds for which this session certainly lives on; 0 if that is not certain.

        Nothing is certain while the connection is down: a broker that lost ZooKeeper may have lost its peers
        too.
        """
        if self._session.state is not LinkState.CONNECTED:
            return 0.0
        return max(0.0, self.lease_until - self._clock.monotonic())

    def holds_lease(self) -> bool:
        return self.lease_s > 0
