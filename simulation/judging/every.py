"""Every judge there is."""

from __future__ import annotations

from strandline.simulation.judging.judge import Judge
from strandline.simulation.stage import Stage


def new_judges(stage: Stage) -> list[Judge]:
    """The judges of one run."""
    return []
