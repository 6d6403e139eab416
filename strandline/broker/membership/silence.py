"""Finds leaders that this broker no longer hears, and asks the other brokers about them.

`strandline.broker.core.election.silence` decides; docs/understand/replication.md, Silence, has the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from strandline.broker.core.election.silence import Report, agreed
from strandline.broker.core.election.suspects import Cause, Repeated
from strandline.broker.membership.hearing import Hearing
from strandline.broker.membership.peers import Peers
from strandline.broker.membership.pulse import BEAT_S
from strandline.ids import BrokerEpoch, BrokerId
from strandline.ports import Clock
from strandline.vocabulary.metadata import Registration

logger = structlog.get_logger(__name__)

Ask = Callable[[Registration, Registration], Coroutine[Any, Any, Report | None]]
"""Asks the first broker for how long it has not heard the second. None: no answer. Never raises; bounded in
time."""


@dataclass(slots=True)
class _Inquiry(Repeated):
    """A leader that is not heard: when the others are asked about it."""

    under_way: bool = False


class SilenceWatch:
    """Watches the leaders that one broker follows, in one session. `run` is its task."""

    def __init__(
        self,
        me: BrokerId,
        peers: Peers,
        hearing: Hearing,
        ask: Ask,
        followed: Callable[[], Collection[BrokerId]],
        clock: Clock,
        silence_s: float,
    ) -> None:
        """`followed`: the brokers that lead what this one follows."""
        self._me = me
        self._peers = peers
        self._hearing = hearing
        self._ask = ask
        self._followed = followed
        self._clock = clock
        self._silence_s = silence_s
        self._inquiries: dict[BrokerEpoch, _Inquiry] = {}
        self._due: asyncio.Queue[Registration] = asyncio.Queue()
        """Leaders to ask about now, each once: see `_Inquiry.under_way`."""

    def look(self, now: float) -> None:
        """Finds out who is silent now, and who is heard again. Called at each tick."""
        self._refute(now)
        silent = [
            registration
            for broker in self._followed()
            if (registration := self._peers.live.get(broker)) is not None
            and registration.epoch not in self._peers.suspects
            and self._is_silent(registration)
        ]
        lives = {registration.epoch for registration in silent}
        self._inquiries = {life: each for life, each in self._inquiries.items() if life in lives}
        for registration in silent:
            inquiry = self._inquiries.setdefault(registration.epoch, _Inquiry(now))
            if inquiry.due <= now and not inquiry.under_way:
                inquiry.under_way = True
                self._due.put_nowait(registration)

    def _refute(self, now: float) -> None:
        """Ends suspicions by messages. That this broker was late itself is none."""
        for broker, registration in self._peers.live.items():
            if self._peers.suspects.cause(registration.epoch) is Cause.SILENT:
                heard_at = self._hearing.heard_at(broker)
                if heard_at is not None and now - heard_at < self._silence_s:
                    self._peers.reached(registration.epoch)

    def _is_silent(self, registration: Registration) -> bool:
        silent_s = self._hearing.judged_s(registration.id, registration.epoch)
        return silent_s is not None and silent_s >= self._silence_s

    async def run(self) -> None:
        """Asks about the leaders that are silent. Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._inquire(await self._due.get()))

    async def _inquire(self, about: Registration) -> None:
        others = [each for each in self._peers.live.values() if each.id not in (self._me, about.id)]
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(self._ask(other, about)) for other in others]
        own_s = self._hearing.judged_s(about.id, about.epoch)  # it may have been heard since
        reports = [each.result() for each in asked]
        silent = own_s is not None and agreed(own_s, reports, self._silence_s, BEAT_S)
        logger.debug(
            "a leader is not heard",
            leader=about.id,
            broker_epoch=about.epoch,
            silent_s=own_s,
            others={
                other.id: report and report.silent_s for other, report in zip(others, reports, strict=True)
            },
            agreed=silent,
        )
        if silent:
            self._peers.unheard(about.epoch)
        if (inquiry := self._inquiries.get(about.epoch)) is not None:
            inquiry.under_way = False
            inquiry.again(self._clock.monotonic())
