"""A fetch session with what is watched for it: each partition at rest, by a listener at its replica."""

from __future__ import annotations

from collections.abc import Container

from strandline.broker.core.fetch_sessions.session import FetchSession, Key, epoch_after, key_in, key_of
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.handlers.fetching.answering import is_stable, is_unknown, positions_of
from strandline.broker.kafka.handlers.topic_ids import with_names
from strandline.broker.kafka.wire.fetch import FetchRequest
from strandline.broker.log.handlers import Handlers
from strandline.broker.replicas.local_replica import OnChange
from strandline.broker.replicas.replica import Replica
from strandline.ids import TopicPartition
from strandline.ports import Caller
from strandline.security.rights import READ_TOPIC
from strandline.tasks import Slices
from strandline.vocabulary.log import Fetched, FetchPartition


class _Watch:
    """Wakes one partition at the next change of its replica."""

    __slots__ = ("_key", "_replica", "_session")

    def __init__(self, session: LiveSession, key: Key, replica: Replica) -> None:
        self._session = session
        self._key = key
        self._replica = replica
        replica.listen(self.changed)

    def changed(self) -> None:
        self.end()
        self._session.woken(self._key)

    def end(self) -> None:
        self._replica.unlisten(self.changed)


class LiveSession:
    """Changed only between awaits. It can be listened to as a replica can: see `LongPoll`."""

    def __init__(self, core: FetchSession, log: Handlers, caller: Caller) -> None:
        self.core = core
        self._log = log
        self._caller = caller
        self._watches: dict[Key, _Watch] = {}
        self._listeners: dict[OnChange, None] = {}
        self._rights = log.access.authorizer.version
        """The version of the ACLs by which partitions came to rest."""
        self._serves: Call | None = None
        """The call of its last request: the request itself may be large."""
        self.closed = False

    # --- requests ----------------------------------------------------------------------------

    def begin(self, request: FetchRequest, call: Call) -> None:
        """Serves this request from now on, and no earlier one."""
        self._caller = call.caller
        positions = positions_of(request, with_names(request.topics, self._log))
        forgotten = [
            key_in(topic.name, topic.topic_id, number)
            for topic in request.forgotten
            for number in topic.partitions
        ]
        for key in (*map(key_of, positions), *forgotten):
            self._end_watch(key)
        self.core.take(positions, forgotten, stable=is_stable(request))
        for position in self.unknown:
            name = self._log.name_of(position.topic_id, (position.name.partition,))
            if name is not None:
                self.core.named(key_of(position), name)
        self.core.epoch = epoch_after(request.session_epoch)
        self._serves = call

    def serves(self, call: Call) -> bool:
        """False if another request of the session has come since, or the session has ended."""
        return self._serves is call and not self.closed

    def close(self) -> None:
        """The session has ended: a request that waits for it looks."""
        self.closed = True
        for key in tuple(self._watches):
            self._end_watch(key)
        self._announce()

    # --- due, and at rest --------------------------------------------------------------------

    @property
    def due(self) -> list[FetchPartition]:
        """What is due, of topics that are known here."""
        self._ask_rights()
        return [position for position in self.core.due if not is_unknown(position)]

    @property
    def unknown(self) -> list[FetchPartition]:
        """The positions of topics that are not known here."""
        return [position for position in self.core.due if is_unknown(position)]

    async def settle(self, slices: Slices) -> None:
        """Puts to rest what has nothing new."""
        self._ask_rights()
        for position in self.core.due:
            if slices.used_up:
                await slices.next()
            self._look(key_of(position))

    def settle_now(self) -> None:
        """The same at once, for few partitions."""
        for position in self.core.due:
            self._look(key_of(position))

    def _look(self, key: Key) -> None:
        """A look, and the rest that begins with it, are in one turn of the loop: no change is missed."""
        position = self.core.position(key)
        if position is None or is_unknown(position) or key in self._watches or self.closed:
            return  # a request that was overtaken looks too
        if not self._log.access.allowed(self._caller, READ_TOPIC, position.name.topic):
            return  # its refusal is in each answer
        fetched, arrived = self._log.reads.look(position)
        if self.core.rests(key, fetched, arrived=arrived):
            self._watches[key] = _Watch(self, key, self._log.replica(position.name))

    def _ask_rights(self) -> None:
        """After a change of ACLs, each partition is looked at: its refusal is news."""
        version = self._log.access.authorizer.version
        if version != self._rights:
            self._rights = version
            for key in tuple(self._watches):
                self._end_watch(key)
            self.core.wake_all()

    def woken(self, key: Key) -> None:
        """A watched replica has changed."""
        self._watches.pop(key, None)
        self.core.wake(key)
        self._announce()

    def _end_watch(self, key: Key) -> None:
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.end()

    # --- listeners ---------------------------------------------------------------------------

    def listen(self, listener: OnChange) -> None:
        """Calls the listener when something is due, and at the end."""
        self._listeners[listener] = None

    def unlisten(self, listener: OnChange) -> None:
        self._listeners.pop(listener, None)

    def _announce(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    # --- answers -----------------------------------------------------------------------------

    def told(
        self, found: list[tuple[FetchPartition, Fetched]], always: Container[TopicPartition]
    ) -> list[tuple[FetchPartition, Fetched]]:
        """What of this has to be in the answer, and what is always. From then on the client knows it."""
        return [
            (position, each)
            for position, each in found
            if self.core.tells(key_of(position), each) or position.name in always
        ]
