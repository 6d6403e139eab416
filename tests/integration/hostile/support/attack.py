"""Attacks in turns, each from its own seed, so that one turn can be repeated alone."""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

SENDERS = 24


class Attack(ABC):
    """One kind of hostile inputs for one port."""

    @abstractmethod
    async def turn(self, random: Random) -> int:
        """One connection, call or stream. Returns the number of inputs that were sent."""

    @abstractmethod
    async def close(self) -> None:
        """The attack is over."""


@dataclass(frozen=True, slots=True)
class Fuzz:
    """How much is sent, and from which seed."""

    inputs: int
    seed: int

    async def run(self, attack: Attack) -> None:
        """Several senders take turns until the inputs are sent. An error names its turn."""
        turns = itertools.count()
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < self.inputs:
                number = next(turns)
                try:
                    took = await attack.turn(self.random(number))
                except Exception as error:
                    error.add_note(f"turn {number} of seed {self.seed}")
                    raise
                sent += took

        async with asyncio.TaskGroup() as tasks:
            for _ in range(SENDERS):
                tasks.create_task(send())
        await attack.close()

    def random(self, turn: int) -> Random:
        return Random((self.seed << 32) + turn)


def spoiled(random: Random, data: bytes, count_max: int) -> bytes:
    """With a few bytes changed."""
    changed = bytearray(data or b"\0")
    for _ in range(random.randint(1, count_max)):
        changed[random.randrange(len(changed))] = random.choice(
            (0, 1, 0x7F, 0x80, 0xFF, random.randrange(256))
        )
    return bytes(changed)


def rearranged(random: Random, samples: Sequence[bytes]) -> bytes:
    """A sample that is cut off, or has a part twice, without a part, or from another sample."""
    one, other = random.choice(samples), random.choice(samples)
    first, last = sorted((random.randrange(len(one) + 1), random.randrange(len(one) + 1)))
    at = random.randrange(len(other) + 1)
    return random.choice(
        (one[:first], one[:last] + one[first:], one[:first] + one[last:], one[:first] + other[at:])
    )
