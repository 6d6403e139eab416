"""Judges sessions in ZooKeeper: none outlives what its owner hears for long (CORRECTNESS E20)."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.judging.judge import Judge, Problem
from strandline_lab.simulation.stage import Stage

UNHEARD_S_MAX: Final = 8.0
"""An owner gives its connection up after two seconds of silence and its next attempt after one; then nothing
names its session, which ends three seconds later. ZooKeeper may be a second late, and a message too."""


class Sessions(Judge):
    """Looks at all living sessions whenever ZooKeeper commits something."""

    def __init__(self, stage: Stage) -> None:
        self._zookeeper = stage.world.zookeeper
        self._found: dict[int, Problem] = {}

    def start(self) -> None:
        self._zookeeper.on_committed.append(self._look)

    def _look(self) -> None:
        for session, owner, unheard_s in self._zookeeper.unheard_s():
            if unheard_s > UNHEARD_S_MAX:
                self._found.setdefault(
                    session,
                    Problem(
                        "sessions",
                        f"session {session:x} of {owner.name} lives on, and its owner has heard nothing of "
                        f"ZooKeeper for {unheard_s:.1f} s",
                    ),
                )

    def problems(self) -> list[Problem]:
        return list(self._found.values())
