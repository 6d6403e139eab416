"""Mutations that break the rules of elections, of fencing, and of what ZooKeeper has (E)."""

from __future__ import annotations

from typing import Final

from strandline.simulation.faults.every import POWER
from strandline.simulation.proof.mutation import Mutation

_ELECTION: Final = "broker/core/election/election.py"
_LIVES: Final = "broker/replicas/log_lives.py"
_LEADERSHIP: Final = "broker/replicas/leadership.py"
_FOLLOWER_END: Final = "broker/replication/follower_end.py"
_FENCED: Final = "controller/term/fenced_session.py"

_POWER: Final = tuple(sorted(POWER))

ELECTIONS: Final = (
    Mutation(
        "a log that may have lost its end counts for all lives of its broker",
        "E2",
        _LIVES,
        "    return lives_present(folder, log) & folder.lives_after(log.provenance.unsure_through)\n",
        "    return lives_present(folder, log)\n",
        faults=_POWER,
    ),
    Mutation(
        "a leader counts its own records before they are synced",
        "E3",
        _LEADERSHIP,
        "            if log.needs_flush(now):\n",
        "            if log.needs_flush(now) and not self.followers:\n",
        faults=_POWER,
    ),
    Mutation(
        "a follower reports records before they are synced",
        "E3",
        _FOLLOWER_END,
        "            if log.needs_flush(self._clock.monotonic()):\n                unsynced",
        "            if not log:\n                unsynced",
        faults=_POWER,
    ),
    Mutation(
        "a member of the ISR stands in any later life",
        "E4",
        _ELECTION,
        " == ballot.me and member.broker_epoch in ballot.lives for",
        " == ballot.me for",
        faults=_POWER,
    ),
    Mutation(
        "a controller takes a write whose answer was lost for done",
        "E9",
        _FENCED,
        "            except ConnectionLost:\n                in_doubt = True\n",
        "            except ConnectionLost:\n                return\n",
        faults=("lose the ZooKeeper leader", "isolate a ZooKeeper server", "cut", "reset"),
        workloads=("operations",),
    ),
    Mutation(
        "a log goes on after an error of its disk",
        "E14",
        "broker/storage/fence.py",
        "                self.failed = str(error)\n",
        "                pass\n",
        faults=("spoil disk", "fill disk"),
    ),
    Mutation(
        "a reassignment is done once one of its targets is in sync",
        "E16",
        "broker/core/replication/reassignment.py",
        "else count == len(wanted.target)\n",
        "else count > 0\n",
        workloads=("operations",),
    ),
    Mutation(
        "a new log counts for the lives of its broker before it",
        "E18",
        _LIVES,
        "    return folder.lives_after(log.provenance.absent_through)\n",
        "    return folder.lives_after(None)\n",
        faults=_POWER,
    ),
)
