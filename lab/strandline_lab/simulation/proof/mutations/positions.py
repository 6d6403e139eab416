"""Mutations that break the rules of positions: each belongs to one log (G19), as batches of producers do."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.faults.every import CUT_AND_BACK, CUT_LOG
from strandline_lab.simulation.proof.mutation import Mutation

_POSITIONS: Final = "strandline/client/core/positions.py"

_REPLACING: Final = ("replacing",)
_CUTTING: Final = ("cutting",)

POSITIONS: Final = (
    Mutation(
        "a consumer goes on at its offset in a topic that was made anew",
        "G19",
        _POSITIONS,
        """                effects += self.unknown(state.name, Reset.EARLIEST)
        return effects
""",
        """        return effects
""",
        workloads=_REPLACING,
        seed=46,
    ),
    Mutation(
        "a leader compares no epoch of a position",
        "G19",
        "strandline/broker/log/leader_epochs.py",
        "        if compare(kept, replica.key.topic_id, end) is Match.SAME:\n",
        "        if kept.offset <= replica.log.log_end_offset:\n",
        faults=(CUT_LOG, CUT_AND_BACK),
        workloads=_CUTTING,
        seed=None,
    ),
    Mutation(
        "a commit is kept without the epoch of the record before it",
        "G19",
        "strandline/consumer/group/commits.py",
        "    return CommittedOffset.of(state.log.at(offset))\n",
        "    return replace(CommittedOffset.of(state.log.at(offset)), leader_epoch=-1)\n",
        faults=(CUT_LOG,),
        workloads=_CUTTING,
        seed=201,
    ),
    Mutation(
        "a producer keeps the route to a topic that was deleted",
        "G19",
        "strandline/producer/topics.py",
        "        if same_topic(route.topic_id, metadata.topic_id):\n",
        "        if route.topic_id:\n",
        workloads=_REPLACING,
        seed=8,
    ),
)
