"""Mutations that break the rules of truncation and leader epochs (T)."""

from __future__ import annotations

from typing import Final

from strandline.simulation.proof.mutation import Mutation

_LEADER_END: Final = "broker/replication/leader_end.py"

TRUNCATION: Final = (
    Mutation(
        "a diverging log is not told to truncate",
        "T7",
        _LEADER_END,
        "(epoch, end) if epoch != request.last_fetched_epoch or end < request.fetch_offset else None",
        "None",
    ),
)
