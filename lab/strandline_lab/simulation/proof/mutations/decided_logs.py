"""Mutations that break the rules of transactions (C): what a log knows of them, and what readers get."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.faults.every import AIMED_AT_HARDER
from strandline_lab.simulation.proof.mutation import Mutation

_STATE: Final = "strandline/broker/core/replication/transactions.py"
_PRODUCERS: Final = "strandline/broker/core/replication/producer_state.py"
_APPENDING: Final = "strandline/broker/storage/appending.py"
_SNAPSHOTS: Final = "strandline/broker/storage/snapshots.py"
_DECIDED: Final = "strandline/broker/storage/compaction/decided.py"
_TRANSACTIONS: Final = ("transactions",)
_WITH_MARKERS: Final = ("kill a leader with markers",)

DECIDED_LOGS: Final = (
    Mutation(
        "what is stable ends at the high watermark",
        "C7",
        "strandline/broker/replicas/local_replica.py",
        "        return self.stable_offset if stable else self.high_watermark\n",
        "        return self.high_watermark\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "a transaction counts as decided with a marker that is not committed",
        "C7",
        _STATE,
        "        heapq.heappush(self._undecided, (known.first_offset, marker_offset))\n        if not",
        "        if not",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "aborted transactions are forgotten",
        "C7",
        _STATE,
        "        if not commit:\n",
        "        if commit and not known:\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "aborted transactions come in the order of their markers",
        "C7",
        _STATE,
        "        return sorted((each for each in self._aborted[low:high] if each.first_offset < end), "
        "key=_first_of)\n",
        "        return [each for each in self._aborted[low:high] if each.first_offset < end]\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "a read leaves out the aborted transactions whose markers are behind it",
        "C7",
        _STATE,
        "bisect_right(self._aborted, end + self._longest, key=_marker_of)",
        "bisect_right(self._aborted, end, key=_marker_of)",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "an own consumer reads what was aborted",
        "C7",
        "strandline/records/isolation.py",
        "            return header.is_transactional and header.producer_id in self._aborting\n",
        "            return False\n",
        faults=AIMED_AT_HARDER,
        workloads=_TRANSACTIONS,
        seed=37,
    ),
    Mutation(
        "aborted transactions are forgotten that began below the log's start",
        "C7",
        _STATE,
        "        del self._aborted[: bisect_left(self._aborted, log_start, key=_marker_of)]\n",
        "        self._aborted = [each for each in self._aborted if each.first_offset >= log_start]\n",
        faults=AIMED_AT_HARDER,
        workloads=_TRANSACTIONS,
    ),
    Mutation(
        "what is stable ends below the log's start",
        "C7",
        _STATE,
        "        return max(stable, min(log_start, high_watermark))\n",
        "        return stable\n",
        faults=AIMED_AT_HARDER,
        workloads=_TRANSACTIONS,
        seed=77,
    ),
    Mutation(
        "a snapshot has no open transactions",
        "C4",
        _STATE,
        "            self._open[key] = OpenTransaction(*rest)\n",
        "            OpenTransaction(*rest)\n",
        workloads=_TRANSACTIONS,
        seed=33,
    ),
    Mutation(
        "a snapshot has no aborted transactions",
        "C4",
        _STATE,
        "            self._add(AbortedTransaction(*_ABORTED.unpack_from(data, at)))\n",
        "            AbortedTransaction(*_ABORTED.unpack_from(data, at))\n",
        workloads=_TRANSACTIONS,
        seed=31,
    ),
    Mutation(
        "a broker that starts passes over markers",
        "C4",
        _SNAPSHOTS,
        "                elif (marker := _marker(segment, header)) is not None:\n",
        "                elif (marker := _marker(segment, header)) is not None and now_ms < 0:\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "a follower passes over markers",
        "C4",
        _APPENDING,
        "                elif (marker := markers[header.base_offset]) is not None:\n",
        "                elif (marker := markers[header.base_offset]) is not None and now_ms < 0:\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "transactions stay as they are when a log loses its end",
        "C4",
        "strandline/broker/storage/cutting.py",
        """                load_producers(
                    parts.directory, parts.segments, parts.producers,
                    end=offset""",
        """                load_producers(
                    parts.directory, parts.segments, parts.producers.empty(),
                    end=offset""",
        faults=("two leaders in turn at a step",),
        workloads=_TRANSACTIONS,
    ),
    Mutation(
        "a marker is answered once its leader has it",
        "C4",
        "strandline/broker/replicas/leadership.py",
        "        self._appended(appended, 0, acks=ACKS_ALL, timeout_ms=timeout_ms, done=done)\n",
        "        self._appended(appended, 0, acks=1, timeout_ms=timeout_ms, done=done)\n",
        faults=_WITH_MARKERS,
        workloads=_TRANSACTIONS,
    ),
    Mutation(
        "a marker of a coordinator that was replaced is taken",
        "C5",
        _PRODUCERS,
        "        if marker.coordinator_epoch < producer.coordinator_epoch:\n",
        "        if marker.coordinator_epoch < 0:\n",
        faults=("pause a coordinator at a step",),
        workloads=_TRANSACTIONS,
    ),
    Mutation(
        "a right from before the end of a transaction begins another one",
        "C3",
        _PRODUCERS,
        "        elif transaction.guard != self.guard(header.producer_id):\n",
        "        elif transaction.guard > self.guard(header.producer_id):\n",
        faults=AIMED_AT_HARDER,
        workloads=_TRANSACTIONS,
    ),
    Mutation(
        "a batch that comes again is written again",
        "C6",
        _PRODUCERS,
        "            return Duplicate(batch.base_offset, batch.last_offset)\n",
        "            return ACCEPT\n",
        workloads=_TRANSACTIONS,
    ),
    Mutation(
        "compaction removes a marker that a batch still needs",
        "C7",
        _DECIDED,
        "        needed = marker.producer_id in self._marked\n",
        "        needed = False\n",
        faults=AIMED_AT_HARDER,
        workloads=_TRANSACTIONS,
    ),
    Mutation(
        "compaction keeps what was aborted",
        "C7",
        _DECIDED,
        "        return any(first <= header.base_offset < marker for first, marker in spans)\n",
        "        return any(first > header.base_offset > marker for first, marker in spans)\n",
        workloads=_TRANSACTIONS,
        seed=14,
    ),
    Mutation(
        "compaction goes beyond what is decided",
        "C7",
        "strandline/broker/storage/compaction/cleanable.py",
        "    limit = min(stable_offset, state.recovery_point)\n",
        "    limit = max(stable_offset, state.recovery_point)\n",
        faults=AIMED_AT_HARDER,
        workloads=_TRANSACTIONS,
        seed=41,
    ),
)
