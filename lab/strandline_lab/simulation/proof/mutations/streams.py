"""Mutations that break the rules of stream tasks (S)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.proof.mutation import Mutation

_ACTIVE: Final = "strandline/streams/runtime/tasks/active.py"

_STREAMS: Final = ("counting",)

STREAMS: Final = (
    Mutation(
        "a task that was abandoned still writes to its store",
        "S2",
        _ACTIVE,
        """            if self.abandoned():
                return
            if self._state is not None and self._writer is not None:
""",
        """            if self._state is not None and self._writer is not None:
""",
        workloads=_STREAMS,
    ),
    Mutation(
        "the store has changes that the changelog may not get",
        "S3",
        _ACTIVE,
        """        if self._writer is not None and not self.abandoned():
            await self._writer.append(changes)
""",
        """        if self._writer is not None and not self.abandoned():
            if self._state is not None:
                self._state.settle(*self._writer.checkpoint)
            await self._writer.append(changes)
""",
        workloads=_STREAMS,
    ),
    Mutation(
        "a changelog takes batches of a former owner",
        "S8",
        "strandline/streams/runtime/tasks/changelog_writer.py",
        "expected = self.checkpoint.offset if self._is_conditional else None",
        "expected = None",
        workloads=_STREAMS,
    ),
    Mutation(
        "a leader that was replaced, and does not know it, ends an application",
        "S8",
        "strandline/streams/runtime/tasks/changelog_writer.py",
        "error.outcome is Outcome.UNKNOWN or isinstance(error, OutOfOrderSequence)",
        "error.outcome is Outcome.UNKNOWN",
        workloads=_STREAMS,
        seed=None,
    ),
    Mutation(
        "an output that was written twice is counted twice",
        "S9",
        _ACTIVE,
        "self._state is not None and self._positions.origins.seen(content)",
        "self._positions.origins.seen(content) is None",
        workloads=_STREAMS,
        seed=1,
    ),
    Mutation(
        "the next owner does not know which outputs were counted",
        "S9",
        "strandline/streams/core/positions.py",
        "        headers = self.origins.headers()\n",
        "        headers: list[bytes] = []\n",
        workloads=_STREAMS,
        seed=26,
    ),
    Mutation(
        "a store is restored though its changelog has forgotten what it lacks",
        "S12",
        "strandline/streams/core/checkpoint.py",
        "    if age_ms <= tombstones_ms * TOMBSTONES_SHARE:\n",
        "    if age_ms >= 0:\n",
        workloads=("forgetting",),
        seed=44,
    ),
    Mutation(
        "a task commits before its outputs are acknowledged",
        "S9",
        _ACTIVE,
        "            await self._outputs.flush()\n",
        "            await self._outputs.send()\n",
        workloads=_STREAMS,
    ),
)
