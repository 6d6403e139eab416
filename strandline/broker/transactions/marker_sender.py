"""The coordinator's side of markers: brings the end of a transaction to the leader of each of its partitions,
and tries until all of them have it below the high watermark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Set
from typing import Final

import structlog

from strandline.broker.core.transactions.effects import SendMarkers
from strandline.broker.transactions.marker_writes import MarkerWrites, Outcome, settle
from strandline.broker.transactions.peer_calls import PeerCalls, Send
from strandline.broker.transactions.places import Places
from strandline.config.limits import MARKERS_PER_CALL_MAX
from strandline.errors import LeaderNotAvailable, StrandlineError
from strandline.ids import BrokerId, TopicPartition
from strandline.ports import Clock
from strandline.tasks import in_slices
from strandline.vocabulary.transactions import Marker, MarkerEntry

logger = structlog.get_logger(__name__)

RETRY_S: Final = 0.01
"""The pause after the first round that left partitions without a marker; it doubles up to RETRY_S_MAX."""
RETRY_S_MAX: Final = 1.0
RETRIES_PER_S: Final = 500
"""Rounds of all transactions that wait for another one: with more of them each waits longer. Else tens of
thousands that wait for the same partitions took all of the broker's time, and kept those from recovering."""
NOTICE_S: Final = 3.0
"""A transaction that waits for its markers for longer is logged, and again each NOTICE_AGAIN_S."""
NOTICE_AGAIN_S: Final = 60.0

Locate = Callable[[Collection[TopicPartition]], Awaitable[Places]]
Marked = Callable[[Set[TopicPartition]], None]


class MarkerSender:
    """`run` owns the calls to other brokers."""

    def __init__(
        self,
        me: BrokerId,
        locate: Locate,
        writes: MarkerWrites,
        send: Send[MarkerEntry, StrandlineError | None],
        clock: Clock,
    ) -> None:
        self._me = me
        self._locate = locate
        self._writes = writes
        self._clock = clock
        self._waiting = 0
        """Transactions that wait for another round."""
        self._calls = PeerCalls(send, weight_max=MARKERS_PER_CALL_MAX, weigh=lambda _: 1)

    async def run(self) -> None:
        """Makes calls until cancelled."""
        await self._calls.run()

    async def deliver(self, markers: SendMarkers, coordinator_epoch: int, marked: Marked) -> None:
        """Returns once each partition has the marker, or is gone. `marked` gets each of them once. Cancelled
        when the coordinator is replaced: the next one begins anew, and leaders know the markers that they
        have."""
        delivery = _Delivery(markers, self._clock)
        marker = Marker(markers.producer, markers.commit, coordinator_epoch)
        pause_s = RETRY_S
        while True:
            done = await self._round(delivery, marker)
            if done:
                delivery.left -= done
                marked(done)
            if not delivery.left:
                return
            delivery.notice()
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)

    async def _pause(self, least_s: float) -> None:
        self._waiting += 1
        try:
            await self._clock.sleep(max(least_s, self._waiting / RETRIES_PER_S))
        finally:
            self._waiting -= 1

    async def _round(self, delivery: _Delivery, marker: Marker) -> set[TopicPartition]:
        """Tries each partition that is left once; those that have the marker now, or are gone."""
        places = await self._locate(sorted(delivery.left))
        delivery.error = LeaderNotAvailable("no leader is known")
        begun = await in_slices(
            lambda at: self._begin(at[1], MarkerEntry(at[0], marker)), places.leaders.items(), self._clock
        )
        await settle(begun)
        done = set(places.gone)
        for name, outcome in zip(places.leaders, begun, strict=True):
            if (error := outcome.result()) is None:
                done.add(name)
            else:
                delivery.error = error
        return done

    def _begin(self, leader: BrokerId, entry: MarkerEntry) -> Outcome:
        if leader == self._me:
            return self._writes.begin(entry)
        return self._calls.begin(leader, entry)


class _Delivery:
    """One transaction's markers, as far as they have not arrived."""

    def __init__(self, markers: SendMarkers, clock: Clock) -> None:
        self.left = set(markers.partitions)
        self.error: StrandlineError = LeaderNotAvailable("no leader is known")
        """Why some are left."""
        self._transactional_id = markers.transactional_id
        self._clock = clock
        self._began = clock.monotonic()
        self._notice_at = self._began + NOTICE_S

    def notice(self) -> None:
        """Logs that the end of the transaction takes long."""
        now = self._clock.monotonic()
        if now < self._notice_at:
            return
        self._notice_at = now + NOTICE_AGAIN_S
        logger.warning(
            "a transaction waits for its markers: its consumers read no further in these partitions",
            transactional_id=self._transactional_id,
            partitions=[str(name) for name in sorted(self.left)[:10]],
            count=len(self.left),
            seconds=round(now - self._began),
            reason=self.error.message,
        )
