"""Mutations that break the rules of transactions (C): their coordinators, and offsets of groups in them."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.faults.every import AIMED_AT_HARDER
from strandline_lab.simulation.proof.mutation import Mutation

_COORDINATOR: Final = "strandline/broker/core/transactions/coordinator.py"
_DECISIONS: Final = "strandline/broker/core/transactions/decisions.py"
_PROGRESS: Final = "strandline/broker/core/transactions/progress.py"
_RIGHTS: Final = "strandline/broker/transactions/rights.py"
_SENDER: Final = "strandline/broker/transactions/marker_sender.py"
_GROUPS: Final = "strandline/broker/groups/handlers.py"
_OFFSETS: Final = "strandline/broker/core/groups/state/offsets.py"
_LOADING: Final = "strandline/broker/coordinators/loading.py"
_TRANSACTIONS: Final = ("transactions",)

TRANSACTIONS: Final = (
    Mutation(
        "a producer is answered before the decision is in the log",
        "C1",
        _COORDINATOR,
        "        self._turn.write(entry, wanted, call, answer, AbortReason.ASKED)\n",
        "        self._turn.answer(call, answer)\n"
        "        self._turn.write(entry, wanted, reason=AbortReason.ASKED)\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "a decision that may not be in the log is carried out",
        "C1",
        _PROGRESS,
        "    if error is not None:\n        _not_written(turn, entry, write, error)\n",
        "    if error is not None and not (write.wanted and write.wanted.ending):\n"
        "        _not_written(turn, entry, write, error)\n",
        workloads=_TRANSACTIONS,
        seed=373,
    ),
    Mutation(
        "a commit is answered although the transaction was aborted for its timeout",
        "C1",
        _DECISIONS,
        """    if held.commits is not request.commit:
        raise _other_decision(held, request)
    if held.ending:
        raise being_ended(held.transactional_id)
    return held
""",
        """    if held.ending:
        raise being_ended(held.transactional_id)
    return held
""",
        workloads=_TRANSACTIONS,
        seed=31,
    ),
    Mutation(
        "a marker that was refused counts as written",
        "C3",
        _SENDER,
        "            if (error := outcome.result()) is None:\n",
        "            if (error := outcome.result()) is None or error:\n",
        workloads=_TRANSACTIONS,
        seed=33,
    ),
    Mutation(
        "a transaction is complete with the first of its markers",
        "C3",
        _PROGRESS,
        "    entry.unmarked = set(held.partitions)\n",
        "    entry.unmarked = set()\n",
        workloads=_TRANSACTIONS,
    ),
    Mutation(
        "a coordinator does not continue what the last one has decided",
        "C3",
        _PROGRESS,
        "    elif held is not None and held.ending:\n        _mark(turn, entry, held)\n",
        "",
        workloads=_TRANSACTIONS,
        seed=37,
    ),
    Mutation(
        "a coordinator does not watch the transactions that began under the last one",
        "C3",
        _PROGRESS,
        "        entry.deadline_s = turn.start(entry.transactional_id, min(max(left_ms, 0), allowed_ms))\n",
        "        entry.deadline_s = turn.now.monotonic_s + min(max(left_ms, 0), allowed_ms)\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "a coordinator trusts the clock of the last one",
        "C3",
        _PROGRESS,
        "        entry.deadline_s = turn.start(entry.transactional_id, min(max(left_ms, 0), allowed_ms))\n",
        "        entry.deadline_s = turn.start(entry.transactional_id, max(left_ms, 0))\n",
        faults=("set the dates of coordinators apart",),
        workloads=_TRANSACTIONS,
        seed=412,
    ),
    Mutation(
        "no transaction runs out of time",
        "C3",
        _PROGRESS,
        "turn.write(entry, decisions.timed_out(held, turn.now.wall_ms), reason=AbortReason.TIMEOUT)\n",
        "return\n",
        workloads=_TRANSACTIONS,
        seed=33,
    ),
    Mutation(
        "a leader appends what the coordinator does not know",
        "C3",
        _RIGHTS,
        "answers[name] or Transactional(producer, guard)",
        "Transactional(producer, guard) if answers else answers[name]",
        workloads=_TRANSACTIONS,
        seed=41,
    ),
    Mutation(
        "a new producer gets the epoch of the one before it",
        "C5",
        _DECISIONS,
        "ProducerIdentity(held.producer.producer_id, held.producer.producer_epoch + 1)\n    elif",
        "ProducerIdentity(held.producer.producer_id, held.producer.producer_epoch)\n    elif",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "the last epoch of a producer id is given to a client",
        "C5",
        "strandline/broker/core/transactions/transaction.py",
        "        return self.producer.producer_epoch >= EPOCH_MAX - 1\n",
        "        return self.producer.producer_epoch >= EPOCH_MAX\n",
        faults=AIMED_AT_HARDER,
        workloads=_TRANSACTIONS,
        seed=322,
    ),
    Mutation(
        "an own producer commits before its records are delivered",
        "C1",
        "strandline/producer/transactions.py",
        "        await self._buffer.flush()\n",
        "",
        faults=AIMED_AT_HARDER,
        workloads=_TRANSACTIONS,
        seed=37,
    ),
    Mutation(
        "a fenced producer ends the transaction of the next one",
        "C5",
        _DECISIONS,
        "    if asking == held.holder:\n",
        "    if held.holder and asking.producer_id == held.holder.producer_id:\n",
        workloads=_TRANSACTIONS,
        seed=33,
    ),
    Mutation(
        "the offsets of an aborted transaction count",
        "C2",
        _OFFSETS,
        "            if commit:\n                self.replay(name, committed, position)\n",
        "            self.replay(name, committed, position)\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "a coordinator that loads takes the offsets of open transactions for committed ones",
        "C2",
        _LOADING,
        "        producer_id = header.producer_id if header.is_transactional else None\n",
        "        producer_id = None\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "a coordinator that loads passes over markers",
        "C2",
        _LOADING,
        "                if marker is not None:\n",
        "                if marker is not None and marker.coordinator_epoch < 0:\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "offsets that an open transaction replaces count as stable",
        "C2",
        _OFFSETS,
        "        return name in self.pending or name in self._unstable\n",
        "        return False\n",
        workloads=_TRANSACTIONS,
        seed=37,
    ),
    Mutation(
        "groups do not hear of the markers in their log",
        "C2",
        "strandline/broker/transactions/log_markers.py",
        "        if entry.name.topic == OFFSETS_TOPIC:\n",
        "        if entry.name.topic != OFFSETS_TOPIC:\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "offsets are written although their transaction's coordinator refuses",
        "C2",
        _GROUPS,
        "        error = answers[place]\n        if error is not None:\n",
        "        error = answers[place]\n        if error is not None and error.retriable:\n",
        workloads=_TRANSACTIONS,
        seed=33,
    ),
)
