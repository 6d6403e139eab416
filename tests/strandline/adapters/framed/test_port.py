"""Streams of frames between two processes' ends: open, carry, refuse, end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator

import pytest

from strandline.adapters.framed.client import FramedStream, open_framed
from strandline.adapters.framed.frames import FRAMES, HEAD, Kind, head
from strandline.adapters.framed.opening import Opening, dump_opening
from strandline.adapters.framed.port import FramedPort
from strandline.adapters.rpc.refused_requests import CONNECTIONS, MALFORMED, RefusedRequests
from strandline.adapters.rpc.wire_errors import error_from_bytes
from strandline.config.limits import MESSAGE_BYTES_MAX
from strandline.errors import (
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    InvalidRequest,
    NotLeaderOrFollower,
    StrandlineError,
)
from strandline.local.ports import free_ports
from strandline.ports import Caller, Listener, Method, Reply, Rpc, ServedStream, StreamEnded
from strandline.vocabulary.metadata import Endpoint
from tests.broker.support.replicas import CLOCK, HOST, settings
from tests.strandline.adapters.framed.serving import NoLogins, everybody, serving
from tests.waiting import eventually

TALK: Method[bytes, bytes] = Method("/talking/Talk", bytes, bytes)
KEY = b"the key of the members"
LARGE = bytes(range(256)) * 4_096
TIMEOUT_S = 10.0


def _as_it_is(answer: bytes, _to: Listener) -> bytes:
    return answer


class Talking:
    """Serves `TALK`: answers each message with itself; some it answers in other ways."""

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.ended = 0
        self.pushed = 0
        self.calls = [ServedStream(Rpc(TALK.path, bytes, _as_it_is), self.talk)]

    async def talk(self, requests: AsyncIterator[bytes], reply: Reply[bytes], caller: Caller) -> None:
        self.keys.append(caller.member_key)
        try:
            async for request in requests:
                if request == b"refuse":
                    raise NotLeaderOrFollower("it leads no more")
                if request == b"push":
                    while True:
                        await reply(LARGE)
                        self.pushed += 1
                await reply(request)
        finally:
            self.ended += 1


async def opened(endpoint: Endpoint) -> FramedStream[bytes, bytes]:
    assert endpoint.replication is not None
    return await open_framed(*endpoint.replication, TALK, KEY, None, timeout_s=TIMEOUT_S)


def _opening() -> bytes:
    opening = dump_opening(Opening(TALK.path, None))
    return head(Kind.OPENING, len(opening)) + opening


OPENING = _opening()
"""Opens `TALK` without a key."""


async def raw(endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    assert endpoint.replication is not None
    return await asyncio.open_connection(*endpoint.replication)


async def refusal(reader: asyncio.StreamReader) -> StrandlineError:
    """The error with which the port ended the connection."""
    data = await reader.read()
    assert data[0] == Kind.ERROR
    error = error_from_bytes(data[HEAD.size :])
    assert error is not None
    return error


async def test_messages_of_all_sizes_come_back_and_the_end_is_seen() -> None:
    talking = Talking()
    async with serving(talking.calls) as endpoint:
        stream = await opened(endpoint)
        for message in (b"", b"one", LARGE, b"two", LARGE):
            await stream.write(message)
        assert [await stream.read() for _ in range(5)] == [b"", b"one", LARGE, b"two", LARGE]
        await stream.finish()
        with pytest.raises(StreamEnded):
            await stream.read()
    assert (talking.keys, talking.ended) == ([KEY], 1)


async def test_an_error_of_the_handler_is_that_of_the_reader() -> None:
    async with serving(Talking().calls) as endpoint:
        stream = await opened(endpoint)
        await stream.write(b"refuse")
        with pytest.raises(NotLeaderOrFollower, match="it leads no more"):
            await stream.read()


async def test_a_call_that_is_not_served_is_refused_when_it_is_opened() -> None:
    refused: list[StrandlineError] = []
    async with serving([], on_refused=lambda error, _: refused.append(error)) as endpoint:
        with pytest.raises(InvalidRequest, match="'/talking/Talk' is no stream of this port"):
            await opened(endpoint)
    assert len(refused) == 1


async def test_what_speaks_another_protocol_gets_no_further_than_its_first_bytes() -> None:
    """And is counted, with the other malformed requests."""
    refused = RefusedRequests(CLOCK)
    async with serving(Talking().calls, on_refused=refused.note) as endpoint:
        for _ in range(2):
            reader, writer = await raw(endpoint)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
        await eventually(lambda: (MALFORMED, (FRAMES,), 2) in refused.read())


async def test_a_port_with_all_its_connections_closes_further_ones() -> None:
    """And counts them."""
    refused = RefusedRequests(CLOCK)
    async with serving(Talking().calls, on_refused=refused.note, calls_max=10) as endpoint:
        held = [await opened(endpoint) for _ in range(10)]
        with pytest.raises(BrokerNotAvailable):
            await opened(endpoint)
        assert (CONNECTIONS, ("replication_port",), 1) in refused.read()
        for stream in held:
            stream.close()


@pytest.mark.parametrize("opening", [b"[]", b'{"call": "/talking/Talk", "key": null, "member": "1"}', b"{"])
async def test_bytes_that_open_no_stream_are_refused(opening: bytes) -> None:
    async with serving(Talking().calls) as endpoint:
        reader, writer = await raw(endpoint)
        writer.write(head(Kind.OPENING, len(opening)) + opening)
        assert "that open no stream" in (await refusal(reader)).message
        writer.close()


async def test_a_caller_of_a_version_before_says_not_which_member_it_means() -> None:
    opening = json.dumps({"call": TALK.path, "key": None}).encode()
    async with serving(Talking().calls) as endpoint:
        reader, writer = await raw(endpoint)
        writer.write(head(Kind.OPENING, len(opening)) + opening)
        assert HEAD.unpack(await reader.readexactly(HEAD.size)) == (Kind.ACCEPTED, 0)
        writer.close()


async def test_a_caller_that_is_not_admitted_yet_may_send_little() -> None:
    async with serving(Talking().calls) as endpoint:
        reader, writer = await raw(endpoint)
        writer.write(head(Kind.OPENING, MESSAGE_BYTES_MAX))
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_who_is_no_member_opens_nothing() -> None:
    """So the size of a frame is believed of members only: it is memory at once."""

    def stranger(caller: Caller) -> StrandlineError | None:
        return None if caller.member_key == KEY else ClusterAuthorizationFailed("it is no member")

    talking = Talking()
    async with serving(talking.calls, stranger=stranger) as endpoint:
        reader, writer = await raw(endpoint)
        writer.write(OPENING)
        assert isinstance(await refusal(reader), ClusterAuthorizationFailed)
        writer.close()
        stream = await opened(endpoint)
        await stream.write(b"one")
        assert await stream.read() == b"one"
        stream.close()
    assert talking.keys == [KEY]


async def test_a_connection_that_opens_nothing_is_closed() -> None:
    async with serving(Talking().calls, handshake_timeout_ms=100) as endpoint:
        reader, writer = await raw(endpoint)
        assert "opened no stream in time" in (await refusal(reader)).message
        writer.close()


async def test_one_address_has_a_bound_of_streams() -> None:
    async with serving(Talking().calls, client_calls_max=1) as endpoint:
        held = await opened(endpoint)
        with pytest.raises(StrandlineError, match="client_calls_max"):
            await opened(endpoint)
        held.close()


async def test_a_second_opening_ends_the_stream() -> None:
    async with serving(Talking().calls) as endpoint:
        reader, writer = await raw(endpoint)
        writer.write(2 * OPENING)
        assert HEAD.unpack(await reader.readexactly(HEAD.size)) == (Kind.ACCEPTED, 0)
        assert "a frame of kind opening within a stream" in (await refusal(reader)).message
        writer.close()


async def test_a_peer_that_reads_nothing_is_sent_little_and_one_that_hangs_up_ends_the_handler() -> None:
    """The pushed messages wait in the sockets of both ends: the server holds no more of them."""
    talking = Talking()
    async with serving(talking.calls) as endpoint:
        stream = await opened(endpoint)
        await stream.write(b"push")
        first = await stream.read()
        assert first == LARGE
        for _ in range(50):  # more turns than it takes to fill a socket
            await asyncio.sleep(0)
        pushed = talking.pushed
        for _ in range(50):
            await asyncio.sleep(0)
        assert talking.pushed - pushed <= 50
        stream.close()
    assert talking.ended == 1


async def test_a_connection_that_comes_while_the_port_ends_is_closed() -> None:
    """It is no defect, which would end the process before its logs are closed."""
    ending, released = asyncio.Event(), asyncio.Event()

    async def hold(requests: AsyncIterator[bytes], reply: Reply[bytes], caller: Caller) -> None:
        try:
            async for request in requests:
                await reply(request)
        finally:
            ending.set()
            await released.wait()

    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    port = FramedPort(settings(replication_port=0), HOST, lambda _error, _peer: None, everybody)
    endpoint = port.bind(Endpoint(1, "127.0.0.1", 1))
    port.offer([ServedStream(Rpc(TALK.path, bytes, _as_it_is), hold)], NoLogins())
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(port.run())
        stream = await opened(endpoint)
        await stream.write(b"one")
        assert await stream.read() == b"one"
        running.cancel()
        await ending.wait()
        reader, writer = await raw(endpoint)
        await eventually(lambda: failures or reader.at_eof() or reader.exception())
        writer.close()
        released.set()
    assert failures == []


async def test_a_port_that_ends_closes_what_still_sends_its_last_frames() -> None:
    """As to a client that leaves them unread."""

    async def push(requests: AsyncIterator[bytes], reply: Reply[bytes], caller: Caller) -> None:
        async with asyncio.TaskGroup() as tasks:
            pushing = tasks.create_task(written(reply))
            await anext(requests)
            await asyncio.sleep(0)
            pushing.cancel()
        ended.set()

    async def written(reply: Reply[bytes]) -> None:
        await reply(8 * LARGE)

    ended = asyncio.Event()
    async with serving([ServedStream(Rpc(TALK.path, bytes, _as_it_is), push)]) as endpoint:
        reader, writer = await raw(endpoint)
        writer.write(OPENING + head(Kind.MESSAGE, 0))
        await ended.wait()
        for _ in range(10):  # it sends END, and waits for room
            await asyncio.sleep(0)
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(8 * len(LARGE))
    writer.close()


async def test_a_port_that_takes_no_connection_is_not_available() -> None:
    (port,) = free_ports(1)
    with pytest.raises(BrokerNotAvailable, match="no stream to"):
        await open_framed("127.0.0.1", port, TALK, None, None, timeout_s=TIMEOUT_S)


async def test_a_port_that_accepts_and_says_nothing_is_given_up() -> None:
    """As that of a process that is stopped: the kernel accepts for it."""
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        port = stopped.getsockname()[1]
        with pytest.raises(BrokerNotAvailable, match="no answer in time"):
            await open_framed("127.0.0.1", port, TALK, None, None, timeout_s=0.05)


@pytest.mark.parametrize("given", [{}, {"advertised_port": 19_092}])
def test_a_mapped_port_is_registered_as_others_reach_it(given: dict[str, int]) -> None:
    chosen = settings(replication_port=0, replication_advertised_port=19_093, **given)
    port = FramedPort(chosen, HOST, lambda _error, _peer: None, everybody)
    assert port.bind(Endpoint(1, "outside", 19_092)).replication == ("outside", 19_093)
    port.stop()
