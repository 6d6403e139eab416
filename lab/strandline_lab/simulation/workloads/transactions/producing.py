"""The life of a transactional producer: it transforms inputs, exactly once, until it dies or is fenced.

Its inputs are numbers, those from its group's offset on: the records of input n say n. So each number is to
be found once in what is committed, and the group's offset says how many there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from strandline_lab.simulation.kafka.client import KafkaClient
from strandline_lab.simulation.kafka.transactions import (
    OLD,
    V1,
    V2,
    Abortable,
    Fenced,
    GaveUp,
    TransactionalProducer,
)
from strandline_lab.simulation.stage import CoordinatorStep, Stage
from strandline_lab.simulation.workloads.transactions.history import Attempt, History, Initialized

SPOKEN: Final = (OLD, V1, V2, V2)
INPUTS_MAX: Final = 3
"""Inputs of one transaction."""
BATCHES_MAX: Final = 4
COMMIT_RATE: Final = 3 / 4
RENEWED_RATE: Final = 1 / 8
"""The part of all ends after which a producer asks for its next epoch."""
SLOW_RATE: Final = 1 / 25
"""The part of all steps before which a producer takes its time, for up to SLOW_S."""
SLOW_S: Final = 2.0
DEATH_RATE: Final = 1 / 2
REQUESTS_MAX: Final = 60
"""A life that no fault ends, ends with one of this number of requests, or soon after it has left."""
DEATH_S_MAX: Final = 0.003
LEFT_OPEN_RATE: Final = 1 / 2
"""The part of the last lives that leave their transaction open."""
LATE_RATE: Final = 1 / 2
"""The part of what is to be aborted whose last batch may come after the request for that."""
LATE_S_MAX: Final = 0.01
"""How long before that request the batch leaves, at most."""
SHADOW: Final = b"shadow"
"""Begins the key of a record that only aborted transactions write again, of which each partition has one."""


class Producing:
    """All lives of one process."""

    def __init__(
        self,
        stage: Stage,
        history: History,
        random: Random,
        new_client: Callable[[], KafkaClient],
        owner: str,
        partitions: int,
        input_partition: int,
        group: str,
        timeout_s: float,
        pause_s: float,
        retires_s: float,
        *,
        harder: bool,
        shadows: bool,
        used_up: bool,
    ) -> None:
        """`owner`: the transactional id. `input_partition`: where the group has its offset. `retires_s`: when
        it is used for the last time. `harder`: as of the plan. `shadows`: aborted records have keys of
        committed ones. `used_up`: its producer ids are."""
        self._stage = stage
        self._history = history
        self._random = random
        self._new_client = new_client
        self._owner = owner
        self._partitions = partitions
        self._input = input_partition
        self._group = group
        self._timeout_s = timeout_s
        self._pause_s = pause_s
        self._retires_s = retires_s
        self._harder = harder
        self._shadows = shadows
        self._used_up = used_up

    def _over(self) -> bool:
        return self._stage.faults_ended.is_set() or self._stage.now_s >= self._retires_s

    async def run(self) -> None:
        """Lives, one after the other, until the faults have ended, or no one uses the transactional id."""
        while not self._over():
            client = self._new_client()
            try:
                async with asyncio.timeout(None) as death:
                    await self._live(client, self._producer(client, death))
            except (Fenced, Abortable, GaveUp, TimeoutError):
                pass
            finally:
                client.close()
            await self._sleep(self._pause_s)

    def _producer(self, client: KafkaClient, death: asyncio.Timeout) -> TransactionalProducer:
        """It tells faults of its steps, and dies at one of them."""
        left = self._random.randint(1, REQUESTS_MAX) if self._random.random() < DEATH_RATE else 0
        loop = asyncio.get_running_loop()

        def note(what: str) -> None:
            nonlocal left
            self._stage.step(CoordinatorStep(self._owner, what, decisive=what == "end"))
            left -= 1
            if left == 0:
                death.reschedule(loop.time() + self._random.uniform(0, DEATH_S_MAX))

        return TransactionalProducer(
            client,
            self._owner,
            self._group,
            self._random.choice(SPOKEN),
            int(self._timeout_s * 1000),
            note,
            used_up=self._used_up,
        )

    async def _live(self, client: KafkaClient, producer: TransactionalProducer) -> None:
        await client.refresh()
        await self._initialize(producer)
        while not self._over():
            attempt = await self._begin(producer)
            commits = self._commits() if self._harder else None
            try:
                await self._fill(producer, attempt, aborts=commits is False)
                commit = self._commits() if commits is None else commits
            except Abortable:
                commit = False
            if self._over() and self._random.random() < LEFT_OPEN_RATE:
                return
            await self._end(producer, attempt, commit=commit)
            if producer.unresolved or self._random.random() < RENEWED_RATE:
                await self._initialize(producer)
            await self._sleep(self._pause_s)

    def _commits(self) -> bool:
        return self._random.random() < COMMIT_RATE

    async def _initialize(self, producer: TransactionalProducer) -> None:
        await producer.initialize()
        self._history.initialized.append(Initialized(self._owner, producer.identity, self._stage.now_s))

    async def _begin(self, producer: TransactionalProducer) -> Attempt:
        begin = await producer.offset(self._input)
        end = begin + self._random.randint(1, INPUTS_MAX)
        return self._history.begin(self._owner, producer.identity, begin, end)

    async def _fill(self, producer: TransactionalProducer, attempt: Attempt, *, aborts: bool) -> None:
        """Writes some batches, and commits the offset before one of them or after them all. `aborts`: it is
        going to be aborted."""
        count = self._random.randint(1, BATCHES_MAX)
        places = [self._random.randrange(self._partitions) for _ in range(count)]
        named = sorted(set(places))
        if producer.names_partitions:
            await producer.add_partitions(named)
        if self._shadows and aborts:
            await self._write_shadow(producer, attempt, places[0])
        commits_at = self._random.randint(0, len(places))
        late = len(places) - 1 if aborts and self._random.random() < LATE_RATE else None
        for place, partition in enumerate(places):
            await self._dawdle()
            if place == commits_at:
                await self._commit_offset(producer, attempt)
            values = [
                f"{attempt.owner}/{attempt.number}/{place}/{number}".encode()
                for number in range(attempt.begin, attempt.end)
            ]
            attempt.sent += [(partition, value) for value in values]
            if place == late:
                producer.write_late(partition, values)
                await asyncio.sleep(self._random.uniform(0, LATE_S_MAX))
                return
            offset = await producer.write(partition, values)
            attempt.acked |= {value: offset + at for at, value in enumerate(values)}
        if commits_at == len(places):
            await self._commit_offset(producer, attempt)
        await self._dawdle()

    async def _write_shadow(self, producer: TransactionalProducer, attempt: Attempt, partition: int) -> None:
        value = f"{attempt.owner}/{attempt.number}/shadow".encode()
        attempt.sent.append((partition, value))
        attempt.acked[value] = await producer.write(partition, (value,), SHADOW + b" %d" % partition)

    async def _commit_offset(self, producer: TransactionalProducer, attempt: Attempt) -> None:
        if producer.names_partitions:
            await producer.add_offsets()
        await producer.commit_offset(self._input, attempt.end)

    async def _end(self, producer: TransactionalProducer, attempt: Attempt, *, commit: bool) -> None:
        attempt.asked, attempt.asked_s = commit, self._stage.now_s
        await producer.end(commit=commit)
        attempt.answered = True

    async def _dawdle(self) -> None:
        if self._random.random() < SLOW_RATE:
            await self._sleep(self._random.uniform(0, SLOW_S))

    async def _sleep(self, mean_s: float) -> None:
        if mean_s > 0:
            await asyncio.sleep(self._random.expovariate(1 / mean_s))
