"""Logins at a port of gRPC, and of the transports that call there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from pydantic import SecretStr

from strandline.adapters.logins import Logins
from strandline.adapters.rpc.blocking import GrpcBlockingTransport
from strandline.adapters.rpc.grpc_listener import add_calls
from strandline.adapters.rpc.logins.at_ports import PortLogins
from strandline.adapters.rpc.logins.bearer import bearer_metadata
from strandline.adapters.rpc.logins.codec import AUTHENTICATE, LOGIN_BYTES_MAX
from strandline.adapters.rpc.logins.of_blocking import BlockingLogins, LoggedInCall
from strandline.adapters.rpc.logins.of_client import ClientLogin, ClientSession
from strandline.adapters.rpc.logins.of_transport import TransportLogins
from strandline.adapters.rpc.logins.refusals import Refusals
from strandline.adapters.rpc.transport import CHANNEL_OPTIONS, GrpcTransport
from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system_host import SystemThreads, new_id
from strandline.adapters.telemetry.audit import Audit
from strandline.adapters.tls.channels import Link
from strandline.adapters.tls.grpc_credentials import open_blocking_channel, open_channel
from strandline.config.client import ClientSettings
from strandline.config.sasl import SaslSettings
from strandline.errors import (
    AuthenticationFailed,
    BrokerNotAvailable,
    IllegalSaslState,
    OutcomeUnknown,
    StrandlineError,
)
from strandline.ports import (
    BlockingCall,
    Caller,
    Listener,
    Method,
    Reply,
    Rpc,
    ServedCall,
    ServedStream,
    StreamOver,
)
from strandline.security.login.authenticator import Authenticator
from strandline.security.login.credentials import make_credential
from strandline.security.login.mechanisms import HASHES, OAUTHBEARER, SCRAM_SHA_512
from strandline.security.login.messages import LoginMessage
from strandline.security.login.tokens import LEEWAY_S
from strandline.security.principal import ANONYMOUS
from tests.hand_clock import HandClock
from tests.issuer import Issuer, bearer
from tests.waiting import eventually

KEY = b"the members' key"
PASSWORD = "wonderland-1"
TOKENS = Issuer()
LIFETIME_MS = 3_600_000
TIMEOUT_S = 10.0
_LOG = "/strandline.v1.Log/"
ASK = Method(_LOG + "Metadata", str.encode, bytes.decode)
TALK = Method(_LOG + "Fetch", str.encode, bytes.decode)
ENDED = r"login of a stream to .* has ended"
PUSH = Method("/strandline.v1.Admin/StateChanges", str.encode, bytes.decode)


def rpc(method: Method[str, str]) -> Rpc[str, str]:
    return Rpc(method.path, bytes.decode, lambda answer, to: answer.encode())


@dataclass(slots=True)
class Port:
    """Answers with the name of its caller, and counts logins."""

    address: str
    clock: HandClock
    authenticator: Authenticator
    audit: Audit
    callers: list[Caller] = field(default_factory=list)
    pushed: asyncio.Event = field(default_factory=asyncio.Event)
    answering: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, request: str, caller: Caller) -> str:
        self.callers.append(caller)
        await self.answering.wait()
        return f"{caller.principal} {request}"

    async def talk(self, requests: AsyncIterator[str], reply: Reply[str], caller: Caller) -> None:
        """Answers each request after the next one, and the last one at the end."""
        waiting = None
        async for request in requests:
            if waiting is not None:
                await reply(waiting)
            waiting = request
        if waiting is not None:
            await reply(waiting)

    async def push(self, requests: AsyncIterator[str], reply: Reply[str], caller: Caller) -> None:
        await reply(await anext(requests))
        await self.pushed.wait()
        await reply("second")


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    async for each in opened(SaslSettings(connections_max_reauth_ms=LIFETIME_MS)):
        yield each


async def opened(settings: SaslSettings, *, with_logins: bool = True, **bounds: Any) -> AsyncIterator[Port]:
    server, clock = grpc.aio.server(), HandClock()
    authenticator = Authenticator(
        (*HASHES, OAUTHBEARER), lambda: KEY, lambda *_: False, TOKENS.token_keys(clock)
    )
    credential = make_credential(SCRAM_SHA_512, PASSWORD, b"0123456789abcdef", 4_096)
    authenticator.take({"alice": {SCRAM_SHA_512: credential}})
    audit = Audit("", clock)
    port = Port(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", clock, authenticator, audit)
    logins = PortLogins(
        Logins(authenticator, clock, SystemThreads(), new_id, audit),
        KEY.__eq__,
        settings,
        clock,
        new_id,
        **bounds,
    )
    add_calls(
        server,
        [
            ServedCall(rpc(ASK), port.ask),
            ServedStream(rpc(TALK), port.talk),
            ServedStream(rpc(PUSH), port.push, pushes=True),
        ],
        Listener.INTERNAL,
        clock,
        lambda *_: None,
        lambda *_: None,
        logins=logins if with_logins else None,
    )
    port.answering.set()
    await server.start()
    yield port
    await server.stop(None)


def login(password: str = PASSWORD, name: str = "alice") -> ClientLogin:
    made = ClientLogin.of(
        ClientSettings(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=SCRAM_SHA_512,
            sasl_username=name,
            sasl_password=SecretStr(password),
        ),
        new_id,
        SystemClock(),
    )
    assert made is not None
    return made


@pytest.fixture
async def transport() -> AsyncIterator[GrpcTransport]:
    made = GrpcTransport(login=login())
    yield made
    await made.close()


async def ask(transport: GrpcTransport, port: Port, request: str = "hello") -> str:
    return await transport.call(port.address, ASK, request, timeout_s=TIMEOUT_S)


async def asked_at_once(transport: GrpcTransport, port: Port) -> list[str]:
    """The answers to five calls, or the refusals."""

    async def outcome() -> str:
        try:
            return await ask(transport, port)
        except AuthenticationFailed as error:
            return error.message

    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(outcome()) for _ in range(5)]
    return [task.result() for task in asking]


async def test_calls_of_one_connection_share_one_login(port: Port, transport: GrpcTransport) -> None:
    """A11"""
    assert await asked_at_once(transport, port) == ["User:alice hello"] * 5
    assert {caller.mechanism for caller in port.callers} == {SCRAM_SHA_512}
    assert {caller.expires_at for caller in port.callers} == {port.clock.now_s + LIFETIME_MS / 1000}


async def test_a_call_is_repeated_after_its_session_ended(port: Port, transport: GrpcTransport) -> None:
    """A11: it was refused before it was carried out."""
    await ask(transport, port)
    port.clock.now_s += LIFETIME_MS / 1000
    assert await ask(transport, port) == "User:alice hello"
    assert len(port.callers) == 2


async def test_a_session_that_was_left_out_is_begun_again() -> None:
    """A11: beyond the bound, the connection that was used least recently logs in again."""
    async for port in opened(SaslSettings(sasl_sessions_max=1)):
        transports = [GrpcTransport(login=login()) for _ in range(2)]
        for transport in transports * 2:
            assert await ask(transport, port) == "User:alice hello"
        for transport in transports:
            await transport.close()


@pytest.mark.parametrize("name, password", [("alice", "guess"), ("bob", PASSWORD)])
async def test_a_refused_login_is_final_and_shared(port: Port, name: str, password: str) -> None:
    """A10: calls that wait for one login are refused together, and guess once."""
    transport = GrpcTransport(login=login(password, name))
    error = f"{port.address}: the name or the password is wrong (mechanism {SCRAM_SHA_512})"
    assert await asked_at_once(transport, port) == [error] * 5
    assert [failures.value for failures in port.audit.read()] == [1]
    await transport.close()


async def test_a_port_that_knows_no_users_yet_is_asked_again(port: Port, transport: GrpcTransport) -> None:
    """A10: a password is not wrong because nothing is known."""
    users = dict(port.authenticator.users)
    port.authenticator._users = None
    with pytest.raises(BrokerNotAvailable, match="users are not known here yet"):
        await ask(transport, port)
    port.authenticator.take(users)
    assert await ask(transport, port) == "User:alice hello"


async def test_a_port_without_logins_says_so(transport: GrpcTransport) -> None:
    async for port in opened(SaslSettings(), with_logins=False):
        with pytest.raises(AuthenticationFailed, match="has no logins: set security_protocol"):
            await ask(transport, port)


# --- what calls show -------------------------------------------------------------------------------


async def status(port: Port, channel: grpc.aio.Channel, session: str | None) -> StrandlineError | None:
    """The error of a call that shows this session; all of them have the same status."""
    metadata = () if session is None else bearer_metadata(session)
    multi: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(ASK.path)
    try:
        await multi(b"hello", metadata=metadata)
    except grpc.aio.AioRpcError as error:
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        return error_of_call(error)
    return None


async def test_a_session_counts_on_its_own_connection_until_it_ends(port: Port) -> None:
    """A11"""
    channels = [open_channel(port.address, None, CHANNEL_OPTIONS) for _ in range(2)]
    logins = TransportLogins(login(), SystemClock(), Refusals(0))
    link = Link(channels[0], None)
    token = (await logins.session(port.address, link)).token
    assert await status(port, channels[0], token) is None
    assert isinstance(await status(port, channels[0], None), IllegalSaslState)
    assert isinstance(await status(port, channels[0], "guess"), IllegalSaslState)
    assert isinstance(await status(port, channels[1], token), IllegalSaslState)
    port.clock.now_s += LIFETIME_MS / 1000
    assert isinstance(await status(port, channels[0], token), AuthenticationFailed)
    for channel in channels:
        await channel.close()


@pytest.mark.parametrize("key, refused", [(KEY, None), (b"another", BrokerNotAvailable)])
async def test_a_member_shows_its_key_instead(
    port: Port, key: bytes, refused: type[StrandlineError] | None
) -> None:
    """A3: with another key it may try again, as the key may have been read too early."""
    transport = GrpcTransport(lambda: key)
    if refused is None:
        assert await ask(transport, port) == f"{ANONYMOUS} hello"
        assert port.callers[0].member_key == KEY
    else:
        with pytest.raises(refused, match="member key"):
            await ask(transport, port)
    await transport.close()


# --- streams ---------------------------------------------------------------------------------------


async def test_a_stream_takes_no_request_after_the_end_and_answers_those_before(
    port: Port, transport: GrpcTransport
) -> None:
    """A11"""
    stream = await transport.open(port.address, TALK, timeout_s=TIMEOUT_S)
    await stream.write("first")
    await stream.write("second")
    assert await stream.read() == "first"
    port.clock.now_s += LIFETIME_MS / 1000
    await stream.write("third")
    assert await stream.read() == "second"
    with pytest.raises(StreamOver, match=ENDED):
        await stream.read()
    await stream.write("fourth")
    with pytest.raises(StreamOver, match=ENDED):
        await stream.read()
    again = await transport.open(port.address, TALK, timeout_s=TIMEOUT_S)
    await again.write("third")
    await again.write("fourth")
    assert await again.read() == "third"


async def test_answers_without_requests_end_with_the_session(port: Port, transport: GrpcTransport) -> None:
    """A11"""
    stream = await transport.open(port.address, PUSH, timeout_s=TIMEOUT_S)
    await stream.write("first")
    assert await stream.read() == "first"
    port.clock.now_s += LIFETIME_MS / 1000
    port.pushed.set()
    with pytest.raises(StreamOver, match=ENDED):
        await stream.read()


# --- bounds ----------------------------------------------------------------------------------------


async def test_a_session_ends_with_its_token(port: Port) -> None:
    """A11, A16: however long a login counts at most."""
    channel = open_channel(port.address, None, CHANNEL_OPTIONS)
    multi: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(AUTHENTICATE.path)
    stream = multi()
    token = TOKENS.token(port.clock.now_s + 5, algorithm="ES256")
    await stream.write(AUTHENTICATE.encode(LoginMessage(OAUTHBEARER, bearer(token))))
    found = await stream.read()
    assert isinstance(found, bytes)
    answer = AUTHENTICATE.decode(found)
    assert answer.lifetime_ms == (5 + LEEWAY_S) * 1000
    port.clock.now_s += 4 + LEEWAY_S
    assert await status(port, channel, answer.session) is None
    port.clock.now_s += 1
    assert isinstance(await status(port, channel, answer.session), AuthenticationFailed)
    await channel.close()


async def test_a_client_logs_in_with_the_token_that_its_file_has_now(port: Port, tmp_path: Path) -> None:
    """A16: a new login reads it again."""
    file = tmp_path / "token"

    def issue(seconds: float) -> None:
        file.write_text(TOKENS.token(port.clock.now_s + seconds, algorithm="ES256") + "\n")
        file.chmod(0o600)

    issue(5)
    settings = ClientSettings(
        security_protocol="SASL_SSL", sasl_mechanism=OAUTHBEARER, sasl_oauth_token_file=file
    )
    transport = GrpcTransport(login=ClientLogin.of(settings, new_id, port.clock))
    assert await ask(transport, port) == "User:alice hello"
    port.clock.now_s += 5 + LEEWAY_S
    with pytest.raises(AuthenticationFailed):
        await ask(transport, port)
    issue(5)
    assert await ask(transport, port) == "User:alice hello"
    await transport.close()


async def test_logins_in_progress_are_bounded(transport: GrpcTransport) -> None:
    """A10: one that does nothing holds its place for a moment only."""
    async for port in opened(SaslSettings(), logins_max=2, login_s_max=0.5):
        channel = open_channel(port.address, None, CHANNEL_OPTIONS)
        multi: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(AUTHENTICATE.path)
        idle = multi()
        await idle.write(AUTHENTICATE.encode(LoginMessage(SCRAM_SHA_512, next(login().begin(PASSWORD)))))
        await idle.read()
        with pytest.raises(BrokerNotAvailable, match=r"1 logins from .* are in progress"):
            await ask(transport, port)
        with pytest.raises(grpc.aio.AioRpcError, match=r"longer than 0\.5 s"):
            await idle.read()
        assert await ask(transport, port) == "User:alice hello"
        await channel.close()


async def test_a_long_message_before_a_login_is_refused(port: Port) -> None:
    """A10"""
    channel = open_channel(port.address, None, CHANNEL_OPTIONS)
    multi: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(AUTHENTICATE.path)
    call = multi()
    await call.write(AUTHENTICATE.encode(LoginMessage(SCRAM_SHA_512, bytes(LOGIN_BYTES_MAX))))
    with pytest.raises(grpc.aio.AioRpcError, match=f"more than {LOGIN_BYTES_MAX}"):
        await call.read()
    await channel.close()


# --- threads ---------------------------------------------------------------------------------------


async def in_thread(port: Port, transport: GrpcBlockingTransport) -> str:
    return await asyncio.to_thread(
        lambda: transport.begin(port.address, ASK, "hello", timeout_s=TIMEOUT_S).result()
    )


async def test_a_thread_logs_in_and_again_after_the_end(port: Port) -> None:
    """A11"""
    transport = GrpcBlockingTransport(login=login())
    for _ in range(3):
        assert await in_thread(port, transport) == "User:alice hello"
        port.clock.now_s += LIFETIME_MS / 1000
    transport.close()


async def test_a_wrong_password_in_a_thread_is_final(port: Port) -> None:
    """A10"""
    transport = GrpcBlockingTransport(login=login("guess"))
    with pytest.raises(AuthenticationFailed, match="the name or the password is wrong"):
        await in_thread(port, transport)
    transport.close()


async def test_a_call_of_a_thread_can_be_cancelled(port: Port) -> None:
    """As one without a login: another thread may end it."""
    port.answering.clear()
    transport = GrpcBlockingTransport(login=login())
    call = transport.begin(port.address, ASK, "hello", timeout_s=TIMEOUT_S)
    await eventually(lambda: port.callers, what="the call has begun")
    call.cancel()
    with pytest.raises(OutcomeUnknown, match="cut short"):
        await asyncio.to_thread(call.result)
    transport.close()


async def test_a_call_of_a_thread_ends_with_its_transport(port: Port) -> None:
    """Another thread may close it at any moment."""
    channel = open_blocking_channel(port.address, None, CHANNEL_OPTIONS)
    channel.close()

    def begin(session: ClientSession) -> BlockingCall[str]:
        raise AssertionError("it has no session")

    logins = BlockingLogins(login(), SystemClock(), Refusals(0))
    call = LoggedInCall(port.address, Link(channel, None), logins, begin)
    with pytest.raises(OutcomeUnknown, match="was closed"):
        await asyncio.to_thread(call.result)
