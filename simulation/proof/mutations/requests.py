"""Mutations that break the rules of the queue of state changes (Q)."""

from __future__ import annotations

from typing import Final

from strandline.simulation.proof.mutation import Mutation

_EXECUTION: Final = "broker/state_changes/execution.py"
_QUEUE: Final = "broker/core/state_changes/queue.py"
_RECEIVER: Final = "broker/state_changes/receiver.py"

_OPERATIONS: Final = ("operations",)

REQUESTS: Final = (
    Mutation(
        "a replica that is assigned again is deleted by an earlier request",
        "Q1",
        _EXECUTION,
        "                    if self._manager.me in facts.assignment.replicas:\n",
        "                    if not facts.assignment.replicas:\n",
        workloads=_OPERATIONS,
    ),
    Mutation(
        "the ends of requests are written over those that are there",
        "Q2",
        _RECEIVER,
        "path, queue_znodes.dump_state_changes(changes), version=version\n",
        "path, queue_znodes.dump_state_changes(changes), version=-1\n",
        workloads=_OPERATIONS,
    ),
    Mutation(
        "requests of one partition are done side by side",
        "Q3",
        _QUEUE,
        "        if partition is None or partition.executing:\n",
        "        if partition is None:\n",
        workloads=_OPERATIONS,
    ),
    Mutation(
        "a later request is superseded by an earlier one",
        "Q4",
        "strandline/vocabulary/coalescing.py",
        "    for change in reversed(queue):\n",
        "    for change in queue:\n",
        workloads=_OPERATIONS,
    ),
    Mutation(
        "a request is removed, and its end is not recorded",
        "Q5",
        _RECEIVER,
        "        self._recorder.record(lives, done)\n",
        "        done(True)\n",
    ),
    Mutation(
        "a deletion that a dead controller began is never finished",
        "Q6",
        "controller/topics/deletion.py",
        "    return [marked for marked in found if marked is not None]\n",
        "    return [marked for marked in found if marked is None]\n",
        workloads=_OPERATIONS,
    ),
)
