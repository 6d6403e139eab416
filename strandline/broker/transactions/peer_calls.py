"""Calls to other brokers, each with many items: those that come during the calls in flight go together into
the next one, so that under load calls grow by themselves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from strandline.broker.replicas.manager import ReplicaManager
from strandline.errors import BrokerNotAvailable, OutcomeUnknown, StrandlineError
from strandline.ids import BrokerId
from strandline.ports import Method, Transport

Item = TypeVar("Item")
Result = TypeVar("Result")
Batch = TypeVar("Batch")
Send = Callable[[BrokerId, Sequence[Item]], Awaitable[Sequence[Result]]]
"""One call to a broker: a result for each item, in their order. Raises a StrandlineError for all of them."""

_STOPPING: Final = "this broker is stopping"
CALLS_IN_FLIGHT_MAX: Final = 8
"""To one broker. A call is answered with its slowest item, so several are needed for the others."""


def sending(
    manager: ReplicaManager,
    transport: Transport,
    method: Method[Batch, Sequence[Result]],
    batch: Callable[[BrokerId, Sequence[Item]], Batch],
    timeout_s: float,
) -> Send[Item, Result]:
    """Calls by this method. `batch` makes the request from this broker's id and the items. They raise
    BrokerNotAvailable for a broker that is not alive."""

    async def send(broker: BrokerId, items: Sequence[Item]) -> Sequence[Result]:
        registration = manager.live.get(broker)
        if registration is None:
            raise BrokerNotAvailable(f"broker {broker} is not alive")
        request = batch(manager.me, items)
        return await transport.call(registration.endpoint.address, method, request, timeout_s=timeout_s)

    return send


class _Peer(Generic[Item, Result]):
    """The items for one broker."""

    __slots__ = ("in_flight", "scheduled", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[Item, asyncio.Future[Result | StrandlineError]]] = deque()
        self.in_flight = 0
        self.scheduled = False


class PeerCalls(Generic[Item, Result]):
    """`run` owns the calls. Items of an asker that went away are left out if they were not sent yet."""

    def __init__(self, send: Send[Item, Result], *, weight_max: int, weigh: Callable[[Item], int]) -> None:
        """`weight_max`: of all items of one call; a heavier one is sent alone."""
        self._send = send
        self._weight_max = weight_max
        self._weigh = weigh
        self._peers: dict[BrokerId, _Peer[Item, Result]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Makes calls until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for broker, peer in self._peers.items():
                self._schedule(broker, peer)
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks = None
                for peer in self._peers.values():
                    _fail([future for _, future in peer.waiting], BrokerNotAvailable(_STOPPING))
                self._peers.clear()

    def begin(self, broker: BrokerId, item: Item) -> asyncio.Future[Result | StrandlineError]:
        """Sends the item with the next call to this broker. The future has its result, or the call's
        error."""
        peer = self._peers.get(broker)
        if peer is None:
            peer = self._peers[broker] = _Peer()
        future: asyncio.Future[Result | StrandlineError] = asyncio.get_running_loop().create_future()
        peer.waiting.append((item, future))
        self._schedule(broker, peer)
        return future

    def _schedule(self, broker: BrokerId, peer: _Peer[Item, Result]) -> None:
        """Flush after the tasks that are ready to run: they may have items too."""
        if self._tasks is not None and not peer.scheduled and peer.waiting:
            peer.scheduled = True
            asyncio.get_running_loop().call_soon(self._flush, broker, peer)

    def _flush(self, broker: BrokerId, peer: _Peer[Item, Result]) -> None:
        peer.scheduled = False
        while self._tasks is not None and peer.waiting and peer.in_flight < CALLS_IN_FLIGHT_MAX:
            items, futures = self._take(peer)
            if items:
                peer.in_flight += 1
                self._tasks.create_task(self._call(broker, peer, items, futures))

    def _take(
        self, peer: _Peer[Item, Result]
    ) -> tuple[list[Item], list[asyncio.Future[Result | StrandlineError]]]:
        """The items of the next call."""
        items, futures = list[Item](), list[asyncio.Future[Result | StrandlineError]]()
        room = self._weight_max
        while peer.waiting and (not items or room >= self._weigh(peer.waiting[0][0])):
            item, future = peer.waiting.popleft()
            if not future.done():
                items.append(item)
                futures.append(future)
                room -= self._weigh(item)
        return items, futures

    async def _call(
        self,
        broker: BrokerId,
        peer: _Peer[Item, Result],
        items: Sequence[Item],
        futures: Sequence[asyncio.Future[Result | StrandlineError]],
    ) -> None:
        error: StrandlineError = OutcomeUnknown(_STOPPING)
        try:
            results = await self._send(broker, items)
            if len(results) == len(items):
                for future, result in zip(futures, results, strict=True):
                    if not future.done():
                        future.set_result(result)
            error = OutcomeUnknown(f"broker {broker} gave {len(results)} answers to {len(items)} questions")
        except StrandlineError as raised:
            error = raised
        finally:
            _fail(futures, error)
            peer.in_flight -= 1
            self._schedule(broker, peer)


def _fail(futures: Sequence[asyncio.Future[Result | StrandlineError]], error: StrandlineError) -> None:
    for future in futures:
        if not future.done():
            future.set_result(error)
