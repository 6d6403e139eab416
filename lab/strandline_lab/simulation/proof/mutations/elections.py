"""Mutations that break the rules of elections, of fencing, and of what ZooKeeper has (E)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.faults.every import POWER
from strandline_lab.simulation.proof.mutation import Mutation

_ELECTION: Final = "strandline/broker/core/election/election.py"
_LIVES: Final = "strandline/broker/replicas/log_lives.py"
_LEADERSHIP: Final = "strandline/broker/replicas/leadership.py"
_FOLLOWER_END: Final = "strandline/broker/replication/follower_end.py"
_FENCED: Final = "strandline/controller/term/fenced_session.py"

_POWER: Final = tuple(sorted(POWER))

ELECTIONS: Final = (
    Mutation(
        "a log that may have lost its end counts for all lives of its broker",
        "E2",
        _LIVES,
        "    return lives_present(folder, log) & folder.lives_after(log.provenance.unsure_through)\n",
        "    return lives_present(folder, log)\n",
        faults=_POWER,
        seed=0,
    ),
    Mutation(
        "a replica outside the ISR stands as its members do",
        "E2",
        _ELECTION,
        "        if any(member.broker == ballot.me and",
        "        if ballot.lives or any(member.broker == ballot.me and",
        seed=0,
    ),
    Mutation(
        "an unclean election is held though its topic does not allow it",
        "E2",
        _ELECTION,
        "        if ballot.unclean_allowed and not deposed:\n",
        "        if not deposed:\n",
        seed=3,
    ),
    Mutation(
        "an unclean election leaves no record that acknowledged records may be missing",
        "E2",
        _ELECTION,
        "        return PartitionState(ballot.me, epoch, (mine,), lossy_epoch=epoch)\n",
        "        return PartitionState(ballot.me, epoch, (mine,))\n",
        faults=_POWER,
        seed=7,
    ),
    Mutation(
        "a leader counts its own records before they are synced",
        "E3",
        _LEADERSHIP,
        "            if log.needs_flush(now):\n",
        "            if log.needs_flush(now) and not self.followers:\n",
        faults=_POWER,
        seed=16,
    ),
    Mutation(
        "a follower reports records before they are synced",
        "E3",
        _FOLLOWER_END,
        "            if log.needs_flush(now):\n                unsynced",
        "            if not log:\n                unsynced",
        faults=_POWER,
        seed=18,
    ),
    Mutation(
        "a log with unsynced records that count says that there are none",
        "E3",
        "strandline/broker/storage/sync_state.py",
        "            self._state.change(synced_only=False)\n",
        "",
        faults=_POWER,
        seed=0,
    ),
    Mutation(
        "a member of the ISR stands in any later life",
        "E4",
        _ELECTION,
        " == ballot.me and member.broker_epoch in ballot.lives for",
        " == ballot.me for",
        faults=_POWER,
        seed=0,
    ),
    Mutation(
        "a controller takes a write whose answer was lost for done",
        "E9",
        _FENCED,
        "            except ConnectionLost:\n                in_doubt = True\n",
        "            except ConnectionLost:\n                return\n",
        faults=("lose the ZooKeeper leader as a controller writes",),
        workloads=("operations",),
        seed=118,
    ),
    Mutation(
        "a new leader takes the epoch of the one before it",
        "E17",
        "strandline/broker/election/elector.py",
        "            epoch = await take_epoch(self._session, known)\n",
        "            epoch = known if known >= 0 else await take_epoch(self._session, known)\n",
        seed=0,
    ),
    Mutation(
        "the logs of new replicas begin before they are synced",
        "E18",
        "strandline/broker/storage/provenance.py",
        "        if len(group) > SYNC_EACH_MAX and sync_disk():\n",
        "        if group:\n",
        faults=_POWER,
        seed=0,
        stalls=True,
    ),
)
