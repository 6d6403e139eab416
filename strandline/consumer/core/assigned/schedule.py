"""The heartbeats of a member whose coordinator assigns (KIP-848): what each of them says.

All that the member has to say goes into heartbeats, one at a time. What is new is said at once and in full:
it cuts the heartbeat that is held. Once that is answered, heartbeats only name the member and its epoch. One
that fails or is cut may have been handled all the same, so the next one says everything again.

A heartbeat that leaves a partition out gives it up. So what the member was given since it last spoke is said
with what it said: it may have taken it by now, or be about to.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from strandline.client.backoff import backoff_s
from strandline.config.consumer import ConsumerSettings
from strandline.consumer.core.assigned.settings import AssignedSettings
from strandline.consumer.core.heartbeat import Beat, News, Schedule, SendHeartbeat
from strandline.errors import StrandlineError
from strandline.ids import PartitionKey
from strandline.vocabulary.groups import JOINS, ConsumerBeat, ConsumerHeartbeat


class AssignedSchedule(Schedule[ConsumerBeat]):
    """The coordinator says how often it wants to hear of the member; before its first answer it is
    `heartbeat_interval_ms`."""

    def __init__(self, group: str, settings: ConsumerSettings) -> None:
        super().__init__(group, settings)
        self._full: ConsumerHeartbeat | None = None
        """All that the member has to say."""
        self._owed = False
        """True until that is answered."""
        self._given_interval_ms = settings.heartbeat_interval_ms
        self._attempts = 0
        """Failures since the last answer."""
        self._unheard: list[tuple[PartitionKey, ...]] = []
        """The assignments of news that what the member said does not follow from."""
        self._heard = 0
        """How many news came before these."""

    def say(self, request: ConsumerHeartbeat, heard: int, now: float) -> None:
        """Say this at once: with epoch 0 to join, else with the epoch of the last answer. A member that the
        schedule has stopped for says nothing but that it joins. `heard`: how many news it follows from; one
        that joins has nothing."""
        if request.epoch == JOINS:
            self.start(Beat(request.member, JOINS), now)
            heard = self._heard + len(self._unheard)
        if heard > self._heard:
            del self._unheard[: heard - self._heard]
            self._heard = heard
        if self._beat is not None:
            self._full, self._owed, self._due_at = request, True, now
            self.cut = self._sent is not None

    def aim(self, address: str, now: float) -> None:
        self._owed = self._owed or address != self._address
        super().aim(address, now)

    @property
    def _interval_ms(self) -> int:
        return self._given_interval_ms

    @property
    def _grace_ms(self) -> float:
        return min(self._settings.request_timeout_ms, self._given_interval_ms)

    def _request(self, beat: Beat, wait_ms: int) -> ConsumerHeartbeat:
        assert self._full is not None, f"{beat} has nothing to say"
        if self._owed:
            owned = dict.fromkeys((*(self._full.owned or ()), *chain.from_iterable(self._unheard)))
            return replace(self._full, epoch=beat.generation, owned=tuple(owned))
        full = self._full
        return ConsumerHeartbeat(
            full.group,
            beat.member,
            beat.generation,
            full.instance,
            client_id=full.client_id,
            max_wait_ms=wait_ms,
        )

    def _farewell(self, beat: Beat, reason: str) -> ConsumerHeartbeat:
        return AssignedSettings.of(self._group, self._settings).farewell(beat.member)

    def _answered(self, sent: SendHeartbeat, answer: ConsumerBeat, now: float) -> News | None:
        self._attempts = 0
        if answer.interval_ms > 0:
            self._given_interval_ms = answer.interval_ms
        if self._beat is not None:
            self._beat = Beat(answer.member, answer.epoch)
        news = answer.assignment is not None or answer.epoch != sent.beat.generation
        if self._owed or news or answer.interval_ms == 0:
            self._due_at = now
        self._owed = False
        if not news:
            return None
        self._unheard.append(answer.assignment or ())
        return News(sent.beat, answer)

    def _failed(self, sent: SendHeartbeat, error: StrandlineError, now: float) -> None:
        self._attempts += 1
        self._owed = True
        self._due_at = now + backoff_s(self._settings, self._attempts)
