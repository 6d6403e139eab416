"""A ZooKeeper ensemble: one log of transactions, and servers that apply it, each with its own delay.

A write is ordered by the leader and committed once a majority has it. A read is answered by the server to
which its session is connected, from the znodes as they are there: it may miss what others have committed,
until the session asks for `sync`. The requests of one session are answered in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from strandline.errors import CoordinationError
from strandline.ports import Check
from strandline.simulation.engine.clocks import NS_PER_S, MachineClock
from strandline.simulation.engine.loop import WORLD, Process
from strandline.simulation.engine.network import End, Latency, Network
from strandline.simulation.engine.zookeeper.requests import Client, Request
from strandline.simulation.engine.zookeeper.znode_tree import ZnodeTree

PORT: Final = 2181
TICK_S: Final = 0.5
"""Sessions are looked at once in this time: so they end a little late."""
ELECTION_S: Final = (0.2, 1.5)
"""How long there is no leader after one was lost: between least and most."""
NOTICE_S: Final = (0.3, 2.0)
"""After this time a server without the others stops serving: between least and most."""
COMMIT: Final = Latency(0.000_3, 0.000_7)
"""From a proposal to its acceptance by a majority."""
LAG: Final = Latency(0.000_1, 0.000_4)
"""From a commit to its application at a follower."""


@dataclass(slots=True, eq=False)
class _Session:
    """A session, as the leader knows it."""

    id: int
    password: bytes
    timeout_s: float
    heard_ns: int
    link: Link
    """The connection that may speak in its name."""
    begun_ns: int
    ended: bool = False


@dataclass(slots=True, eq=False)
class _Entry:
    """A transaction."""

    session: _Session
    request: Request
    link: Link | None
    """From where it came; None: the leader ends the session."""
    begins: bool = False
    """It begins the session."""
    zxid: int = 0

    @property
    def changes(self) -> bool:
        """It begins or ends a session, or writes."""
        operations = self.request.operations
        return self.begins or self.request.ends_session or any(not isinstance(o, Check) for o in operations)


class Link:
    """The server's end of one client's connection. Fulfils `network.Server`."""

    def __init__(self, server: ZooServer, end: End) -> None:
        self.server = server
        self.end = end
        self.client: Client
        self.session: _Session | None = None
        self._queue: deque[Request] = deque()

    # --- what the client sends ---------------------------------------------------------------

    def hello(self, client: Client, session: int, password: bytes, timeout_s: float, zxid: int) -> None:
        """The first message: begin a session, or resume one. `zxid` is the newest that the client knows."""
        self.client = client
        self.server.greet(self, session, password, timeout_s, zxid)

    def knock(self, client: Client) -> None:
        """Asks whether the server answers at all, without a session."""
        self.end.send(1, client.knocked)

    def take(self, request: Request) -> None:
        if self.session is None:
            return
        self.server.heard(self.session)
        self._queue.append(request)
        if request.read is None:
            self.server.forward(_Entry(self.session, request, self))
        self.answer()

    def ping(self) -> None:
        if self.session is not None:
            self.server.heard(self.session)
            self.end.send(1, self.client.pong)

    def begin(self, call: object) -> None:
        raise AssertionError("ZooKeeper serves no calls")

    def cancel(self, stream: int) -> None:
        raise AssertionError("ZooKeeper serves no calls")

    def broken(self, reason: str) -> None:
        self.server.left(self)

    # --- what the server answers -------------------------------------------------------------

    def answer(self) -> None:
        """Answer what can be answered now, in the order of the requests."""
        while self._queue and (self._queue[0].done or self._queue[0].read is not None):
            request = self._queue.popleft()
            if request.read is not None:
                try:
                    request.answer = request.read(self.server.tree)
                    if request.watch is not None:
                        self.server.watch(request.watch, self)
                except CoordinationError as error:
                    request.error = error
            self.end.send(1, self.client.answered, request, self.server.zxid)

    def close(self, reason: str) -> None:
        self.end.close(reason)
        self.server.left(self)


class ZooServer:
    """One server. Fulfils `network.Acceptor`."""

    def __init__(self, ensemble: Ensemble, process: Process) -> None:
        self.process = process
        self.tree = ZnodeTree()
        self.zxid = 0
        """The last transaction that is applied here."""
        self.linked = True
        """It is in touch with the leader."""
        self.serving = True
        self._lost_writes = False
        """A write came while there was no touch with the leader: it never gets an answer."""
        self._ensemble = ensemble
        self._applied = 0
        self._due_ns = 0
        self._links: dict[Link, None] = {}
        self._watches: dict[str, dict[Link, None]] = {}

    @property
    def sessions(self) -> list[int]:
        """The ids of the sessions that are connected here."""
        return [link.session.id for link in self._links if link.session is not None]

    def accept(self, end: End) -> Link:
        link = Link(self, end)
        self._links[link] = None
        return link

    def left(self, link: Link) -> None:
        self._links.pop(link, None)
        for links in self._watches.values():
            links.pop(link, None)

    def greet(self, link: Link, session: int, password: bytes, timeout_s: float, zxid: int) -> None:
        if not (self.serving and self.linked and self._ensemble.leader) or zxid > self.zxid:
            link.close("this server cannot serve the session")
            return
        if session == 0:
            self.forward(self._ensemble.new_session(link, timeout_s))
            return
        known = self._ensemble.resume(session, password, link)
        if known is None:
            link.end.send(1, link.client.expired)
            link.close("the session has expired")
        else:
            link.session = known
            link.end.send(1, link.client.welcomed, known.id, known.password, known.timeout_s)

    def heard(self, session: _Session) -> None:
        if self.linked:
            session.heard_ns = self._ensemble.network.loop.now_ns()

    def watch(self, path: str, link: Link) -> None:
        self._watches.setdefault(path, {})[link] = None

    def forward(self, entry: _Entry) -> None:
        """Send a write to the leader."""
        if self.linked:
            self._ensemble.propose(entry)
        else:
            self._lost_writes = True

    # --- apply -------------------------------------------------------------------------------

    def committed(self, count: int, after_s: float) -> None:
        """The log has this many transactions: apply them a little later."""
        loop = self._ensemble.network.loop
        self._due_ns = max(loop.now_ns() + int(after_s * NS_PER_S), self._due_ns + 1)
        loop.call_at_ns(self._due_ns, self.apply, count, context=self.process.context)

    def apply(self, count: int) -> None:
        """Apply the log's first `count` transactions, as far as that was not done yet."""
        if not self.linked:
            return
        while self._applied < count:
            entry = self._ensemble.log[self._applied]
            self._applied += 1
            self._apply(entry)

    def _apply(self, entry: _Entry) -> None:
        request, error = entry.request, None
        answer: object = None
        self.zxid = entry.zxid
        try:
            if request.ends_session:
                self.tree.end_session(entry.session.id, entry.zxid)
            elif request.multi:
                answer = self.tree.apply_all(request.operations, entry.session.id, entry.zxid)
            elif request.operations:
                [operation] = request.operations
                answer = self.tree.apply(operation, entry.session.id, entry.zxid)
        except CoordinationError as refused:
            error = refused
        self._tell_watchers()
        held = entry.session.link
        if request.ends_session and entry.link is None and held.server is self and held.end.open:
            held.close("the session has expired")  # while this server was isolated
            return
        link = entry.link
        if link is None or link.server is not self or not link.end.open:
            return
        if entry.begins:
            link.session = entry.session
            session = entry.session
            link.end.send(1, link.client.welcomed, session.id, session.password, session.timeout_s)
            return
        if request.ends_session:
            link.close("the session has ended")
            return
        request.done, request.answer, request.error = True, answer, error
        link.answer()

    def _tell_watchers(self) -> None:
        touched, self.tree.touched = self.tree.touched, []
        for path in dict.fromkeys(touched):
            for link in self._watches.pop(path, ()):
                link.end.send(1, link.client.event, path)

    # --- faults ------------------------------------------------------------------------------

    def drop_clients(self, reason: str) -> None:
        self._lost_writes = False
        for link in list(self._links):
            link.close(reason)

    def rejoin(self, count: int) -> None:
        """It is in touch with the leader again, whose log has this many transactions."""
        self.linked = self.serving = True
        self.apply(count)
        if self._lost_writes:
            self.drop_clients("this server has lost writes")

    def stop_serving(self) -> None:
        """It has noticed that it is alone."""
        if not self.linked:
            self.serving = False
            self.drop_clients("this server has lost its quorum")


class Ensemble:
    """All servers, the log, and the sessions."""

    def __init__(self, network: Network, random: Random, hosts: Sequence[str]) -> None:
        self.network = network
        self.log: list[_Entry] = []
        self.leader = True
        """False: between two leaders nothing is committed."""
        self.commit_latency = COMMIT
        self.lag = LAG
        self.on_committed: list[Callable[[], None]] = []
        """Judges that look at each transaction as it is committed. They may change nothing."""
        self._awaited: dict[str, asyncio.Event] = {}
        """By host: who waits for a write of one of its processes."""
        self._random = random
        self._epoch = 1
        self._counter = 0
        self._proposals: deque[_Entry] = deque()
        self._commit_ns = 0
        self._elected_ns = 0
        self._sessions: dict[int, _Session] = {}
        self._last_session = 0x1_0000_0000
        self.servers = [ZooServer(self, Process(f"zookeeper {host}", host, MachineClock())) for host in hosts]
        for server in self.servers:
            network.listen(server.process.host, PORT, server)

    @property
    def address(self) -> str:
        """For the setting `zookeeper`."""
        return ",".join(f"{server.process.host}:{PORT}" for server in self.servers)

    # --- sessions ----------------------------------------------------------------------------

    @property
    def sessions(self) -> list[int]:
        """The ids of the living sessions."""
        return list(self._sessions)

    def holder(self, session: int) -> Process | None:
        """The process whose session it is; None if it has ended, or its end is under way."""
        known = self._sessions.get(session)
        if known is None or any(e.session is known and e.request.ends_session for e in self._proposals):
            return None
        return known.link.end.peer.process

    def unheard_s(self) -> Iterator[tuple[int, Process, float]]:
        """The living sessions with their owners, and for how long each owner has heard nothing, as far as one
        leader watched over its session."""
        for session in self._sessions.values():
            end = session.link.end
            since_ns = max(session.link.client.heard_ns, session.begun_ns, self._elected_ns)
            yield session.id, end.peer.process, (self.network.loop.now_ns() - since_ns) / NS_PER_S

    def new_session(self, link: Link, timeout_s: float) -> _Entry:
        self._last_session += 1
        password = self._random.randbytes(16)
        now_ns = self.network.loop.now_ns()
        session = _Session(self._last_session, password, timeout_s, now_ns, link, now_ns)
        self._sessions[session.id] = session
        self._watch_over(session, timeout_s)
        return _Entry(session, Request(), link, begins=True)

    def resume(self, session: int, password: bytes, link: Link) -> _Session | None:
        """The session, which moves to this connection; None if it has ended."""
        known = self._sessions.get(session)
        if known is None or known.ended or known.password != password:
            return None
        before, known.link = known.link, link
        if before.end.open:
            before.close("the session has moved")
        known.heard_ns = self.network.loop.now_ns()
        return known

    def _watch_over(self, session: _Session, after_s: float) -> None:
        ticks = int(after_s / TICK_S) + 1
        self.network.loop.call_later(ticks * TICK_S, self._look_at, session, context=WORLD)

    def _look_at(self, session: _Session) -> None:
        if session.ended:
            return
        silent_s = (self.network.loop.now_ns() - session.heard_ns) / NS_PER_S
        if not self.leader:
            self._watch_over(session, TICK_S)
        elif silent_s < session.timeout_s:
            self._watch_over(session, session.timeout_s - silent_s)
        else:
            self.propose(_Entry(session, Request(ends_session=True), None))
            self._watch_over(session, TICK_S)

    def expire(self, session: int) -> None:
        """End a session, as the leader does when it heard nothing of it."""
        self.propose(_Entry(self._sessions[session], Request(ends_session=True), None))

    # --- the log -----------------------------------------------------------------------------

    def propose(self, entry: _Entry) -> None:
        """Commit a transaction once a majority has it; never if the leader is lost before."""
        if not self.leader:
            return
        loop = self.network.loop
        after_ns = int(self.commit_latency.draw(self._random) * NS_PER_S)
        self._commit_ns = max(loop.now_ns() + after_ns, self._commit_ns + 1)
        self._proposals.append(entry)
        if entry.link is not None and entry.request.multi:
            awaited = self._awaited.pop(entry.link.end.peer.host, None)
            if awaited is not None:
                awaited.set()
        loop.call_at_ns(self._commit_ns, self._commit_next, self._epoch, context=WORLD)

    async def next_multi(self, host: str) -> None:
        """Return when a process of this host has asked for a `multi` that is not committed yet."""
        await self._awaited.setdefault(host, asyncio.Event()).wait()

    def _commit_next(self, epoch: int) -> None:
        if epoch == self._epoch and self._proposals:
            self._commit(self._proposals.popleft())

    def _commit(self, entry: _Entry) -> None:
        session = entry.session
        if session.ended or entry.link not in (None, session.link):
            return  # the session has ended, or moved to another connection
        self._counter += 1
        entry.zxid = self._epoch << 32 | self._counter
        self.log.append(entry)
        if entry.request.ends_session:
            session.ended = True
            del self._sessions[session.id]
        data = repr(entry.request.operations).encode()
        self.network.trace.note(f"commit {entry.zxid:x} {session.id:x}", data)
        for look in self.on_committed:
            look()
        for server in self.servers:
            if server.linked:
                server.committed(len(self.log), self.lag.draw(self._random))
        link = session.link
        if entry.link is None and link.end.open and link.server.linked:
            link.close("the session has expired")

    # --- faults ------------------------------------------------------------------------------

    def lose_leader(self) -> None:
        """Elect another. Of what the old one proposed, a first part survives; clients connect again."""
        if not self.leader:
            return
        self.leader = False
        for _ in range(self._random.randint(0, len(self._proposals))):
            self._commit(self._proposals.popleft())
        self._proposals.clear()
        self._epoch += 1
        self._counter = 0
        self.network.trace.note("zookeeper lost its leader")
        for server in self.servers:
            server.drop_clients("the quorum has no leader")
        self.network.loop.call_later(self._random.uniform(*ELECTION_S), self._elected, context=WORLD)

    def _elected(self) -> None:
        """All sessions get their whole timeout again."""
        self.leader = True
        self._elected_ns = self.network.loop.now_ns()
        for session in self._sessions.values():
            session.heard_ns = self.network.loop.now_ns()

    def others_write(self, count: int) -> None:
        """Applications that share ZooKeeper write to znodes of their own."""
        self._counter += count

    @property
    def idle_transactions(self) -> int:
        """How many of the newest transactions changed nothing."""
        kept = len(self.log)
        while kept and not self.log[kept - 1].changes:
            kept -= 1
        return len(self.log) - kept

    def set_back(self) -> None:
        """Restore all servers from a copy that lacks the newest transactions, as far as they changed nothing.
        Clients that have seen them are refused, until there are as many again."""
        epoch = self._epoch
        self.lose_leader()
        last = self.log[-1 - self.idle_transactions]
        self._epoch, self._counter = epoch, last.zxid & 0xFFFF_FFFF
        for server in self.servers:
            server.apply(len(self.log))
            server.zxid = last.zxid
        self.network.trace.note(f"zookeeper set back to {last.zxid:x}")

    def isolate(self, number: int) -> None:
        """Part a server from the others. It answers reads until it notices."""
        server = self.servers[number]
        server.linked = False
        self.network.trace.note(f"zookeeper {number} isolated")
        self.network.loop.call_later(
            self._random.uniform(*NOTICE_S), server.stop_serving, context=server.process.context
        )

    def rejoin(self, number: int) -> None:
        """The server is back, and has everything that was committed meanwhile."""
        self.servers[number].rejoin(len(self.log))
        self.network.trace.note(f"zookeeper {number} rejoined")
