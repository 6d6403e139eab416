"""Mutations that break the rules of the queue of state changes (Q)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.proof.mutation import Mutation

_EXECUTION: Final = "strandline/broker/state_changes/execution.py"
_QUEUE: Final = "strandline/broker/core/state_changes/queue.py"
_RECEIVER: Final = "strandline/broker/state_changes/receiver.py"

REQUESTS: Final = (
    Mutation(
        "a request that is superseded has no end in the record",
        "Q1",
        "strandline/vocabulary/state_changes.py",
        "(end := change.end) is not None:\n        if end.rec",
        "(end := change.end) and end.state is not RequestState.SUPERSEDED:\n        if end.rec",
        seed=6,
    ),
    Mutation(
        "a request is removed, and its end is not recorded",
        "Q5",
        _RECEIVER,
        "        self._recorder.record(lives, done)\n",
        "        done(True)\n",
        seed=1,
    ),
    Mutation(
        "a deletion that a dead controller began is never finished",
        "Q6",
        "strandline/controller/topics/deletion.py",
        "    return [marked for marked in found if marked is not None]\n",
        "    return [marked for marked in found if marked is None]\n",
        faults=("kill a controller that deletes", "kill a writer between parts"),
        workloads=("operations", "dividing"),
        seed=159,
    ),
)
