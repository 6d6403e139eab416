"""What a Fetch request asks for: all of its positions, or what is due in its session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.handlers.fetching.answering import (
    Elsewhere,
    FetchAnswers,
    is_unread,
    positions_of,
    unread,
)
from strandline.broker.kafka.handlers.fetching.live_session import LiveSession
from strandline.broker.kafka.handlers.fetching.sessions import FetchSessions
from strandline.broker.kafka.wire.fetch import FetchAnswer, FetchRequest
from strandline.broker.kafka.wire.topics import count
from strandline.broker.log.reads import Reads, Watched
from strandline.vocabulary.log import Fetched, FetchPartition


class Asking(Protocol):
    """One request while it waits, and its answer."""

    @property
    def watched(self) -> Watched:
        """The positions at which it waits, of topics that are known here."""
        ...

    @property
    def at_once(self) -> bool:
        """Whether it does not wait: it asks for nothing, for a topic that is not known here, or for what
        it is to read from a follower."""
        ...

    @property
    def size(self) -> int:
        """Positions that the request names, and keeps while it waits."""
        ...

    @property
    def begins_session(self) -> bool:
        """Whether its answer begins a session."""
        ...

    def settle_now(self) -> None:
        """As `Watched.settle`, for few positions."""
        ...

    def nothing(self) -> FetchAnswer:
        """An answer without partitions, for a client that has to wait for its quota."""
        ...

    def answer(
        self, asked: Sequence[FetchPartition], found: Sequence[Fetched], elsewhere: Elsewhere
    ) -> FetchAnswer:
        """What was read at these positions, which were due. There are no records where `elsewhere` sends the
        client to a follower."""
        ...


class Whole:
    """A request with all of its positions. Its topics have their names."""

    def __init__(
        self, request: FetchRequest, call: Call, reads: Reads, made: FetchAnswers, sessions: FetchSessions
    ) -> None:
        self._request = request
        self._call = call
        self._made = made
        self._sessions = sessions
        self._positions = positions_of(request, request.topics)
        known = [position for position in self._positions if not is_unread(position)]
        self.watched = reads.fixed(known)
        self.size = len(known)
        self.at_once = (
            not known or len(known) < len(self._positions) or bool(made.elsewhere(known, request, call))
        )
        self.begins_session = sessions.wanted(request)

    def settle_now(self) -> None:
        return

    def nothing(self) -> FetchAnswer:
        return FetchAnswer(())

    def answer(
        self, asked: Sequence[FetchPartition], found: Sequence[Fetched], elsewhere: Elsewhere
    ) -> FetchAnswer:
        read = iter(found)
        whole = [
            (position, unread(position) if is_unread(position) else next(read))
            for position in self._positions
        ]
        session_id = self._sessions.begun(self._request, self._call, whole)
        return self._made.of(whole, self._request, self._call, session_id, elsewhere)


class InSession:
    """A request that goes on with a session: its answer has what the client does not know."""

    begins_session = False

    def __init__(
        self,
        live: LiveSession,
        request: FetchRequest,
        call: Call,
        made: FetchAnswers,
        sessions: FetchSessions,
    ) -> None:
        self._sessions = sessions
        self._request = request
        self._call = call
        self._made = made
        self.watched = live
        self.size = count(request.topics) + count(request.forgotten)  # its session has the others

    @property
    def at_once(self) -> bool:
        live = self.watched
        if not len(live.core) or live.unknown:
            return True
        return bool(self._made.elsewhere(live.due, self._request, self._call))

    def settle_now(self) -> None:
        self.watched.settle_now()

    def nothing(self) -> FetchAnswer:
        return FetchAnswer((), session_id=self.watched.core.id)

    def answer(
        self, asked: Sequence[FetchPartition], found: Sequence[Fetched], elsewhere: Elsewhere
    ) -> FetchAnswer:
        """An error if another request of the session has come meanwhile: what this one read may be of earlier
        positions."""
        live = self.watched
        if not live.serves(self._call):
            return FetchAnswer((), int(KafkaCode.INVALID_FETCH_SESSION_EPOCH))
        if self._sessions.end_empty(live):
            return FetchAnswer(())
        unknown = [(position, unread(position)) for position in live.unknown]
        told = live.told([*zip(asked, found, strict=True), *unknown], elsewhere)
        return self._made.of(told, self._request, self._call, live.core.id, elsewhere)
