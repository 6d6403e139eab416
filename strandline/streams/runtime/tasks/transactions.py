"""Commits what the tasks of a member have processed in transactions, one at a time (KIP-447).

A transaction has the outputs, the changes of state and the positions in the inputs of each of its tasks. All
tasks that want to commit while one is under way are in the next one, so there are few of them, however many
tasks there are; and one is open only while it is written.

Two members may take the same task for theirs, if one was expelled and does not know it. The group decides:
positions are sent with the member's generation, after all that was written is in its logs, and are refused if
the group has gone on without the member. So what the next owner finds at the ends of its logs is all that can
be committed there yet, and it waits until that is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strandline.consumer.consumer import Consumer
from strandline.errors import (
    FencedInstanceId,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidTransactionState,
    Outcome,
    OutOfOrderSequence,
    ProducerFenced,
    StrandlineError,
    TransactionAbortable,
    UnexpectedOffset,
    UnknownMemberId,
    UnknownProducerId,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicPartition
from strandline.producer.producer import Producer
from strandline.streams.core.task import TaskId
from strandline.vocabulary.groups import NO_GENERATION
from strandline.vocabulary.log_position import LogPosition

_PASSING: Final = (
    FencedInstanceId,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    ProducerFenced,
    UnexpectedOffset,
    UnknownMemberId,
    UnknownProducerId,
)
"""Fatal errors of one transaction, which the next one may not have: the group has gone on, or the coordinator
has aborted it. A producer that is fenced for good is over with its abort."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one task commits. `write` sends its outputs and its state, and returns once the state is in the
    changelog; `is_void` is True once nothing of it may be committed."""

    task: TaskId
    positions: Mapping[TopicPartition, LogPosition]
    write: Callable[[], Coroutine[Any, Any, None]]
    is_void: Callable[[], bool]


@dataclass(slots=True)
class _Wanted:
    """A part that waits for its transaction, and how that ended."""

    part: Part
    ended: bool = False
    error: StrandlineError | None = None


class Transactions:
    """Those of one member. `producer` writes all of them, `consumer` is the member of the group."""

    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self._producer = producer
        self._consumer = consumer
        self._wanted: list[_Wanted] = []
        self._turn = asyncio.Lock()

    async def commit(self, part: Part) -> None:
        """Return once the part is committed, in one transaction with those of other tasks.

        Raises TransactionAbortable if the transaction was aborted: nothing of it counts, and all of its tasks
        begin again from their last commit. After any other error this member cannot go on.
        """
        wanted = _Wanted(part)
        self._wanted.append(wanted)
        try:
            async with self._turn:
                if not wanted.ended:
                    await asyncio.sleep(0)  # tasks that commit at the same time come along
                    taken, self._wanted = self._wanted, []
                    await self._carry_out(taken)
        finally:
            if wanted in self._wanted:
                self._wanted.remove(wanted)
        if wanted.error is not None:
            raise wanted.error

    async def _carry_out(self, wanted: Sequence[_Wanted]) -> None:
        """One transaction; notes in each how it ended."""
        error: StrandlineError | None = TransactionAbortable("the commit was cancelled")
        try:
            await self._transaction([each.part for each in wanted])
            error = None
        except StrandlineError as failure:
            error = self._kind(failure)
        finally:
            for each in wanted:
                each.ended, each.error = True, error

    async def _transaction(self, parts: Sequence[Part]) -> None:
        async with self._producer.transaction() as transaction:
            await _write(parts)
            # No await until the offsets are sent: they are of the generation that these parts are of.
            group, mine = self._consumer.group_metadata(), self._consumer.assignment()
            offsets: dict[TopicPartition, LogPosition] = {}
            for part in parts:
                reached = {name: at for name, at in part.positions.items() if name in mine}
                if part.is_void() or not reached or group.generation == NO_GENERATION:
                    raise TransactionAbortable(f"task {part.task} was taken away before its commit")
                offsets |= reached
            await transaction.send_offsets(offsets, group)

    def _kind(self, error: StrandlineError) -> StrandlineError:
        """TransactionAbortable if the tasks can go on, else what the member ends with."""
        if self._producer.failure is not None:
            return self._producer.failure
        cause = error
        while isinstance(cause, TransactionAbortable) and isinstance(cause.__cause__, StrandlineError):
            cause = cause.__cause__
        fatal = cause.outcome is Outcome.FATAL and not isinstance(cause, (*_PASSING, TransactionAbortable))
        if fatal or isinstance(cause, UnknownTopicOrPartition):
            return cause
        if isinstance(error, TransactionAbortable):
            return error
        aborted = TransactionAbortable(f"the commit was aborted: {error.message}")
        aborted.__cause__ = error
        return aborted


async def _write(parts: Sequence[Part]) -> None:
    """All parts at the same time. Raises the first error."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(part.write())
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
