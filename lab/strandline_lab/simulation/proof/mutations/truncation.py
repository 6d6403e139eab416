"""Mutations that break the rules of truncation and leader epochs (T)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.proof.mutation import Mutation

_LEADER_END: Final = "strandline/broker/replication/leader_end.py"
_FOLLOWER_END: Final = "strandline/broker/replication/follower_end.py"
_EPOCHS: Final = "strandline/broker/core/replication/epochs.py"
_APPENDING: Final = "strandline/broker/storage/appending.py"
_CUTTING: Final = "strandline/broker/storage/cutting.py"

TRUNCATION: Final = (
    Mutation(
        "a follower truncates its log at its own high watermark",
        "T1",
        _FOLLOWER_END,
        """        self._drop(replica.key)
        self._wanted[replica.key] = replica
""",
        """        self._drop(replica.key)
        replica.log.cutting.truncate_to(replica.high_watermark)
        self._wanted[replica.key] = replica
""",
        seed=0,
    ),
    Mutation(
        "a follower does not write the epochs of what it fetches",
        "T1",
        _APPENDING,
        "        parts.save_epochs(changed=changed)\n",
        "",
        seed=0,
    ),
    Mutation(
        "a leader names the end of its log as the end of an epoch that is over",
        "T3",
        _EPOCHS,
        "        return EpochEnd(floor, entries[above].start_offset)\n",
        "        return EpochEnd(floor, log_end_offset)\n",
        seed=2,
    ),
    Mutation(
        "a leader answers for an epoch that it does not know",
        "T3",
        _EPOCHS,
        "        floor = entries[above - 1].epoch if above else epoch\n",
        "        floor = epoch\n",
        faults=("two leaders in turn",),
        seed=None,
    ),
    Mutation(
        "a leader does not write where its epoch begins",
        "T4",
        _APPENDING,
        "            parts.save_epochs(changed=parts.epochs.assign(epoch, parts.end))\n",
        "            parts.epochs.assign(epoch, parts.end)\n",
        seed=0,
    ),
    Mutation(
        "a diverging log gets no request to truncate",
        "T7",
        _LEADER_END,
        "(epoch, end) if epoch != request.last_fetched_epoch or end < request.fetch_offset else None",
        "None",
        seed=2,
    ),
    Mutation(
        "a truncation leaves the producers as they were",
        "T12",
        _CUTTING,
        """                load_producers(
                    parts.directory, parts.segments, parts.producers,
                    end=offset, clean_offset=facts.clean_offset,
                    files=parts.files, now_ms=parts.clock.wall_ms(),
                )  # fmt: skip
""",
        "",
        seed=17,
    ),
)
