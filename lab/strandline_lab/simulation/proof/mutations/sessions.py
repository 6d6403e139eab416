"""Mutations that break the rules of sessions in ZooKeeper (E20 to E22)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.proof.mutation import Mutation

_LOST_ANSWERS: Final = ("lose ZooKeeper's answers to a leader",)

SESSIONS: Final = (
    Mutation(
        "a session is named to servers that answer nothing",
        "E20",
        "strandline/adapters/zookeeper/connection/naming.py",
        "        return self._named_at is not None and now < self._named_at + self._again_after_s\n",
        "        return False\n",
        faults=_LOST_ANSWERS,
        seed=39,
    ),
    Mutation(
        "a ZooKeeper that was set back goes unnoticed",
        "E21",
        "strandline/adapters/zookeeper/set_back.py",
        "looking.result() < seen:",
        "looking.result() < 0:",
        faults=("set ZooKeeper back",),
        seed=None,
        stalls=True,
    ),
    Mutation(
        "a multi that was rolled back with another's counts as carried out",
        "E22",
        "strandline/adapters/zookeeper/requests/merged.py",
        "        self._send_lot(others[half:])\n",
        "        for w in others[half:]:\n            _settle(w.outcome, [0 for _ in w.operations])\n",
        seed=8,
    ),
)
