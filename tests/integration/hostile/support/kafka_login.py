"""Logins at a port for Kafka clients, good and hostile, byte by byte."""

from __future__ import annotations

import struct
from random import Random
from typing import Final

from scramp import ScramClient

from tests.integration.hostile.support.attack import Attack, spoiled
from tests.integration.hostile.support.byte_attack import Conversation, connect
from tests.integration.hostile.support.kafka_attack import KafkaAttack, ask_in_turn, framed, read_answer

HANDSHAKE: Final = 17
AUTHENTICATE: Final = 36
MECHANISM: Final = "SCRAM-SHA-256"
STEPS_MAX: Final = 4
TEXTS: Final = (
    b"",
    b"n,,n=alice,r=abc",
    b"n,,n=alice,r=" + b"x" * 5_000,
    b"n,,n=" + b"a" * 60_000 + b",r=abc",
    b"n,,n=\xff\xfe,r=abc",
    b"y,,n=alice,r=abc",
    b"p=tls-unique,,n=alice,r=abc",
    b"n,a=admin,n=alice,r=abc",
    b"n,,m=ext,n=alice,r=abc",
    b"n,,n=ali=2Cce=3D,r=abc",
    b"n,,n=al=ice,r=abc",
    b"c=biws,r=abc,p=AAAA",
    b"c=biws,r=abc,p=" + b"A" * 4_000,
    b"\0alice\0wonderland-1",
    b"\0" * 1_000,
    b"n,,n=broker-1,r=abc",
)


def handshake(mechanism: bytes, version: int = 1) -> bytes:
    return struct.pack(">hhih", HANDSHAKE, version, 1, -1) + struct.pack(">h", len(mechanism)) + mechanism


def authenticate(data: bytes) -> bytes:
    return struct.pack(">hhih", AUTHENTICATE, 1, 2, -1) + struct.pack(">i", len(data)) + data


async def _ask(conversation: Conversation, request: bytes) -> bytes:
    conversation.writer.write(framed(request))
    return await read_answer(conversation)


async def _step(conversation: Conversation, data: bytes) -> bytes:
    """The server's bytes, of SaslAuthenticate version 1. Raises AssertionError if it refuses."""
    answer = await _ask(conversation, authenticate(data))
    (error,) = struct.unpack(">h", answer[4:6])
    assert error == 0, answer
    at = 8 + max(0, int.from_bytes(answer[6:8], "big", signed=True))
    (size,) = struct.unpack(">i", answer[at : at + 4])
    return answer[at + 4 : at + 4 + size]


class Login:
    """By a name and a password."""

    def __init__(self, name: str, password: str) -> None:
        self._name = name
        self._password = password

    async def __call__(self, conversation: Conversation) -> None:
        await _ask(conversation, handshake(MECHANISM.encode()))
        client = ScramClient([MECHANISM], self._name, self._password)
        client.set_server_first((await _step(conversation, client.get_client_first().encode())).decode())
        client.set_server_final((await _step(conversation, client.get_client_final().encode())).decode())


class LoginAttack(Attack):
    """Hostile steps of logins, and requests for which a login is missing."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._requests = KafkaAttack(port)

    async def turn(self, random: Random) -> int:
        if random.random() < 0.3:
            return await self._requests.turn(random)
        conversation = await connect(random, self._port, None)
        if conversation is None:
            return 1
        try:
            steps = range(1, random.randint(1, STEPS_MAX) + 1)
            return await ask_in_turn(conversation, (self._request(random, number) for number in steps))
        except OSError:
            return 1
        finally:
            conversation.abort()

    async def close(self) -> None:
        """Every connection ends with its turn."""

    def _request(self, random: Random, number: int) -> bytes:
        mechanisms = (MECHANISM.encode(),) * 3 + (b"", b"PLAIN", b"x" * 30_000, b"\xff", b"GSSAPI")
        if number == 1 and random.random() < 0.8:
            made = handshake(random.choice(mechanisms), random.choice((0, 1, 1, 1)))
        else:
            made = authenticate(random.choice(TEXTS))
        return spoiled(random, made, 3) if random.random() < 0.4 else made
