"""Every mutation there is."""

from __future__ import annotations

from typing import Final

from strandline_lab.simulation.proof.mutation import Mutation
from strandline_lab.simulation.proof.mutations.decided_logs import DECIDED_LOGS
from strandline_lab.simulation.proof.mutations.elections import ELECTIONS
from strandline_lab.simulation.proof.mutations.in_sync import IN_SYNC
from strandline_lab.simulation.proof.mutations.kafka import KAFKA
from strandline_lab.simulation.proof.mutations.members.assigned import ASSIGNED
from strandline_lab.simulation.proof.mutations.members.classic import GROUPS
from strandline_lab.simulation.proof.mutations.parts import PARTS
from strandline_lab.simulation.proof.mutations.positions import POSITIONS
from strandline_lab.simulation.proof.mutations.requests import REQUESTS
from strandline_lab.simulation.proof.mutations.sessions import SESSIONS
from strandline_lab.simulation.proof.mutations.streams import STREAMS
from strandline_lab.simulation.proof.mutations.transactions import TRANSACTIONS
from strandline_lab.simulation.proof.mutations.truncation import TRUNCATION
from strandline_lab.simulation.proof.mutations.watermark import WATERMARK

MUTATIONS: Final[tuple[Mutation, ...]] = (
    *TRUNCATION,
    *WATERMARK,
    *IN_SYNC,
    *ELECTIONS,
    *SESSIONS,
    *REQUESTS,
    *PARTS,
    *GROUPS,
    *ASSIGNED,
    *POSITIONS,
    *STREAMS,
    *KAFKA,
    *TRANSACTIONS,
    *DECIDED_LOGS,
)
