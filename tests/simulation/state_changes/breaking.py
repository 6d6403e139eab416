"""Takes a rule out of the real code, for as long as a walk lasts; and sees what is executed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.broker.core.state_changes.queue import Execute, Record, StateQueue
from strandline.broker.state_changes.execution import ExecutionResult, Executor
from strandline.broker.state_changes.receiver import StateChangeReceiver
from strandline.vocabulary.metadata import PartitionState
from strandline.vocabulary.state_changes import RequestState, StateChange
from tests.simulation.state_changes.rules import Rule

if TYPE_CHECKING:
    from tests.simulation.state_changes.world import World


@contextmanager
def breaking(world: World) -> Iterator[None]:
    """The checks that the server omits instead are in `Truth.relaxed`."""
    with pytest.MonkeyPatch.context() as patches:
        _observe(patches, world)
        match world.broken:
            case Rule.RECORD_BEFORE_REMOVE:
                patches.setattr(StateChangeReceiver, "_record", _remove_at_once)
            case Rule.TRAIL:
                patches.setattr(znodes, "dump_isr", _without_trail)
            case Rule.TOPIC_ID:
                patches.setattr(Executor, "_delete", _delete_by_name)
            case Rule.IN_ORDER:
                patches.setattr(StateQueue, "_execute", _execute_all)
            case _:
                pass
        yield


def _observe(patches: pytest.MonkeyPatch, world: World) -> None:
    execute = Executor.execute

    async def observed(self: Executor, change: StateChange, *given: Any) -> ExecutionResult:
        life = self._session
        try:
            world.truth.begins(life, change)
        except AssertionError as violation:
            world.truth.violations.append(violation)  # type: ignore[arg-type]
        try:
            return await execute(self, change, *given)
        finally:
            world.truth.ends(life, change)

    patches.setattr(Executor, "execute", observed)


def _remove_at_once(self: StateChangeReceiver, effect: Record) -> None:
    self._queue.recorded(effect.entry)
    self._changed.set()


_dump_isr = znodes.dump_isr


def _without_trail(state: PartitionState) -> bytes:
    return _dump_isr(replace(state, trail=()))


async def _delete_by_name(self: Executor, change: StateChange) -> ExecutionResult:
    for replica in self._manager.all():
        if replica.name == (change.topic, change.key.partition):
            await self.remove(replica)
    return ExecutionResult(RequestState.COMPLETED)


def _execute_all(self: StateQueue, key: Any) -> None:
    partition = self._partitions.get(key)
    while partition is not None and partition.waiting:
        entry, change = partition.waiting.pop()
        self._executing[entry.name, change.request_id] = change
        self._effects.append(Execute(entry.name, change))
