"""The clients with which pages ask the cluster: each caller's own, so that the cluster's ACLs decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from starlette.requests import Request

from strandline.client.admin.admin import Admin
from strandline.console.core.seen import Seen
from strandline.consumer.consumer import Consumer
from strandline.errors import (
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.ports import Clock

KNOWN_S: Final = 5.0
"""How long what a user may see is taken for known; then the cluster is asked again."""
READABLE_S: Final = 30.0
"""The same for the records of a topic, which a client of its own has to ask for."""
READ_MS: Final = 2_000
"""How long the first record of a topic is waited for, to find whether a user may read it."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How a caller's clients reach the cluster: `Consumer(connection.bootstrap, **connection.arguments)`."""

    bootstrap: str
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Those of the connections, such as `security_protocol`."""
    host: Host | None = None
    """None: one of its own for each client."""

    @property
    def arguments(self) -> dict[str, Any]:
        """What a client takes besides the bootstrap servers."""
        return {**self.settings, "host": self.host}


@dataclass(slots=True)
class Rights:
    """What the cluster lately let a user see."""

    topics: frozenset[str] = frozenset()
    cluster: bool = False
    asked_s: float | None = None
    """When the two above were asked for; None: never."""
    readable: dict[str, tuple[bool, float]] = field(default_factory=dict)
    """Whether the user may read a topic, and when that was asked for. Few topics are asked about."""


@dataclass(slots=True)
class Session:
    """One login. `user` None: by the token of the console, whose own clients it uses."""

    user: str | None
    connection: Connection
    admin: Admin
    stop: Callable[[], Awaitable[None]]
    """Ends what the session alone uses."""
    ends_s: float
    used_s: float
    rights: Rights = field(default_factory=Rights)


class Admins:
    """The admin client of each caller."""

    def __init__(self, connection: Connection, own: Admin, clock: Clock, seen: Callable[[], Seen]) -> None:
        """`own`: the console's, which callers without a name of their own share. `seen`: what the console
        saw of the cluster last: while no broker answers it, none is asked for a page."""
        self._connection = connection
        self._own = own
        self._clock = clock
        self._seen = seen

    def admin(self, request: Request) -> Admin:
        """The caller's own client, which is started. Do not stop it. Raises BrokerNotAvailable."""
        self._check_answered()
        session = _session(request)
        return self._own if session is None else session.admin

    def connection(self, request: Request) -> Connection:
        """For another client of this caller, such as a consumer. Raises BrokerNotAvailable."""
        self._check_answered()
        session = _session(request)
        return self._connection if session is None else session.connection

    def _check_answered(self) -> None:
        """Raises BrokerNotAvailable at once if it is known that no broker answers: to ask takes seconds."""
        seen = self._seen()
        if seen.unanswered:
            raise BrokerNotAvailable(f"{seen.problem}. It is tried again all the time: load the page again")

    async def visible(self, request: Request, seen: Seen) -> Seen:
        """What of the seen state this caller may know: topics that it may describe, and the controller's
        view only if it may describe the cluster. Raises StrandlineError if the cluster cannot be asked."""
        session = _session(request)
        if session is None or session.user is None:
            return seen
        rights = session.rights
        if rights.asked_s is None or self._clock.monotonic() - rights.asked_s >= KNOWN_S:
            await self._ask(session)
        found = seen.of_topics(rights.topics)
        if not rights.cluster:
            found = replace(found, controller=None, described=(), moves=(), described_at_ms=None)
        return found

    async def _ask(self, session: Session) -> None:
        self._check_answered()
        found = await session.admin.metadata()
        try:
            await session.admin.describe_cluster()
        except ClusterAuthorizationFailed:
            may_describe = False
        else:
            may_describe = True
        rights = session.rights
        rights.topics = frozenset(topic.name for topic in found.topics)
        rights.cluster, rights.asked_s = may_describe, self._clock.monotonic()

    async def may_read(self, request: Request, topic: str) -> bool:
        """Whether this caller may read the records of a topic: it reads one with a client of its own.

        A topic that is not there yet may not be read. Raises StrandlineError if the cluster cannot be asked.
        """
        session = _session(request)
        if session is None or session.user is None:
            return True
        known = session.rights.readable.get(topic)
        if known is None or self._clock.monotonic() - known[1] >= READABLE_S:
            self._check_answered()
            known = await _may_read(session.connection, topic), self._clock.monotonic()
            session.rights.readable[topic] = known
        return known[0]


async def _may_read(connection: Connection, topic: str) -> bool:
    try:
        async with Consumer(connection.bootstrap, **connection.arguments) as consumer:
            first = TopicPartition(topic, 0)
            consumer.assign([first])
            await consumer.seek_to_beginning(first)
            await consumer.getbatches(timeout_ms=READ_MS)  # what is in them does not matter
            return consumer.highwater(first) is not None  # an answer came, be it without a record
    except (TopicAuthorizationFailed, UnknownTopicOrPartition):
        return False


def _session(request: Request) -> Session | None:
    session: Session | None = request.state.session
    return session
