"""Calls of every RPC of a port whose messages are hostile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

import grpc

from strandline.adapters.tls.grpc_credentials import open_channel
from strandline.adapters.tls.pem import Pem
from tests.integration.hostile.support.attack import Attack
from tests.integration.hostile.support.hostile_calls import OPTIONS, Rpc, send
from tests.integration.hostile.support.hostile_messages import Hostile

MESSAGE_BYTES_MAX: Final = 4_000
STREAM_MESSAGES: Final = 50
CALL_S_MAX: Final = 0.3
"""Joins, syncs and heartbeats are held; a stranger need not wait for their ends."""
CHANNEL_TURNS: Final = 500
"""A new connection after this number of turns."""


class CallAttack(Attack):
    """`given`: the values of some fields, by their names."""

    def __init__(
        self,
        address: str,
        rpcs: Sequence[Rpc],
        names: Sequence[str],
        given: Mapping[str, Callable[[Random], Any]],
        pem: Pem | None = None,
    ) -> None:
        self._address = address
        self._rpcs = rpcs
        self._names = names
        self._given = given
        self._pem = pem
        self._channel = self._open()
        self._replaced: list[grpc.aio.Channel] = []
        self._turns = 0

    def _open(self) -> grpc.aio.Channel:
        return open_channel(self._address, self._pem, OPTIONS)

    async def turn(self, random: Random) -> int:
        self._turns += 1
        if self._turns % CHANNEL_TURNS == 0:
            self._replaced.append(self._channel)
            self._channel = self._open()
        if len(self._replaced) > 1:
            await self._replaced.pop(0).close()
        rpc = random.choice(self._rpcs)
        hostile = Hostile(random, self._names, self._given, size_max=MESSAGE_BYTES_MAX)
        messages = (hostile.message(rpc.request) for _ in range(random.randint(1, STREAM_MESSAGES)))
        return max(1, await send(self._channel, rpc, messages, CALL_S_MAX))

    async def close(self) -> None:
        for channel in (self._channel, *self._replaced):
            await channel.close()
