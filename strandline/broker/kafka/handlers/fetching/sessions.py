"""The fetch sessions of one broker (KIP-227): which one a request belongs to, and new ones."""

from __future__ import annotations

from random import Random
from typing import Final

from strandline.adapters.telemetry.kafka_traffic import KafkaTraffic
from strandline.broker.core.fetch_sessions.cache import SessionCache
from strandline.broker.core.fetch_sessions.session import FetchSession, key_of
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.handlers.fetching.answering import is_stable
from strandline.broker.kafka.handlers.fetching.live_session import LiveSession
from strandline.broker.kafka.wire.fetch import (
    FINAL_SESSION_EPOCH,
    IDS_SINCE,
    INITIAL_SESSION_EPOCH,
    FetchRequest,
)
from strandline.broker.log.handlers import Handlers
from strandline.ports import Clock
from strandline.vocabulary.log import Fetched, FetchPartition

SLOTS_MAX: Final = 1_000
"""Sessions of one broker, as Kafka's `max.incremental.fetch.session.cache.slots`."""
PARTITIONS_MAX: Final = 100_000
"""Partitions of all sessions: about 100 MB."""
_ID_BITS: Final = 31


class FetchSessions:
    """The sessions, by their ids. A session belongs to the principal that began it: to others it is not
    known."""

    def __init__(self, log: Handlers, random: Random, clock: Clock, traffic: KafkaTraffic) -> None:
        self._log = log
        self._random = random
        self._clock = clock
        self._traffic = traffic
        self._cache = SessionCache(SLOTS_MAX, PARTITIONS_MAX)
        self._live: dict[int, LiveSession] = {}

    def of(self, request: FetchRequest, call: Call) -> LiveSession | KafkaCode | None:
        """The session that the request goes on with; None for a whole request, which ends the session that it
        names. It may be asked again with the same call."""
        live = self._owned(request.session_id, call)
        if request.session_epoch in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH):
            if live is not None:
                self._end(live)
            return None
        if live is None:
            return KafkaCode.FETCH_SESSION_ID_NOT_FOUND
        if live.serves(call):
            return live
        if request.session_epoch != live.core.epoch:
            return KafkaCode.INVALID_FETCH_SESSION_EPOCH
        if live.core.by_ids != (call.version >= IDS_SINCE):
            return KafkaCode.FETCH_SESSION_TOPIC_ID_ERROR
        live.begin(request, call)
        if not self._cache.used(live.core, self._clock.monotonic()):
            self._end(live)
            return KafkaCode.FETCH_SESSION_ID_NOT_FOUND
        self._note()
        return live

    def end_empty(self, live: LiveSession) -> bool:
        """Ends a session whose client has forgotten all partitions."""
        if len(live.core):
            return False
        self._end(live)
        return True

    def wanted(self, request: FetchRequest) -> bool:
        """Whether a whole request asks for a session."""
        return request.session_epoch == INITIAL_SESSION_EPOCH

    def begun(self, request: FetchRequest, call: Call, found: list[tuple[FetchPartition, Fetched]]) -> int:
        """Begins a session if the request asks for one, whose client gets this answer. Returns its id; 0 if
        there is none."""
        if not self.wanted(request) or not found:
            return 0
        now = self._clock.monotonic()
        by_ids = call.version >= IDS_SINCE
        core = FetchSession(self._new_id(), call.caller.principal, by_ids=by_ids, now_s=now)
        core.take((position for position, _ in found), stable=is_stable(request))
        for position, fetched in found:
            core.tells(key_of(position), fetched)
        victims = self._cache.add(core, now)
        if victims is None:
            return 0
        for victim in victims:
            self._live.pop(victim.id).close()
        self._live[core.id] = LiveSession(core, self._log, call.caller)
        self._note()
        return core.id

    def _owned(self, session_id: int, call: Call) -> LiveSession | None:
        live = self._live.get(session_id)
        return live if live is not None and live.core.owner == call.caller.principal else None

    def _end(self, live: LiveSession) -> None:
        self._cache.remove(live.core)
        del self._live[live.core.id]
        live.close()
        self._note()

    def _new_id(self) -> int:
        while (session_id := self._random.getrandbits(_ID_BITS)) in self._live or not session_id:
            pass
        return session_id

    def _note(self) -> None:
        self._traffic.fetch_sessions = len(self._cache)
        self._traffic.fetch_session_partitions = self._cache.partitions
        self._traffic.fetch_session_evictions = self._cache.evictions
