"""Whole requests at a port for Kafka clients: damaged good ones, and made up ones."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterable
from random import Random
from typing import Any, Final

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.acls import Acl, DescribeAclsRequest, Entry, Pattern
from strandline.broker.kafka.wire.admin.cluster import DescribeClusterRequest
from strandline.broker.kafka.wire.apis import ApiWire
from strandline_lab.simulation.kafka.messages import frame
from tests.broker.kafka.support.codec import API_VERSIONS, encode_request
from tests.integration.hostile.support.attack import Attack, rearranged, spoiled
from tests.integration.hostile.support.byte_attack import Conversation, connect
from tests.integration.security.support.kafka_cases import KAFKA_CASES

REQUESTS_MAX: Final = 20
"""In one connection, unless it ends before."""
ANSWER_S_MAX: Final = 0.1
SPOILED_MAX: Final = 4
FRAME_BYTES_MAX: Final = 1 << 26

ASKED: Final[list[tuple[ApiWire[Any, Any], Any]]] = [
    *((case.what, case.request) for case in KAFKA_CASES),
    (apis.DESCRIBE_ACLS, DescribeAclsRequest(Acl(Pattern(1, None, 1), Entry(None, None, 1, 1)))),
    (apis.DESCRIBE_CLUSTER, DescribeClusterRequest()),
]
SAMPLES: Final = [
    encode_request(
        API_VERSIONS, 3, {"client_software_name": "some-client", "client_software_version": "1.0"}
    ),
    *(
        frame(wire, version, request, 1, "some-client")[4:]
        for wire, request in ASKED
        for version in sorted({wire.first, wire.last})
        if wire is not apis.ALTER_CLIENT_QUOTAS  # a quota would hold up the honest client
    ),
]
"""A good request of each API, in its first version and in its last."""

LogIn = Callable[[Conversation], Awaitable[None]]


class KafkaAttack(Attack):
    """`spared`: APIs that are not asked, since what they do is no harm of the kind that is looked for.
    `log_in` is done first in each connection."""

    def __init__(
        self,
        port: int,
        context: ssl.SSLContext | None = None,
        *,
        spared: Collection[int] = (),
        log_in: LogIn | None = None,
    ) -> None:
        self._port = port
        self._context = context
        self._log_in = log_in
        self._spared = spared
        self.samples = [each for each in SAMPLES if int.from_bytes(each[:2], "big") not in spared]

    async def turn(self, random: Random) -> int:
        conversation = await connect(random, self._port, self._context)
        if conversation is None:
            return 1
        try:
            if self._log_in is not None:
                await self._log_in(conversation)
            requests = (self._request(random) for _ in range(random.randint(1, REQUESTS_MAX)))
            return await ask_in_turn(conversation, requests)
        except OSError:
            return 1
        finally:
            conversation.abort()

    async def close(self) -> None:
        """Every connection ends with its turn."""

    def _request(self, random: Random) -> bytes:
        while True:
            made = self._any_request(random)
            if int.from_bytes(made[:2], "big") not in self._spared:
                return made

    def _any_request(self, random: Random) -> bytes:
        match random.randrange(6):
            case 0:
                return rearranged(random, self.samples)
            case 1:
                key, version = random.randrange(80), random.randrange(-1, 20)
                head = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True)
                return head + random.randbytes(random.choice((0, 4, 6, 40, 1_000)))
            case 2:  # good up to the body
                sample = random.choice(self.samples)
                return sample[: random.randint(8, 40)] + random.randbytes(random.choice((0, 10, 200)))
            case _:
                return spoiled(random, random.choice(self.samples), SPOILED_MAX)


def framed(request: bytes) -> bytes:
    return len(request).to_bytes(4, "big") + request


async def read_answer(conversation: Conversation) -> bytes:
    """Raises IncompleteReadError at the end, OSError."""
    size = int.from_bytes(await conversation.reader.readexactly(4), "big")
    assert size < FRAME_BYTES_MAX
    return await conversation.reader.readexactly(size)


async def ask_in_turn(conversation: Conversation, requests: Iterable[bytes]) -> int:
    """Send each once the one before it has its answer, until the connection ends. Returns how many."""
    sent = 0
    for request in requests:
        sent += 1
        conversation.writer.write(framed(request))
        if not await _answered(conversation):
            break
    return sent


async def _answered(conversation: Conversation) -> bool:
    """Whether there is an answer, or none within a while (acks=0, a join that is held). False at the end."""
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            await read_answer(conversation)
    except TimeoutError:
        return True
    except (asyncio.IncompleteReadError, OSError):
        return False
    return True
