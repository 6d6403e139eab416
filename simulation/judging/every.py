"""Every judge there is."""

from __future__ import annotations

from strandline.simulation.judging.copies import Copies
from strandline.simulation.judging.elections import Elections
from strandline.simulation.judging.judge import Judge
from strandline.simulation.judging.observer import Observer
from strandline.simulation.judging.replicas import Replicas
from strandline.simulation.judging.sessions import Sessions
from strandline.simulation.stage import Stage


def new_judges(stage: Stage) -> list[Judge]:
    """The judges of one run, in the order in which they look at the end."""
    return [Observer(stage), Copies(stage), Replicas(stage), Elections(stage), Sessions(stage)]
