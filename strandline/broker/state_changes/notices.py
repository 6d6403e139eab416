"""Takes election notices from this broker's own queue. They wait behind no request (Kafka's design V2,
goal 6).

One kind says that a partition has no leader and this broker is next; the other, that this broker leads a
partition which another broker should lead. Neither waits for the other: long work begins here, and ends
elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.adapters.zookeeper.looks import Looks
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.session_context import SessionContext
from strandline.ids import NO_BROKER
from strandline.ports import NoNode

logger = structlog.get_logger(__name__)


class NoticeReceiver:
    """Receives the notices of one session. `run` is its task."""

    def __init__(
        self,
        context: SessionContext,
        vacant: Callable[[Replica, bool], None],
        give: Callable[[ElectionNotice], None],
    ) -> None:
        self._manager = context.manager
        self._session = context.coordination
        self._vacant = vacant
        self._give = give
        self._notices = znodes.elections(context.me)
        self._looks = Looks(self._take_all, context.clock)

    async def open(self) -> None:
        """Ensure the folder and set the watch."""
        await self._session.ensure_path(self._notices)
        self._session.watch_children(self._notices, lambda _: self._looks.again())

    def look_again(self) -> None:
        """Have `run` read the queue, whether the watch fired or not."""
        self._looks.again()

    async def run(self) -> None:
        """Act on the notices for this broker. Runs until cancelled."""
        await self._looks.run()

    async def _take_all(self) -> None:
        paths = [f"{self._notices}/{entry}" for entry in sorted(await self._session.children(self._notices))]
        async with asyncio.TaskGroup() as tasks:
            for path in paths:
                tasks.create_task(self._take_notice(path))

    async def _take_notice(self, path: str) -> None:
        try:
            notices = queue_znodes.load_notices((await self._session.get(path)).data)
        except NoNode:
            return
        except ValueError as error:
            logger.error("removing a malformed election notice", path=path, reason=str(error))
            notices = []
        for notice in notices:
            self._act_on(notice)
        # A broker that dies after this leads nothing, so the leaderships that it was to give away move
        # anyway.
        await self._delete(path)

    def _act_on(self, notice: ElectionNotice) -> None:
        if notice.give_to != NO_BROKER:
            self._give(notice)
            return
        replica = self._manager.get(notice.key)
        if replica is not None and notice.leader_epoch >= replica.leader_epoch:
            if notice.unclean:
                replica.unclean_permit, replica.unclean_by = notice.leader_epoch, notice.by
            self._vacant(replica, not notice.unclean)

    async def _delete(self, path: str) -> None:
        try:
            await self._session.delete(path)
        except NoNode:
            return
