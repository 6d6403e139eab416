"""One connection: frames in, answers out, in order.

A request that may not begin yet holds the connection: nothing behind it is read, so a client that sends and
does not wait costs one frame. No request begins while the client does not read its answers, or while it waits
for its quota; those of members of groups do even then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, cast

import structlog

from strandline.adapters.system.accepting.byte_server import caller_at
from strandline.adapters.telemetry.kafka_traffic import UNNAMED, KafkaTraffic
from strandline.adapters.tls.subject import shown_certificate
from strandline.broker.kafka.answer_order import AnswerOrder, Slot
from strandline.broker.kafka.call import Api, Call
from strandline.broker.kafka.connection_login import FRAME_BYTES_MAX, ConnectionLogin
from strandline.broker.kafka.frame_memory import FramePools
from strandline.broker.kafka.frames import Frames
from strandline.broker.kafka.hold import Hold
from strandline.broker.kafka.router import Arrived, Asked, Router
from strandline.broker.kafka.routing.introduction import Introduction
from strandline.broker.kafka.routing.unserved import UnservedRequest
from strandline.broker.kafka.wire.fields import MalformedRequest, Part
from strandline.errors import AuthenticationFailed, StrandlineError
from strandline.ports import Caller, Listener
from strandline.room import one_host
from strandline.security.quotas.bill import Bill, ClientQuotas
from strandline.security.quotas.model import Quota
from strandline.serving.charging import charged_time
from strandline.tasks import Slices
from strandline.turns import Turns

logger = structlog.get_logger(__name__)


class Shared(Protocol):
    """What all connections of one broker have in common."""

    router: Router
    memory: FramePools
    traffic: KafkaTraffic
    quotas: ClientQuotas
    request_bytes_max: int
    requests_in_flight_max: int

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def slices(self) -> Slices:
        """For the writing of a large answer."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...

    def has_logins(self, listener: Listener) -> bool:
        """Whether the clients of this port have to log in."""
        ...

    def opened(self, connection: KafkaConnection) -> bool:
        """False: there are too many, and this one is closed."""
        ...

    def closed(self, connection: KafkaConnection) -> None: ...

    def with_certificate(self, caller: Caller, certificate: bytes) -> Caller:
        """The caller with the principal of its certificate. Raises AuthenticationFailed."""
        ...

    def calling(self, caller: Caller, api: str, request_id: int) -> Caller:
        """The caller of one request."""
        ...

    def answered(self, request: str, seconds: float) -> None: ...

    def malformed(self, error: MalformedRequest, peer: str) -> None: ...


class KafkaConnection(asyncio.BufferedProtocol):
    """The protocol that a transport drives. All methods run on the event loop."""

    def __init__(self, shared: Shared, listener: Listener) -> None:
        self._shared = shared
        self.listener = listener
        self._login = ConnectionLogin(shared.now()) if shared.has_logins(listener) else None
        self._frames = Frames(shared.request_bytes_max if self._login is None else FRAME_BYTES_MAX)
        self._pool = shared.memory.small
        self._memory = 0
        """Bytes of the pool for the frame that is arriving, or the request that may not begin yet."""
        self._order = AnswerOrder()
        self._waiting: Arrived | Introduction | None = None
        """The request that may not begin yet."""
        self._reads: set[asyncio.Task[None]] = set()
        """Tasks of requests that end with the connection: they change nothing, or wait for its member."""
        self._end_wait: Callable[[], None] | None = None
        """Ends the wait of the request that waits without a task."""
        self._hold = Hold(self._advance)
        self._transport: asyncio.Transport | None = None
        self._caller = Caller("", "", listener)
        self._software: str | None = None
        """The client's own name for itself, as metrics have it; None until it has given one."""
        self._writable = asyncio.Event()
        self._writable.set()
        self._flush_due = False
        self._wants_memory = False
        self.active_at = shared.now()
        """When the last whole frame arrived, or the last answer left."""
        self.frame_since: float | None = None
        """When the frame that is arriving began."""
        self.unread_since: float | None = None
        """Since when the client has left too many bytes of its answers unread."""
        self._unread_bytes = 0
        self._read_at = 0.0
        """When the client was last seen to have read some of these bytes."""

    # --- the transport -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's has the methods, and another base
        self._transport = transport
        self._caller = caller_at(transport, "kafka", self.listener)
        certificate = shown_certificate(transport)
        try:
            if certificate is not None and self._login is None:
                self._caller = self._shared.with_certificate(self._caller, certificate)
        except AuthenticationFailed as error:
            logger.warning("a certificate gives no principal", peer=self._client, reason=error.message)
            transport.abort()
            return
        if not self._shared.opened(self):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drops what only an answer would be for. Changes that arrived whole are still made: a client may
        send batches with acks=0, or leave its group, and hang up."""
        self._transport = None
        if self._wants_memory:
            self._pool.withdraw(self.client_host, self._memory_granted)
            self._wants_memory = False
        self._release_memory()
        if self._end_wait is not None:
            self._end_wait()
            self._end_wait = None
        self._hold.end()
        for task in tuple(self._reads):
            task.cancel()
        self._writable.set()
        self._shared.closed(self)

    def pause_writing(self) -> None:
        assert self._transport is not None
        self.unread_since = self._read_at = self._shared.now()
        self._unread_bytes = self._transport.get_write_buffer_size()
        self._writable.clear()

    def resume_writing(self) -> None:
        self.unread_since = None
        self._writable.set()
        self._advance()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        if not self._open:
            return
        self._shared.traffic.bytes_in += nbytes
        if self.frame_since is None:
            self.frame_since = self._shared.now()
        try:
            frame = self._frames.filled(nbytes)
            if frame is not None:
                self.frame_since, self.active_at = None, self._shared.now()
                self._take(frame)
            elif growth := self._frames.growth:
                self._grow(growth)
        except MalformedRequest as error:
            self._refuse(error)

    def eof_received(self) -> bool:
        return False  # the transport closes: an answer would have no reader

    @property
    def _client(self) -> str:
        """For the log."""
        return f"{self._caller.connection} {self._caller.client_id}".strip()

    @property
    def has_login(self) -> bool:
        """Whether the client has to log in."""
        return self._login is not None

    @property
    def client_host(self) -> str:
        """What bounds for one address count it as."""
        return one_host(self._caller.host)

    # --- memory of the arriving frame --------------------------------------------------------

    def _grow(self, growth: int) -> None:
        self._pool = self._shared.memory.of(self._frames.size)
        if self._pool.take(self.client_host, growth):
            self._memory += growth
            return
        self._wants_memory = True
        self._pool.wait(self.client_host, growth, self._memory_granted)
        self._pace()

    def _memory_granted(self) -> None:
        self._memory += self._frames.growth
        self._wants_memory = False
        self._pace()

    def _release_memory(self) -> None:
        if self._memory:
            self._pool.give_back(self.client_host, self._memory)
            self._memory = 0

    # --- requests ----------------------------------------------------------------------------

    def _take(self, frame: bytearray) -> None:
        began = self._shared.now()
        try:
            self._waiting = self._read(frame)
        finally:  # what is malformed has cost the time too
            bill = self._bill()
            if bill is not None:
                bill.charge(Quota.REQUEST_PERCENTAGE, self._shared.now() - began)
        self._advance()

    def _read(self, frame: bytearray) -> Arrived | Introduction:
        router, bare = self._shared.router, self._login is not None and self._login.bare
        arrived = router.read_bare(frame) if bare else router.read(frame, self._permits)
        client_id = arrived.asked.header.client_id if isinstance(arrived, Arrived) else self._caller.client_id
        if client_id != self._caller.client_id:
            self._caller = replace(self._caller, client_id=client_id)
        return arrived

    def _permits(self, api: int) -> bool:
        return self._login is None or self._login.permits(api, self._shared.now())

    def _advance(self) -> None:
        """Begins the waiting request if it may begin, and reads on if there is none."""
        if self._open and self._waiting is not None and self._may_begin(self._waiting):
            arrived, self._waiting = self._waiting, None
            self._begin(arrived)
        self._pace()

    def _may_begin(self, arrived: Arrived | Introduction) -> bool:
        api = arrived.asked.api if isinstance(arrived, Arrived) else None
        parallel = api is not None and api.begin is not None
        if not (self._writable.is_set() and self._order.may_begin(parallel=parallel)):
            return False
        return api is None or api.urgent or not (self._hold.active or self._owes(api))

    def _begin(self, arrived: Arrived | Introduction) -> None:
        if isinstance(arrived, Introduction):
            self._release_memory()
            self._introduce(arrived)
            return
        asked, api = arrived.asked, arrived.asked.api
        self._shared.traffic.requests[api.wire.name, asked.header.version] += 1
        caller = self._shared.calling(self._caller, api.wire.name, asked.header.correlation_id)
        bill = self._shared.quotas.of(caller)
        call = Call(asked.header, caller, self._login, bill)
        began = self._shared.now()
        if api.begin is not None:
            slot = self._order.begin(parallel=True)
            if api.begin(arrived.value, call, partial(self._answer, slot, asked, bill, began)):
                self._release_memory()
                if bill is not None:
                    bill.charge(Quota.REQUEST_PERCENTAGE, self._shared.now() - began)
                    self._hold.begin(bill)
                return
            slot.parallel = False  # those behind it have to wait
            call = replace(call, begun=partial(self._begun, slot))
        else:
            slot = self._order.begin(parallel=False)
            if api.wait is not None:
                ended = partial(self._waited, slot, arrived, call, began)
                self._end_wait = api.wait(arrived.value, call, ended)
                if self._end_wait is not None:
                    self._release_memory()
                    return
        self._start(slot, arrived, call, began)

    def _start(self, slot: Slot, arrived: Arrived, call: Call, began: float) -> None:
        """Has a task handle the request."""
        api = arrived.asked.api
        if call.bill is None:
            work = self._handle(slot, arrived, call, began)
        else:
            work = self._measured(slot, arrived, call, began, call.bill)
        task = self._shared.spawn(work)
        pool, held, self._memory = self._pool, self._memory, 0
        task.add_done_callback(lambda _: pool.give_back(self.client_host, held))
        if not api.changes:
            self._reads.add(task)
            task.add_done_callback(self._reads.discard)

    def _begun(self, slot: Slot) -> None:
        slot.parallel = True
        asyncio.get_running_loop().call_soon(self._advance)

    def _introduce(self, arrived: Introduction) -> None:
        client = arrived.client
        if arrived.unserved is not None:
            self._count_unserved(arrived.unserved)
        self._shared.traffic.requests["ApiVersions", arrived.version] += 1
        if client.software_name and self._software is None:
            self._software = self._shared.traffic.introduced(client.software_name, client.software_version)
            logger.debug(
                "kafka client",
                peer=self._caller.connection,
                client_id=arrived.header.client_id,
                software=f"{client.software_name} {client.software_version}",
            )
        self._order.begin(parallel=False).parts = arrived.parts
        self._flush_soon()

    async def _handle(
        self, slot: Slot, arrived: Arrived, call: Call, began: float, turns: Turns | None = None
    ) -> None:
        async def reply(value: Any) -> None:
            if call.bill is not None and turns is not None:
                call.bill.charge(Quota.REQUEST_PERCENTAGE, turns.taken_s())
            throttle_ms = self._hold.begin(call.bill)
            parts = await arrived.asked.answer_in_slices(value, self._shared.slices(), throttle_ms)
            self._finish(slot, arrived.asked, began, parts)
            self._logged_in()
            self._flush()
            self._end_if_refused()
            await self._writable.wait()

        try:
            await arrived.asked.api.handle(arrived.value, call, reply)
        except StrandlineError as error:
            asked = arrived.asked
            self._shared.traffic.failed(
                asked.api.wire.name, asked.header.version, self._client, error.message
            )
            self.close()
            return
        if slot.parts is None:  # it gets no answer
            self._finish(slot, arrived.asked, began, ())
            self._flush()

    def _logged_in(self) -> None:
        """Takes the name that a login has just proved."""
        login = self._login
        if login is not None and login.principal is not None and not self._caller.mechanism:
            self._caller = replace(self._caller, principal=login.principal, mechanism=login.mechanism)
            self._frames.bytes_max = self._shared.request_bytes_max

    def _end_if_refused(self) -> None:
        if self._login is not None and self._login.failed:
            self.close()

    # --- answers -----------------------------------------------------------------------------

    def _waited(self, slot: Slot, arrived: Arrived, call: Call, began: float, value: Any) -> None:
        """The request waits no longer: this is its answer, or None if a task has to make it."""
        self._end_wait = None
        if value is None and self._open:
            self._start(slot, arrived, call, began)
        elif value is not None:
            parts = arrived.asked.answer(value, self._hold.begin(call.bill))
            self._finish(slot, arrived.asked, began, parts)
            self._flush()

    def _answer(self, slot: Slot, asked: Asked, bill: Bill | None, began: float, value: Any) -> None:
        self._finish(slot, asked, began, asked.answer(value, self._hold.begin(bill)))
        self._flush_soon()

    def _finish(self, slot: Slot, asked: Asked, began: float, parts: Sequence[Part]) -> None:
        assert slot.parts is None, f"two answers to one request of {asked.api.wire.name}"
        slot.parts = parts
        self._shared.answered(asked.api.wire.name, self._shared.now() - began)

    def _flush_soon(self) -> None:
        """Answers that come in one turn of the loop leave together."""
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        leaving = self._order.take()
        if leaving and self._open:
            assert self._transport is not None
            self.active_at = self._shared.now()
            self._shared.traffic.bytes_out += sum(map(len, leaving))
            self._transport.writelines(leaving)
        self._advance()

    # --- quotas ------------------------------------------------------------------------------

    def _bill(self) -> Bill | None:
        """None: it has no quota to keep. A client that has not logged in has no name yet: what others without
        one have used keeps no client from logging in."""
        if self._login is not None and self._login.principal is None:
            return None
        return self._shared.quotas.of(self._caller)

    def _owes(self, api: Api[Any, Any]) -> bool:
        """Whether the client still has to pay for what it used before, on this connection or another one.
        Then its requests are held, and it is asked again."""
        bill = self._bill()
        if bill is None:
            return False
        for quota in (Quota.REQUEST_PERCENTAGE, *api.paid_before):
            bill.owed(quota)
        return self._hold.begin(bill) > 0

    async def _measured(self, slot: Slot, arrived: Arrived, call: Call, began: float, bill: Bill) -> None:
        """Charges the client for the time of the work."""
        turns = Turns(self._shared.now)
        try:
            await charged_time(self._handle(slot, arrived, call, began, turns), bill, turns)
        finally:
            self._hold.begin(bill)

    # --- pace and end ------------------------------------------------------------------------

    def _pace(self) -> None:
        """Reads while a request could begin."""
        if self._transport is None or self._transport.is_closing():
            return
        full = len(self._order) >= self._shared.requests_in_flight_max
        read = self._waiting is None and not full and not self._wants_memory
        if read and not self._transport.is_reading():
            self._transport.resume_reading()
        elif not read and self._transport.is_reading():
            self._transport.pause_reading()

    @property
    def _open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def overdue(self, now: float, *, idle_s: float, frame_s: float, write_s: float) -> bool:
        """True if the client has taken too long: to send the rest of a frame, to read any of its answers or
        all of them, or to ask for more."""
        if self.frame_since is not None and now - self.frame_since > frame_s:
            return True
        if self.unread_since is not None and self._transport is not None:
            left = self._transport.get_write_buffer_size()
            if left < self._unread_bytes:
                self._read_at = now
            self._unread_bytes = left
            return now - self._read_at > write_s or now - self.unread_since > idle_s
        if self._login is not None and self._login.overdue(now):
            return True
        ended = self._transport is not None and self._transport.is_closing()
        return (ended or not self.busy) and now - self.active_at > idle_s

    @property
    def busy(self) -> bool:
        """True while a request is unanswered."""
        return len(self._order) > 0 or self._waiting is not None

    def _refuse(self, error: MalformedRequest) -> None:
        self._release_memory()
        if isinstance(error, UnservedRequest):
            self._count_unserved(error)
        else:
            self._shared.malformed(error, self._client)
        self.close()

    def _count_unserved(self, error: UnservedRequest) -> None:
        software = UNNAMED if self._software is None else self._software
        self._shared.traffic.unserved(error.request, software, self._client, error.message)

    def close(self) -> None:
        """Ends the connection. Answers that the transport has taken still leave, if the client reads them."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once, with answers that the client has not read."""
        if self._transport is not None:
            self._transport.abort()
