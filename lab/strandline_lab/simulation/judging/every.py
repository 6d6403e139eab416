"""Every judge there is."""

from __future__ import annotations

from strandline_lab.simulation.judging.copies import Copies
from strandline_lab.simulation.judging.elections import Elections
from strandline_lab.simulation.judging.judge import Judge
from strandline_lab.simulation.judging.observer import Observer
from strandline_lab.simulation.judging.replicas import Replicas
from strandline_lab.simulation.judging.sessions import Sessions
from strandline_lab.simulation.judging.wholeness import Wholeness
from strandline_lab.simulation.stage import Stage


def new_judges(stage: Stage) -> list[Judge]:
    """The judges of one run, in the order in which they look at the end."""
    return [
        Observer(stage),
        Copies(stage),
        Replicas(stage),
        Wholeness(stage),
        Elections(stage),
        Sessions(stage),
    ]
