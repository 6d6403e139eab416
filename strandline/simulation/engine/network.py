"""The network between the simulated machines: latency, refusals, resets, and cuts in one direction or both.

A connection carries messages of many streams. Those of one stream in one direction arrive in order; those of
different streams overtake each other. A message that meets a cut is kept and arrives after the cut is healed,
as TCP sends it again, unless an end has given the connection up before: a client does so when it hears
nothing for about a second, a server much later.

A link may lose only answers: what a server sends is lost for good, while connections to it are made and
requests arrive. A connection that lost a message carries nothing more in that direction: it has a hole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log
from random import Random
from typing import Any, Final, Protocol

from strandline.simulation.engine.clocks import NS_PER_S
from strandline.simulation.engine.loop import WORLD, Process, SimulatedLoop
from strandline.simulation.engine.trace import Trace

CLIENT_SILENCE_S: Final = (0.5, 1.5)
"""After this time without an answer to its pings a client breaks a connection: between least and most."""
SERVER_SILENCE_S: Final = 20.0
RETRANSMISSION_S_MAX: Final = 0.2
"""How long after a healed cut the kept messages are sent again, at most."""


@dataclass(slots=True)
class Latency:
    """How long messages take, in seconds: at least `base_s`; the rest is drawn, `spread_s` on average."""

    base_s: float = 0.000_1
    spread_s: float = 0.000_2

    def draw(self, random: Random) -> float:
        return self.base_s - log(1.0 - random.random()) * self.spread_s  # an exponential distribution


class Acceptor(Protocol):
    """Listens at a port."""

    @property
    def process(self) -> Process: ...

    def accept(self, end: End) -> Server:
        """A client has connected; `end` is the server's."""
        ...


class Receiver(Protocol):
    """Handles the life of one end of a connection."""

    def broken(self, reason: str) -> None:
        """Nothing more arrives here, and nothing that is sent arrives there."""
        ...


class Server(Receiver, Protocol):
    """Serves the calls of one connection."""

    def begin(self, call: Any) -> None:
        """A call has arrived."""
        ...

    def cancel(self, stream: int) -> None:
        """The client has hung up a call."""
        ...


class End:
    """One end of a connection, which belongs to one process."""

    def __init__(self, connection: Connection, process: Process) -> None:
        self.connection = connection
        self.process = process
        self.host = process.host
        self.peer: End
        """The other end, once the connection is accepted."""
        self.open = True
        self.receiver: Receiver | None = None
        self._last_ns: dict[int, int] = {}
        """When the last message of each stream arrives at the peer."""
        self._kept: list[tuple[int, Callable[..., None], tuple[Any, ...]]] = []
        """Messages that met a cut, in order."""
        self.holed = False
        """A message of this end was lost, and so is every later one."""

    def send(self, stream: int, deliver: Callable[..., None], *args: Any) -> None:
        """Call `deliver` in the peer's process when the message arrives, if it ever does."""
        if self.open and self.process.alive:
            self._send(stream, deliver, args)

    def _send(
        self, stream: int, deliver: Callable[..., None], args: tuple[Any, ...], more_s: float = 0.0
    ) -> None:
        network, peer = self.connection.network, self.peer
        if self.holed or (network.impaired and network.loses(self)):
            self._lose_one()
            return
        if self._kept or (network.impaired and network.is_cut(self.host, peer.host)):
            self._kept.append((stream, deliver, args))
            return
        # Most messages of a run come here: `Network.latency` is written out for the usual case.
        usual = network.default_latency
        if network.latencies:
            more_s += network.latency(self.host, peer.host)
        else:
            more_s += usual.base_s - log(1.0 - network.random.random()) * usual.spread_s
        at_ns = network.loop.now_ns() + int(more_s * NS_PER_S)
        last_ns = self._last_ns.get(stream, 0)
        if at_ns <= last_ns:
            at_ns = last_ns + 1
        self._last_ns[stream] = at_ns
        network.loop.call_at_ns(at_ns, peer._arrive, deliver, args, context=peer.process.context)

    def _lose_one(self) -> None:
        if not self.holed:
            self.holed = True
            self.connection.interrupted()

    def _arrive(self, deliver: Callable[..., None], args: tuple[Any, ...]) -> None:
        """Runs in this end's process."""
        if self.open:
            deliver(*args)

    def send_again(self) -> None:
        """Send what a cut has kept, unless it lasts."""
        if self.connection.network.is_cut(self.host, self.peer.host):
            return
        kept, self._kept = self._kept, []
        more_s = self.connection.network.random.uniform(0, RETRANSMISSION_S_MAX)
        for stream, deliver, args in kept:
            self._send(stream, deliver, args, more_s)

    def close(self, reason: str, *, abrupt: bool = False) -> None:
        """Hang up. The peer learns it after everything that was sent, or before some of it if `abrupt`."""
        if not self.open:
            return
        self.open = False
        self.connection.end_changed()
        self.hang_up(reason, abrupt=abrupt)

    def hang_up(self, reason: str, *, abrupt: bool) -> None:
        """Report the end of the connection to the peer."""
        last = {} if abrupt else self._last_ns
        self._last_ns = {0: max(last.values(), default=0)}
        self._send(0, self.peer.lose, (reason,))

    def lose(self, reason: str) -> None:
        """Runs in this end's process: the connection is gone."""
        if self.open:
            self.open = False
            self.connection.end_changed()
            if self.receiver is not None:
                self.receiver.broken(reason)

    def forget(self) -> None:
        """The machine of this end has no power: the peer hears nothing."""
        self.open = False
        self._kept.clear()
        self.connection.end_changed()


class Connection:
    """One connection, from a client's process to a server's."""

    def __init__(self, network: Network, number: int, silence_s: tuple[float, float] | None) -> None:
        self.network = network
        self.number = number
        self._silence_s = silence_s
        self.ends: tuple[End, End]
        """The client's and the server's."""
        self.server: Server
        self._silences = 0
        """Counts the interruptions: a limit that belongs to an earlier one does nothing."""

    @property
    def silent(self) -> bool:
        """Nothing gets through in one direction at least."""
        client, server = self.ends
        return (
            self.network.is_cut(client.host, server.host)
            or self.network.is_cut(server.host, client.host)
            or server.holed
            or any(end.process.paused or not end.process.alive for end in self.ends)
        )

    def interrupted(self) -> None:
        """Something keeps messages from passing: give the connection up unless that ends in time."""
        self._silences += 1
        if self._silence_s is not None:
            client, server = self.ends
            self._give_up_after(self.network.random.uniform(*self._silence_s), client)
            self._give_up_after(SERVER_SILENCE_S, server)

    def _give_up_after(self, seconds: float, end: End) -> None:
        if end.open:
            self.network.loop.call_later(
                seconds, self._give_up, self._silences, end, context=end.process.context
            )

    def _give_up(self, silence: int, end: End) -> None:
        if silence == self._silences and self.silent and end.open:
            end.lose("the peer does not answer")
            end.hang_up("the peer gave the connection up", abrupt=True)

    def passable(self) -> None:
        """An interruption is over, perhaps."""
        if not self.silent:
            self._silences += 1
        for end in self.ends:
            end.send_again()

    def end_changed(self) -> None:
        if not any(end.open for end in self.ends):
            self.network.connections.pop(self.number, None)


@dataclass(slots=True)
class _Attempt:
    """An attempt to connect."""

    end: End
    connected: Callable[[End], None]
    refused: Callable[[], None]
    given_up: bool = False


class Network:
    """All machines reach each other by their `host` unless something is cut."""

    def __init__(self, loop: SimulatedLoop, random: Random, trace: Trace) -> None:
        self.loop = loop
        self.random = random
        self.trace = trace
        self.connections: dict[int, Connection] = {}
        """Those with an open end, by number."""
        self.default_latency = Latency()
        self.latencies: dict[tuple[str, str], Latency] = {}
        """Of single directions, where they differ."""
        self._acceptors: dict[tuple[str, int], Acceptor] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._losing: set[tuple[str, str]] = set()
        """Servers' hosts whose answers to clients' hosts are lost."""
        self._dark: set[str] = set()
        """Hosts without power."""
        self.impaired = False
        """Something is cut, loses answers or is without power. Otherwise a message need not ask what is."""
        self._next_port = 9_000
        self._numbers = 0

    # --- latency and cuts --------------------------------------------------------------------

    def latency(self, source: str, target: str) -> float:
        """Seconds that the next message takes."""
        latency = self.latencies.get((source, target)) if self.latencies else None
        return (latency or self.default_latency).draw(self.random)

    def is_cut(self, source: str, target: str) -> bool:
        """True if nothing gets through from one host to the other."""
        return (source, target) in self._cuts or target in self._dark or source in self._dark

    def cut(self, source: str, target: str) -> None:
        """Let nothing through in this direction."""
        self._cuts.add((source, target))
        self._changed()
        self._interrupt(lambda ends: {source, target} == ends)

    def heal(self, source: str, target: str) -> None:
        self._cuts.discard((source, target))
        self._changed()
        self._restore()

    def loses(self, end: End) -> bool:
        """True if this end is a server's whose answers are lost now."""
        return (end.host, end.peer.host) in self._losing and end is end.connection.ends[1]

    def lose_answers(self, server: str, client: str) -> None:
        """Lose what servers of one host send to clients of the other. Those connect, and are heard."""
        self._losing.add((server, client))
        self._changed()

    def find_answers(self, server: str, client: str) -> None:
        """Lose nothing more. Connections that lost something stay as they are."""
        self._losing.discard((server, client))
        self._changed()

    def heal_all(self) -> None:
        self._cuts.clear()
        self._losing.clear()
        self._changed()
        self._restore()

    def _changed(self) -> None:
        self.impaired = bool(self._cuts or self._dark or self._losing)

    def reset(self, connection: Connection) -> None:
        """Break a connection at both ends."""
        for end in connection.ends:
            self.loop.call_soon(end.lose, "connection reset", context=end.process.context)

    def _interrupt(self, concerns: Callable[[set[str]], bool]) -> None:
        for connection in list(self.connections.values()):
            if concerns({end.host for end in connection.ends}):
                connection.interrupted()

    def _restore(self) -> None:
        for connection in list(self.connections.values()):
            connection.passable()

    # --- processes ---------------------------------------------------------------------------

    def paused(self, process: Process) -> None:
        for connection in self._connections_of(process):
            connection.interrupted()

    def resumed(self, process: Process) -> None:
        for connection in self._connections_of(process):
            connection.passable()

    def killed(self, process: Process) -> None:
        """The system closes the sockets of a dead process."""
        self._stop_listening(process)
        for connection in self._connections_of(process):
            for end in connection.ends:
                if end.process is process and end.open:
                    end.close("connection reset by peer", abrupt=self.random.random() < 1 / 2)

    def power_lost(self, host: str, processes: list[Process]) -> None:
        """Peers hear nothing at all of this host from here on."""
        self._dark.add(host)
        self._changed()
        for process in processes:
            self._stop_listening(process)
            for connection in self._connections_of(process):
                connection.interrupted()
                for end in connection.ends:
                    if end.process is process:
                        end.forget()

    def power_returned(self, host: str) -> None:
        """The host answers again: that it knows none of the old connections."""
        self._dark.discard(host)
        self._changed()
        for connection in list(self.connections.values()):
            for end in connection.ends:
                if end.open and end.peer.host == host and not end.peer.process.alive:
                    after_s = self.random.uniform(*CLIENT_SILENCE_S)
                    self.loop.call_later(
                        after_s, end.lose, "connection reset by peer", context=end.process.context
                    )

    def has_power(self, host: str) -> bool:
        return host not in self._dark

    def _connections_of(self, process: Process) -> list[Connection]:
        return [
            connection
            for connection in self.connections.values()
            if any(end.process is process for end in connection.ends)
        ]

    # --- listen and connect ------------------------------------------------------------------

    def listen(self, host: str, port: int, acceptor: Acceptor) -> int:
        """Returns the port, a free one for 0. Raises OSError if it is taken."""
        if port == 0:
            self._next_port += 1
            port = self._next_port
        if (host, port) in self._acceptors:
            raise OSError(f"{host}:{port} is in use")
        self._acceptors[host, port] = acceptor
        return port

    def stop_listening(self, host: str, port: int) -> None:
        self._acceptors.pop((host, port), None)

    def _stop_listening(self, process: Process) -> None:
        for address in [a for a, acceptor in self._acceptors.items() if acceptor.process is process]:
            del self._acceptors[address]

    def connect(
        self,
        process: Process,
        address: str,
        connected: Callable[[End], None],
        refused: Callable[[], None],
        *,
        silence_s: tuple[float, float] | None = CLIENT_SILENCE_S,
    ) -> Callable[[], None]:
        """Connect to `host:port`. Calls `connected` with the client's end, or `refused` if no process listens
        there, or neither of them while the host cannot be reached. Returns a function that gives up.

        An end gives the connection up after a silence, a client within `silence_s`; None: neither does.
        """
        host, _, port = address.rpartition(":")
        self._numbers += 1
        attempt = _Attempt(End(Connection(self, self._numbers, silence_s), process), connected, refused)
        if not self.is_cut(process.host, host):
            self.loop.call_later(
                self.latency(process.host, host), self._reached, attempt, host, int(port), context=WORLD
            )

        def give_up() -> None:
            attempt.given_up = True

        return give_up

    def _reached(self, attempt: _Attempt, host: str, port: int) -> None:
        acceptor = self._acceptors.get((host, port))
        if host in self._dark:
            return
        if acceptor is None:
            self._answer(attempt, host, attempt.refused)
        else:
            # The system accepts, but a client counts on the connection only once the process answers.
            self.loop.call_soon(self._accept, attempt, acceptor, context=acceptor.process.context)

    def _accept(self, attempt: _Attempt, acceptor: Acceptor) -> None:
        client = attempt.end
        connection, host = client.connection, acceptor.process.host
        if attempt.given_up or self.is_cut(host, client.host) or not client.process.alive:
            return
        server = client.peer = End(connection, acceptor.process)
        server.peer = client
        connection.ends = (client, server)
        self.connections[connection.number] = connection
        connection.server = server.receiver = acceptor.accept(server)
        self._answer(attempt, host, partial(self._connected, attempt))

    def _answer(self, attempt: _Attempt, host: str, answer: Callable[[], None]) -> None:
        client = attempt.end
        if not self.is_cut(host, client.host):
            self.loop.call_later(self.latency(host, client.host), answer, context=client.process.context)

    def _connected(self, attempt: _Attempt) -> None:
        if attempt.given_up:
            attempt.end.close("the attempt was given up")
        elif attempt.end.open:
            attempt.connected(attempt.end)
