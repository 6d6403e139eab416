"""Logins on Kafka connections: what is served before and after, and when a connection ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, repeat
from typing import Any

from structlog.testing import capture_logs

from strandline.adapters.logins import Logins
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.telemetry.audit import Audit
from strandline.broker.kafka.call import Api, Call, answered
from strandline.broker.kafka.connection import KafkaConnection
from strandline.broker.kafka.connection_login import FRAME_BYTES_MAX, LOGIN_S_MAX
from strandline.broker.kafka.handlers.logins.sasl import SaslApi
from strandline.broker.kafka.router import Router
from strandline.broker.kafka.wire.apis import INIT_PRODUCER_ID, SASL_AUTHENTICATE, SASL_HANDSHAKE
from strandline.broker.kafka.wire.producer_id import InitProducerIdAnswer
from strandline.broker.kafka.wire.sasl import TOKEN_BYTES_MAX
from strandline.errors import ErrorCode
from strandline.ports import Caller
from strandline.security.login.attempts import DELAY_S, FAILURES_MAX
from strandline.security.login.authenticator import Authenticator
from strandline.security.login.credentials import make_credential
from strandline.security.login.mechanisms import OAUTHBEARER, PLAIN, SCRAM_SHA_256
from strandline.security.login.plain import plain_message
from strandline.security.login.scram import ScramClient
from strandline.security.login.tokens import LEEWAY_S
from strandline.security.principal import ANONYMOUS, Principal
from tests.broker.kafka.support.codec import API_VERSIONS, decode_answer, encode_request
from tests.broker.kafka.support.memory_connection import MemoryShared, MemoryTransport, feed, turns
from tests.issuer import Issuer, bearer

LIFETIME_MS = 60_000
TOKENS = Issuer()
ALICE = Principal("alice")


class VirtualClock(SystemClock):
    """Its time is the test's."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self._moved = asyncio.Event()

    def monotonic(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return round(self.seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        until = self.seconds + seconds
        while self.seconds < until:
            await self._moved.wait()

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        self._moved.set()
        self._moved = asyncio.Event()


class SameThread:
    """`Threads` without threads."""

    async def run(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)


@dataclass
class Client:
    """One connection, from its client's end."""

    connection: KafkaConnection
    transport: MemoryTransport
    callers: list[Caller] = field(default_factory=list)

    async def ask(self, key: int, version: int, values: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None: the connection was closed instead."""
        before = len(self.transport.frames())
        data = encode_request(key, version, values)
        left = feed(self.connection, self.transport, len(data).to_bytes(4, "big") + data, repeat(10_000))
        for _ in range(50):
            await turns()
            if len(self.transport.frames()) > before:
                return decode_answer(key, version, self.transport.frames()[-1])[1]
            if self.transport.closing:
                return None
        raise AssertionError(f"no answer, and {len(left)} bytes unread")

    async def begin(self, mechanism: str = SCRAM_SHA_256) -> Any:
        return await self.ask(SASL_HANDSHAKE.key, 1, {"mechanism": mechanism})

    async def send(self, token: bytes) -> Any:
        return await self.ask(SASL_AUTHENTICATE.key, 2, {"auth_bytes": token})

    async def log_in(self, name: str = "alice", password: str = "wonderland") -> Any:
        """The last answer."""
        assert (await self.begin())["error_code"] == 0
        client = ScramClient(SCRAM_SHA_256, name, password, "clientnonce")
        challenge = await self.send(client.first())
        assert challenge["error_code"] == 0
        found = await self.send(client.final(challenge["auth_bytes"]))
        if found["error_code"] == 0:
            client.check(found["auth_bytes"])
        return found

    async def works(self) -> bool:
        return await self.ask(INIT_PRODUCER_ID.key, 0, {}) is not None


@asynccontextmanager
async def port(clock: VirtualClock, *, with_logins: bool = True) -> AsyncIterator[Any]:
    """A port with one user; gives a function that connects."""
    numbers = count()
    mechanisms = (SCRAM_SHA_256, PLAIN, OAUTHBEARER)
    authenticator = Authenticator(mechanisms, lambda: b"secret", lambda *_: False, TOKENS.token_keys(clock))
    known = {
        name: {SCRAM_SHA_256: make_credential(SCRAM_SHA_256, "wonderland", b"0123456789abcdef", 4_096)}
        for name in ("alice", "bob")
    }
    authenticator.take(known)
    logins = Logins(authenticator, clock, SameThread(), lambda: f"nonce{next(numbers)}", Audit("", clock))
    sasl = SaslApi(logins, clock, lifetime_ms=LIFETIME_MS)
    callers: list[Caller] = []

    async def init(asked: object, call: Call) -> InitProducerIdAnswer:
        callers.append(call.caller)
        return InitProducerIdAnswer()

    router = Router(
        [
            Api(SASL_HANDSHAKE, answered(sasl.handshake)),
            Api(SASL_AUTHENTICATE, answered(sasl.authenticate)),
            Api(INIT_PRODUCER_ID, answered(init)),
        ]
    )
    async with asyncio.TaskGroup() as tasks:
        shared = MemoryShared(router, tasks)
        shared.with_logins = with_logins
        shared.clock = clock

        def connect() -> Client:
            return Client(*shared.connect(), callers)

        yield connect
        for connection in tuple(shared.connections):
            connection.connection_lost(None)


async def test_a_caller_has_the_name_that_its_login_proved() -> None:
    """A11"""
    async with port(VirtualClock()) as connect:
        client = connect()
        assert (await client.ask(API_VERSIONS, 0, {}))["error_code"] == 0
        assert (await client.log_in())["session_lifetime_ms"] == LIFETIME_MS
        assert await client.works()
        assert (client.callers[-1].principal, client.callers[-1].mechanism) == (ALICE, SCRAM_SHA_256)


async def test_nothing_else_is_served_before_a_login() -> None:
    """A11: nor in the middle of one."""
    async with port(VirtualClock()) as connect:
        assert not await connect().works()
        client = connect()
        await client.begin()
        assert not await client.works()
        assert client.callers == []


async def test_a_wrong_password_is_an_answer_and_the_end() -> None:
    """A10: the same for the name of no user."""
    async with port(VirtualClock()) as connect:
        refusals = []
        for name in ("alice", "nobody"):
            client = connect()
            refusals.append(await client.log_in(name, "guess"))
            assert client.transport.closing
        assert refusals[0] == refusals[1]
        assert refusals[0]["error_code"] == 58 and refusals[0]["auth_bytes"] == b""


async def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    """A11"""
    async with port(VirtualClock()) as connect:
        client = connect()
        assert await client.begin("GSSAPI") == {
            "error_code": 33,
            "mechanisms": [SCRAM_SHA_256, PLAIN, OAUTHBEARER],
        }
        assert client.transport.closing


async def test_a_login_is_renewed_on_its_connection() -> None:
    """A11: by the same user alone, since its requests would be mixed up with those of another (KIP-368)."""
    clock = VirtualClock()
    async with port(clock) as connect:
        client = connect()
        await client.log_in()
        clock.advance(LIFETIME_MS / 1000 - 1)
        assert (await client.log_in())["error_code"] == 0
        clock.advance(LIFETIME_MS / 1000 - 1)
        assert await client.works()
        assert (await client.log_in("bob"))["error_code"] == 58
        assert client.transport.closing


async def test_a_login_that_has_ended_serves_nothing() -> None:
    """A11: but it may still be renewed."""
    clock = VirtualClock()
    async with port(clock) as connect:
        late, ended = connect(), connect()
        await late.log_in()
        await ended.log_in()
        clock.advance(LIFETIME_MS / 1000)
        assert (await late.log_in())["error_code"] == 0
        assert await late.works()
        assert not await ended.works()


async def test_a_login_ends_with_its_token() -> None:
    """A11, A16: a token of five seconds counts for these and the leeway, and is renewed by the next one."""
    clock = VirtualClock()
    async with port(clock) as connect:
        client = connect()
        await client.begin(OAUTHBEARER)
        first = TOKENS.token(clock.seconds + 5, algorithm="ES256")
        found = await client.send(bearer(first))
        assert found["session_lifetime_ms"] == (5 + LEEWAY_S) * 1000
        assert await client.works()
        assert (client.callers[-1].principal, client.callers[-1].mechanism) == (ALICE, OAUTHBEARER)
        clock.advance(4 + LEEWAY_S)
        await client.begin(OAUTHBEARER)
        second = await client.send(bearer(TOKENS.token(clock.seconds + 3_600, algorithm="ES256")))
        assert second["session_lifetime_ms"] == LIFETIME_MS, "no longer than every login"
        clock.advance(LIFETIME_MS / 1000 - 1)
        assert await client.works()
        await client.begin(OAUTHBEARER)
        await client.send(bearer(TOKENS.token(clock.seconds + 5, algorithm="ES256")))
        clock.advance(4 + LEEWAY_S)
        assert await client.works()
        clock.advance(1)
        assert not await client.works()


async def test_a_refused_token_gets_no_reason() -> None:
    """A16: the log has it."""
    clock = VirtualClock()
    async with port(clock) as connect:
        answers = []
        for token in (
            TOKENS.token(clock.seconds - LEEWAY_S, algorithm="ES256"),
            TOKENS.token(clock.seconds + 5, algorithm="ES256", aud="waves"),
        ):
            client = connect()
            await client.begin(OAUTHBEARER)
            with capture_logs() as logged:
                answers.append(await client.send(bearer(token)))
            (line,) = [each for each in logged if each["event"] == "login refused"]
            assert "expired" in line["reason"] or "audience" in line["reason"]
            assert token not in str(logged)
        assert answers[0] == answers[1]
        assert answers[0]["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_steps_come_in_order() -> None:
    """A11"""
    async with port(VirtualClock()) as connect:
        assert (await connect().send(b"n,,n=alice,r=x"))["error_code"] == 34
        client = connect()
        await client.begin()
        assert (await client.begin())["error_code"] == 34
    async with port(VirtualClock(), with_logins=False) as connect:
        assert (await connect().begin())["error_code"] == 34
        client = connect()
        assert (await client.send(b""))["error_code"] == 34
        assert await client.works()
        assert client.callers[-1].principal == ANONYMOUS


async def test_what_is_sent_before_a_login_is_bounded() -> None:
    """A10: in bytes and in time."""
    clock = VirtualClock()
    async with port(clock) as connect:
        client = connect()
        feed(client.connection, client.transport, (FRAME_BYTES_MAX + 1).to_bytes(4, "big"), repeat(4))
        assert client.transport.closing
        client = connect()
        await client.begin()
        assert await client.send(bytes(TOKEN_BYTES_MAX + 1)) is None
        slow, logged_in = connect(), connect()
        await logged_in.log_in()
        await slow.begin()
        clock.advance(LOGIN_S_MAX + 1)
        overdue = [
            each.connection.overdue(clock.monotonic(), idle_s=60, frame_s=60, write_s=60)
            for each in (slow, logged_in)
        ]
        assert overdue == [True, False]


async def test_an_address_that_guesses_waits() -> None:
    """A10: after three failures within a second."""
    clock = VirtualClock()
    async with port(clock) as connect:
        for _ in range(FAILURES_MAX):
            await connect().log_in("alice", "guess")
        client = connect()
        await client.begin(PLAIN)
        data = encode_request(SASL_AUTHENTICATE.key, 2, {"auth_bytes": plain_message("alice", "wonderland")})
        feed(client.connection, client.transport, len(data).to_bytes(4, "big") + data, repeat(10_000))
        await turns(20)
        assert len(client.transport.frames()) == 1
        clock.advance(DELAY_S)
        await turns(20)
        assert decode_answer(SASL_AUTHENTICATE.key, 2, client.transport.frames()[-1])[1]["error_code"] == 0


async def test_old_clients_send_their_messages_bare() -> None:
    """A11: after version 0 of SaslHandshake, without headers; then they are served as others."""
    async with port(VirtualClock()) as connect:
        client, other = connect(), connect()
        for each in (client, other):
            answer = await each.ask(SASL_HANDSHAKE.key, 0, {"mechanism": PLAIN})
            assert answer["error_code"] == 0
        for each, password in ((client, "wonderland"), (other, "guess")):
            token = plain_message("alice", password)
            before = len(each.transport.written)
            feed(each.connection, each.transport, len(token).to_bytes(4, "big") + token, repeat(10_000))
            await turns(10)
            assert each.transport.written[before:] == (b"" if each is other else bytes(4))
        assert other.transport.closing
        assert await client.works()
