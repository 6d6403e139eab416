"""Everything that connects a process to the outside, as one value of ports.

Clients take a `Host`. A broker and a controller take a `ServiceHost`, which can listen, open ZooKeeper
sessions and end the process. `strandline.adapters.system_host` and `strandline.adapters.service_host` make
those of this machine. On another host the same code runs in memory, or on virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from ssl import SSLContext
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar

from strandline.config.services.listener import ListenerSettings
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError, StrandlineError
from strandline.ports import (
    BlockingTransport,
    Caller,
    Clock,
    Coordination,
    Files,
    Method,
    Request,
    Response,
    Served,
    Stream,
    Transport,
)
from strandline.vocabulary.metadata import Endpoint

P = ParamSpec("P")
T = TypeVar("T")

ShownKey = Callable[[], bytes | None]
"""Returns the key of the cluster's members that the next call shows; None: it shows none."""


class Threads(Protocol):
    """Runs functions that block."""

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls `function` off the event loop and returns its result. It sees the caller's context variables.

        A caller that is cancelled does not stop the function, which runs to its end.
        """
        ...


@dataclass(frozen=True)
class Host:
    """The host of a client. It is also the base of a service's host."""

    clock: Clock
    files: Files
    threads: Threads
    new_id: Callable[[], str]
    """Returns an identifier that no other call anywhere returns, and that cannot be guessed: 32 hexadecimal
    digits."""
    random: Random
    """The source of jitter in pauses, and of producer ids, which must not be guessed either."""
    transport: Callable[[ShownKey | None], Transport]
    """Returns a transport with connections of its own; the caller closes it. None: its calls show no key."""
    blocking_transport: Callable[[], BlockingTransport] | None = field(default=None, kw_only=True)
    """Returns a transport for a thread of the caller, which closes it. None: this host has one thread."""
    heard_of: Callable[[Endpoint], None] = field(default=lambda _: None, kw_only=True)
    """Takes a member's address as ZooKeeper has it now, before this process connects to it."""


# --- services -------------------------------------------------------------------------------


class CoordinationSession(Coordination, Protocol):
    """A ZooKeeper session, with the operations of its owner."""

    @property
    def watch_count(self) -> int:
        """The most watches that ZooKeeper may hold for this session."""
        ...

    @property
    def unanswered_s(self) -> float:
        """How long the oldest request that has no answer waits for it; 0 without one."""
        ...

    @property
    def requests(self) -> Mapping[str, tuple[int, int]]:
        """By kind: how many requests were sent in this session, and the operations in them. It shows later
        ones too."""
        ...

    async def close(self) -> None:
        """Ends the session at once. Its ephemerals are deleted now if ZooKeeper can be reached."""
        ...

    def close_now(self) -> None:
        """As `close`, for a process that exits while its loop is blocked: it may block for a second."""
        ...


class CallerLogins(Protocol):
    """Knows the callers of ports whose protocol has logins."""

    @property
    def calls(self) -> Sequence[Served]:
        """Those by which callers log in."""
        ...

    def admit(self, caller: Caller, session: str | None) -> Caller:
        """The caller with its name, by the session that its call shows. Raises IllegalSaslState if it has to
        log in first, AuthenticationFailed if its session has ended, BrokerNotAvailable."""
        ...


class ServiceListener(Protocol):
    """Serves calls at the addresses of one broker or controller. Nothing is served before `start`."""

    serving: bool
    """The health that `set_health` published last; False before."""

    def bind(self, member: int, rack: str = "") -> Endpoint:
        """Listens. Returns the address at which others reach this member. Raises SettingsError."""
        ...

    async def start(
        self,
        served: Sequence[Served],
        *,
        internal: Sequence[Served] = (),
        logins: CallerLogins | None = None,
    ) -> None:
        """Serves these calls; those of `internal` only at the address for the cluster's members. `logins` are
        needed by ports with logins."""
        ...

    async def set_health(self, *, serving: bool) -> None:
        """Publishes whether the services are ready."""
        ...

    async def stop(self, grace_s: float | None = None) -> None:
        """Takes no more calls. Calls in progress have this time to end, and are cancelled then."""
        ...


class Listen(Protocol):
    """Makes the listener of one process."""

    def __call__(
        self,
        settings: ListenerSettings,
        services: Sequence[str],
        *,
        on_answered: Callable[[str, float], None],
        on_refused: Callable[[StrandlineError, str], None],
    ) -> ServiceListener:
        """`services` have the same health. `on_answered` gets the name of a call that has one request and one
        answer, and its duration in milliseconds; `on_refused` an error with which a call was refused, and
        the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Arrival:
    """What becomes of a connection that has arrived."""

    counted: AbstractContextManager[None]
    """Counts it until it is served or closed."""
    wait_s: float = 0.0
    """How long it waits first, seconds."""
    served: bool = True
    """False: it is closed then."""


OnArrival = Callable[[str], Arrival | None]
"""Takes the address of a connection. None: it is closed at once."""


class BytesServer(Protocol):
    """A bound port for streams of bytes. Clients may connect at once; they are served from `serve` on."""

    @property
    def port(self) -> int: ...

    @property
    def connections_max(self) -> int:
        """The connections that this process has descriptors for, over all its ports of this kind."""
        ...

    async def serve(
        self,
        protocol: Callable[[], asyncio.BufferedProtocol],
        tasks: asyncio.TaskGroup,
        on_arrival: OnArrival,
    ) -> None:
        """Makes a protocol for each connection that `on_arrival` lets in, once it has waited and is
        encrypted, and drives it as asyncio does. `tasks` runs the waits and the handshakes."""
        ...

    def close(self) -> None:
        """Takes no more connections. Those that there are stay open."""
        ...


class ListenBytes(Protocol):
    """Binds a port for streams of bytes."""

    def __call__(self, setting: str, host: str, port: int) -> BytesServer:
        """`setting` names the port in errors; port 0: any free one. Raises SettingsError."""
        ...


class MemberStreams(Protocol):
    """Opens streams of frames to other members of the cluster."""

    async def __call__(
        self,
        member: Endpoint,
        method: Method[Request, Response],
        key: bytes | None,
        *,
        timeout_s: float,
    ) -> Stream[Request, Response]:
        """A stream on a connection of its own, to the member's `replication` address, which shows this key.

        Raises BrokerNotAvailable if it is not open within the time, and the error with which it is refused.
        """
        ...


class ProbeResult(Enum):
    """The result of a probe."""

    ALIVE = "alive"
    """The process answered."""
    GONE = "gone"
    """Its host refuses connections to the port."""
    NOTHING = "nothing"
    """Neither: the process or the network hangs, or this host cannot connect. The session decides."""


class Certificates(Protocol):
    """The certificates of a process, for those who look on."""

    failures: int
    """How often files were put in place that could not be used."""

    def warn_unless_named(self, setting: str, host: str) -> None:
        """Logs that peers will refuse this process under a host name that its certificate does not have."""
        ...

    def expires_in_s(self) -> float | None:
        """Seconds until its own certificate expires, negative once it has; None: it has none."""
        ...


class FailFast(Protocol):
    """Ends the process at its first defect."""

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handles every defect of this process on its event loop, and of its threads."""
        ...

    def end(self, error: BaseException, where: str) -> NoReturn:
        """Logs, leaves the cluster, and exits."""
        ...


@dataclass(frozen=True)
class ServiceHost(Host):
    """The host of a broker or a controller."""

    listen: Listen
    connect_coordination: Callable[
        [ZooKeeperSettings, Callable[[float], None]], Coroutine[Any, Any, CoordinationSession]
    ]
    """Begins a session, and waits for ZooKeeper without a limit. Calls the function about once a second with
    the seconds waited. Raises SettingsError for a malformed address."""
    probe: Callable[[Endpoint, float], Coroutine[Any, Any, ProbeResult]]
    """Probes an address for at most a time in seconds. Never raises."""
    stop_requested: asyncio.Event
    """Set when the process has to stop in good order."""
    fail_fast: Callable[[Callable[[], None]], FailFast]
    """Takes the function that closes the ZooKeeper session; it may block."""
    die: Callable[[], NoReturn]
    """Ends the process at once, as kill -9 does. Crash points use it."""
    listen_bytes: ListenBytes | None = field(default=None, kw_only=True)
    """None: this host has no streams of bytes; a setting that needs one is refused."""
    member_streams: MemberStreams | None = field(default=None, kw_only=True)
    """None: this host opens none; followers use its transport."""
    metrics_tls: SSLContext | None = field(default=None, kw_only=True)
    """How the port for metrics is encrypted; None: it is not."""
    certificates: Certificates | None = field(default=None, kw_only=True)
    """None: no port has SSL."""

    def bind_bytes(self, settings: ListenerSettings, setting: str, port: int) -> BytesServer:
        """Binds a port for streams of bytes, which `setting` names. Raises SettingsError."""
        if self.listen_bytes is None:
            raise SettingsError(f"setting {setting} = {port}: this host has no byte streams; leave it out")
        return self.listen_bytes(setting, settings.host, port)
