"""This broker among the others: its registration, who is alive, and the lease that rests on both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final
from uuid import uuid4

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.config import BrokerSettings
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
)
from strandline.vocabulary.metadata import Endpoint, Registration

logger = structlog.get_logger(__name__)

RENEWALS_PER_TIMEOUT: Final = 6
"""How often the lease is renewed in one session timeout."""
RENEW_AGAIN_S_MIN: Final = 0.01


async def join_cluster(session: Coordination, folder: DataFolder) -> str:
    """Make sure of the layout; the cluster's id. Raises SettingsError if the folder is another's."""
    for path in znodes.SKELETON:
        await session.ensure_path(path)
    with contextlib.suppress(NodeExists):
        await session.create(znodes.CLUSTER_ID, uuid4().hex.encode())
    cluster_id = znodes.load_cluster_id((await session.get(znodes.CLUSTER_ID)).data)
    folder.check_cluster(cluster_id)
    return cluster_id


class Membership:
    """Registration and picture of the living, for one session."""

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
        self.registration = Registration(endpoint, BrokerEpoch(-1))
        self.live: Mapping[BrokerId, Registration] = {}
        self.lease_until = 0.0
        """Until then the session has not expired, by this process's clock (CORRECTNESS E1)."""
        self._changed = asyncio.Event()

    async def register(self) -> None:
        """Create the ephemeral registration; its czxid is the broker epoch (KIP-380).

        What an earlier life of this very folder left is removed (E10). A live broker with this id is
        waited for as long as it might be a dying session, then SettingsError says whose the id is.
        """
        deadline = self._clock.monotonic() + 2 * self._session.session_timeout_s + 1
        data = znodes.dump_registration(self.registration)
        while True:
            try:
                self._folder.begin_session(self._session.session_id)
                await self._session.create(self._path, data, ephemeral=True)
            except NodeExists:
                if await self._yields(deadline):
                    continue
            except ConnectionLost:
                await self._clock.sleep(self._settings.fetcher_retry_ms / 1000)
                continue
            node = await self._session.exists(self._path)
            if node is not None and node.ephemeral_owner == self._session.session_id:
                break
        self.registration = replace(self.registration, epoch=BrokerEpoch(node.czxid))
        self._folder.begin_life(self.registration.epoch)
        logger.info("registered", broker=self.registration.id, broker_epoch=node.czxid)

    async def _yields(self, deadline: float) -> bool:
        """True if the registration in the way is gone, or may go soon. Raises SettingsError if not."""
        node = await self._session.exists(self._path)
        if node is None or node.ephemeral_owner == self._session.session_id:
            return node is None
        if node.ephemeral_owner in self._folder.previous_sessions:
            logger.info("removing the registration of an earlier life", broker=self.registration.id)
            with contextlib.suppress(NoNode):
                await self._session.delete(self._path)
            return True
        if self._clock.monotonic() > deadline:
            try:
                found = await self._session.get(self._path)
            except NoNode:
                return True
            try:
                other = znodes.load_registration(self.registration.id, found.data, found.czxid)
                where = other.endpoint.address
            except znodes.UnreadableZnode:
                where = "an address that cannot be read"
            raise SettingsError(
                f"setting broker_id = {self.registration.id}: broker {self.registration.id} is alive at "
                f"{where}; give each broker its own id (set STRANDLINE_BROKER_ID)"
            )
        await self._clock.sleep(self._settings.fetcher_retry_ms / 1000)
        return True

    async def leave(self) -> None:
        """Say that this broker is shutting down: nobody takes it for a successor or into an ISR (I7)."""
        self.registration = replace(self.registration, shutting_down=True)
        await self._session.set(self._path, znodes.dump_registration(self.registration))

    # --- who is alive ------------------------------------------------------------------------

    async def watch(self, on_live: Callable[[Mapping[BrokerId, Registration]], None]) -> None:
        """Keep `live` true: any event means "read again" (CORRECTNESS E8). Runs until cancelled."""
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
        """The registrations as ZooKeeper has them now."""
        live: dict[BrokerId, Registration] = {}
        for child in await self._session.children(znodes.BROKER_IDS):
            try:
                node = await self._session.get(znodes.broker(int(child)))
                live[BrokerId(int(child))] = znodes.load_registration(int(child), node.data, node.czxid)
            except NoNode:
                continue
            except ValueError as error:
                logger.error("not a registration", path=f"{znodes.BROKER_IDS}/{child}", reason=str(error))
        return live

    # --- the lease ---------------------------------------------------------------------------

    async def keep_lease(self) -> None:
        """Prove again and again that the session lives. Runs until cancelled.

        By a write, which changes nothing: a server answers reads, and for a while `sync`, also when it has
        lost the others, which end the session meanwhile. A write is answered once a quorum has it. The proof
        counts from before it was asked for: ZooKeeper heard of this session no earlier.
        """
        timeout = self._session.session_timeout_s
        margin = min(self._settings.session_margin_ms / 1000, timeout / 2)
        pace = timeout / RENEWALS_PER_TIMEOUT
        while True:
            asked = self._clock.monotonic()
            try:
                await self._session.multi([Check(self._path)])
                node = await self._session.exists(self._path)  # as of that write, or later
                if node is not None and node.czxid == self.registration.epoch:
                    self.lease_until = asked + timeout - margin
            except (ConnectionLost, MultiFailed) as error:
                logger.debug("the lease was not renewed", reason=str(error))
            # After an answer that took long the next question comes at once.
            await self._clock.sleep(max(RENEW_AGAIN_S_MIN, asked + pace - self._clock.monotonic()))

    @property
    def lease_s(self) -> float:
        """For how long this broker may take its session for alive, as far as it knows now; 0: it may not.

        Nothing is certain while the link is down: who has lost ZooKeeper may have lost its peers too.
        """
        if self._session.state is not LinkState.CONNECTED:
            return 0.0
        return max(0.0, self.lease_until - self._clock.monotonic())

    def holds_lease(self) -> bool:
        return self.lease_s > 0
