"""A replication stream without gRPC, with each end open to a test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from strandline.broker.replication.follower_end import StreamBroken
from strandline.broker.replication.leader_end import FollowerStream
from strandline.errors import StrandlineError
from strandline.vocabulary.replication import Hello, Push, Subscribe


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the follower."""

    hello: Hello | None
    subscribe: tuple[Subscribe, ...]
    progress: tuple[tuple[int, int], ...]
    unsubscribe: tuple[int, ...]
    acknowledged: int
    hold_copies_ms: int = 0


class MemoryStream:
    """Fulfils `ReplicaStream` of the follower's end; `heard` and `push` are the leader's end."""

    def __init__(self, *, owes_beats: bool = False) -> None:
        self.owes_beats = owes_beats
        self._up: asyncio.Queue[Said] = asyncio.Queue()
        self._down: asyncio.Queue[tuple[int, list[Push]] | StreamBroken] = asyncio.Queue()
        self._sequence = 0
        self.closed = asyncio.Event()

    # --- the follower's end ------------------------------------------------------------------

    async def send(
        self,
        *,
        hello: Hello | None,
        subscribe: Sequence[Subscribe],
        progress: Sequence[tuple[int, int]],
        unsubscribe: Sequence[int],
        acknowledged: int,
        hold_copies_ms: int,
    ) -> None:
        await asyncio.sleep(0)
        if self.closed.is_set():
            raise StreamBroken("closed")
        said = Said(
            hello, tuple(subscribe), tuple(progress), tuple(unsubscribe), acknowledged, hold_copies_ms
        )
        self._up.put_nowait(said)

    async def receive(self) -> tuple[int, list[Push]]:
        message = await self._down.get()
        if isinstance(message, StreamBroken):
            raise message
        return message

    async def close(self) -> None:
        self.closed.set()

    # --- the leader's end --------------------------------------------------------------------

    async def heard(self) -> Said:
        """The follower's next message."""
        return await self._up.get()

    def push(self, *pushes: Push) -> None:
        self._sequence += 1
        self._down.put_nowait((self._sequence, list(pushes)))

    def break_off(self, reason: str) -> None:
        self._down.put_nowait(StreamBroken(reason))
        self.closed.set()

    async def serve(self, link: FollowerStream) -> None:
        """Connect the leader's real end, as the gRPC service does; returns when the stream is closed."""
        try:
            async with asyncio.TaskGroup() as tasks:
                running = (tasks.create_task(self._listen(link)), tasks.create_task(self._tell(link)))
                await self.closed.wait()
                for task in running:
                    task.cancel()
        except* StrandlineError as refused:
            self.break_off(str(refused.exceptions[0]))
        finally:
            link.close()

    async def _listen(self, link: FollowerStream) -> None:
        while True:
            take(link, await self.heard())

    async def _tell(self, link: FollowerStream) -> None:
        while True:
            self._down.put_nowait(await link.next_message())


def take(link: FollowerStream, said: Said) -> None:
    """One message, in the order in which the service reads it."""
    for sub_id in said.unsubscribe:
        link.unsubscribe(sub_id)
    for subscribe in said.subscribe:
        link.subscribe(subscribe)
    if said.progress:
        link.progress(said.progress)
    link.hold_copies(said.hold_copies_ms)
    link.acknowledge(said.acknowledged)
