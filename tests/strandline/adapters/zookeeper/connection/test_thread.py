"""The ground under kazoo's thread: what it promises to kazoo and to the event loop (DESIGN, 3 and 10)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from contextvars import Context
from pathlib import Path
from typing import TypeVarTuple

import pytest

from strandline.adapters.zookeeper.connection.server_socket import CONNECT_S_MAX, SILENCE_MAX, ServerSocket
from strandline.adapters.zookeeper.connection.thread import (
    CALLS_IN_A_ROW_MAX,
    Completion,
    Handler,
    LoopQueue,
    WakeUpCounter,
)
from strandline.adapters.zookeeper.connection.tls import ClientTls, shake_hands
from tests.hand_clock import HandClock
from tests.tls_files import Files, TestAuthority


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def ends(clock: HandClock) -> Iterator[tuple[ServerSocket, socket.socket]]:
    """A client's socket and the server's end of it."""
    ours, theirs = socket.socketpair()
    with closing(ServerSocket(ours, clock, print)) as client, theirs:
        client.setblocking(False)
        yield client, theirs


def greeting(timeout_ms: int) -> bytes:
    """The answer to a handshake: length, protocol version, timeout, session id, password."""
    body = (
        (0).to_bytes(4, "big")
        + timeout_ms.to_bytes(4, "big")
        + bytes(8)
        + (16).to_bytes(4, "big")
        + bytes(16)
    )
    return len(body).to_bytes(4, "big") + body


async def test_calls_from_threads_arrive_in_order_on_the_loop() -> None:
    """From several threads, each one's order is kept, and all runs on the loop's thread."""
    loop_queue = LoopQueue(asyncio.get_running_loop())
    arrived: list[tuple[int, int]] = []
    complete = asyncio.Event()
    here = threading.get_ident()

    def arrive(sender: int, number: int) -> None:
        assert threading.get_ident() == here
        arrived.append((sender, number))
        if len(arrived) == 4_000:
            complete.set()

    def send(sender: int) -> None:
        for number in range(1_000):
            loop_queue.put(arrive, sender, number)

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(10):
        await complete.wait()
    for sender in range(4):
        assert [number for who, number in arrived if who == sender] == list(range(1_000))


Args = TypeVarTuple("Args")


class CountingLoop(asyncio.SelectorEventLoop):
    wake_ups = 0

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        self.wake_ups += 1
        return super().call_soon_threadsafe(callback, *args, context=context)


def test_a_batch_costs_one_wake_up() -> None:
    """Calls that come before the loop wakes up share the wake-up: a thousand answers, one loop_queue."""
    loop = CountingLoop()
    with closing(loop):
        loop_queue = LoopQueue(loop)
        arrived: list[int] = []
        for number in range(1_000):
            loop_queue.put(arrived.append, number)
        loop_queue.put(loop.stop)
        loop.run_forever()
        assert arrived == list(range(1_000)) and loop.wake_ups == 1


async def test_many_answers_at_once_leave_turns_to_the_loop() -> None:
    """A thousand reads of a broker were answered together, and each woke a task that created a replica: the
    loop sent no heartbeat for more than a second."""
    loop_queue = LoopQueue(asyncio.get_running_loop())
    done: list[int] = []
    for number in range(4 * CALLS_IN_A_ROW_MAX):
        loop_queue.put(done.append, number)
    turns: list[int] = []
    while len(done) < 4 * CALLS_IN_A_ROW_MAX:
        await asyncio.sleep(0)
        turns.append(len(done))
    assert turns[-4:] == [n * CALLS_IN_A_ROW_MAX for n in (1, 2, 3, 4)]
    assert done == list(range(4 * CALLS_IN_A_ROW_MAX))


def test_a_closed_loop_is_not_called() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    LoopQueue(loop).put(print)


def test_the_first_outcome_of_a_completion_counts() -> None:
    """kazoo sets a second one when it is closed under a call."""
    completion = Completion()
    seen: list[object] = []
    completion.rawlink(lambda done: seen.append(done.value))
    completion.set(1)
    completion.set(2)
    completion.set_exception(OSError())
    completion.rawlink(lambda done: seen.append(done.get()))
    assert seen == [1, 1]


def test_a_failed_completion_raises_what_it_was_given() -> None:
    completion = Completion()
    completion.set_exception(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        completion.get()


def test_a_bell_counts_and_never_blocks() -> None:
    """kazoo's own socket pair blocks the caller, the event loop, once its buffer is full."""
    counter = WakeUpCounter()
    with closing(counter):
        for _ in range(100_000):
            assert counter.send(b"\0") == 1
        for _ in range(100_000):
            assert counter.recv(1) == b"\0"
        with pytest.raises(BlockingIOError):
            counter.recv(1)
    counter.close()


def test_reading_ahead_loses_and_reorders_nothing(ends: tuple[ServerSocket, socket.socket]) -> None:
    client, server = ends
    sent = bytes(range(256)) * 4
    server.sendall(sent)
    read = b""
    for size in (1, 4, 100, 0, 919):
        read += client.recv(size)
        assert client.pending() == len(sent) - len(read)
    assert read == sent
    server.close()
    assert client.recv(10) == b""
    assert client.pending() == 0


def test_the_granted_timeout_is_read_from_the_handshake(ends: tuple[ServerSocket, socket.socket]) -> None:
    """kazoo does not publish it, and the lease of a leader is computed from it (CORRECTNESS E1)."""
    client, server = ends
    assert client.granted_s == 0
    for byte in greeting(4_000):
        server.sendall(bytes([byte]))
        client.recv(1)
    assert client.granted_s == 4.0


def test_data_read_ahead_counts_as_readable(
    ends: tuple[ServerSocket, socket.socket], clock: HandClock
) -> None:
    client, server = ends
    handler = Handler(clock, None, print, 3.0)
    server.sendall(b"ab")
    assert handler.select([client], [], [], 10) == ([client], [], [])
    assert client.recv(1) == b"a"
    assert handler.select([client], [], [], 10) == ([client], [], [])
    assert client.recv(1) == b"b"
    assert handler.select([client], [], [], 0) == ([], [], [])


def test_a_bell_is_seen_beside_what_was_read_ahead(
    ends: tuple[ServerSocket, socket.socket], clock: HandClock
) -> None:
    """Else answers would hold back the requests that wait to be sent."""
    client, server = ends
    counter = WakeUpCounter()
    with closing(counter):
        server.sendall(b"ab")
        client.recv(1)
        counter.send(b"\0")
        assert Handler(clock, None, print, 3.0).select([client, counter], [], [], 10) == (
            [client, counter],
            [],
            [],
        )


@pytest.mark.parametrize(
    ("handshake", "limit_s"),
    [(b"", CONNECT_S_MAX), (greeting(3_000), 3 * SILENCE_MAX), (greeting(500), 0.45)],
    ids=["before the handshake", "3 s session", "0.5 s session"],
)
def test_silence_is_measured_from_the_last_received_message(
    ends: tuple[ServerSocket, socket.socket], clock: HandClock, handshake: bytes, limit_s: float
) -> None:
    """The client gives up a hanging server before the session could expire, even while it sends (E1)."""
    client, server = ends
    handler = Handler(clock, None, print, 3.0)
    if handshake:
        server.sendall(handshake)
        client.recv(len(handshake))
    clock.now_s += limit_s - 0.01
    assert handler.select([client], [], [], 0) == ([], [], [])
    clock.now_s += 0.02
    with pytest.raises(TimeoutError):
        handler.select([client], [], [], 0)


def test_a_process_that_slept_does_not_blame_the_server(
    ends: tuple[ServerSocket, socket.socket], clock: HandClock
) -> None:
    """After a long stop of ours the answers may lie in the socket: those are read first."""
    client, server = ends
    server.sendall(greeting(1_000))
    clock.now_s += 60
    assert Handler(clock, None, print, 3.0).select([client], [], [], 10) == ([client], [], [])


def test_a_handler_that_refuses_never_connects_again(clock: HandClock) -> None:
    """The session is over: this client must not begin another (CORRECTNESS E10)."""
    handler = Handler(clock, None, print, 3.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        handler.create_connection(address, timeout=1).close()
        handler.refuse()
        with pytest.raises(ConnectionAbortedError):
            handler.create_connection(address, timeout=1)


def test_to_sever_wakes_the_thread_that_reads(clock: HandClock) -> None:
    handler = Handler(clock, None, print, 3.0)
    handler.sever()
    with socket.create_server(("127.0.0.1", 0)) as server:
        connected = handler.create_connection(server.getsockname(), timeout=1)
        with closing(connected):
            handler.sever()
            assert handler.select([connected], [], [], 10) == ([connected], [], [])
            assert connected.recv(1) == b""
        handler.sever()


def test_a_stopped_handler_does_not_sleep(clock: HandClock) -> None:
    """So that the end of a session waits for no back-off."""
    handler = Handler(clock, None, print, 3.0)
    handler.start()
    handler.stop()
    handler.sleep_func(3_600)


@pytest.fixture
def encrypted_ends(clock: HandClock, tmp_path: Path) -> Iterator[tuple[ServerSocket, EncryptedServer]]:
    """A client's socket with TLS, after the handshake, and the server's end of it."""
    ours, theirs = socket.socketpair()
    authority = TestAuthority(tmp_path)
    pair = authority.issue("zookeeper", "zk")
    server = EncryptedServer(pair, theirs)
    wrapped = ClientTls(authority.cafile, None, None, check_hostname=True).wrap(ours, "zk")
    with closing(ServerSocket(wrapped, clock, print)) as client, theirs:
        client_side = threading.Thread(target=shake_hands, args=(wrapped,))
        client_side.start()
        server.shake_hands()
        client_side.join()
        client.setblocking(False)
        yield client, server


class EncryptedServer:
    """Its bytes can be sent in any pieces."""

    def __init__(self, pair: Files, connected: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certfile, pair.keyfile)
        self.connected = connected
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.after_handshake = b""

    def shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                self.after_handshake = self._outgoing.read()  # tickets, which the client did not wait for
                return
            except ssl.SSLWantReadError:
                self.connected.sendall(self._outgoing.read())
                self._incoming.write(self.connected.recv(65_536))

    def encrypted(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()


def test_a_part_of_a_tls_record_is_nothing_to_read_yet(
    encrypted_ends: tuple[ServerSocket, EncryptedServer], clock: HandClock
) -> None:
    """kazoo waits for an answer as soon as a server is readable, and sends no request meanwhile (Z1)."""
    client, server = encrypted_ends
    handler = Handler(clock, None, print, 3.0)
    counter = WakeUpCounter()
    record = server.encrypted(b"answer")
    with closing(counter):
        counter.send(b"\0")
        for byte in server.after_handshake + record[:-1]:
            server.connected.sendall(bytes([byte]))
            assert handler.select([client, counter], [], [], 10) == ([counter], [], [])
        server.connected.sendall(record[-1:])
        assert handler.select([client], [], [], 10) == ([client], [], [])
    assert client.recv(100) == b"answer"
    with pytest.raises(BlockingIOError):
        client.recv(1)


def test_tls_records_are_read_ahead_without_loss(
    encrypted_ends: tuple[ServerSocket, EncryptedServer], clock: HandClock
) -> None:
    client, server = encrypted_ends
    handler = Handler(clock, None, print, 3.0)
    sent = bytes(range(256)) * 300
    server.connected.sendall(server.after_handshake + server.encrypted(sent))
    read = b""
    while len(read) < len(sent):
        assert handler.select([client], [], [], 10) == ([client], [], [])
        read += client.recv(1_000)
    assert read == sent
    server.connected.close()
    assert handler.select([client], [], [], 10) == ([client], [], [])
    assert client.recv(1) == b""


def test_a_severed_connection_gives_no_encrypted_bytes_as_answers(
    encrypted_ends: tuple[ServerSocket, EncryptedServer],
) -> None:
    """`SSLSocket.shutdown` would drop the TLS layer, and reads would then return what it had to decrypt."""
    client, server = encrypted_ends
    server.connected.sendall(server.after_handshake + server.encrypted(b"answer"))
    client.sever()
    assert client.recv(100) in (b"answer", b"")
    client.sever()
