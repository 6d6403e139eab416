"""Every mutation there is."""

from __future__ import annotations

from typing import Final

from strandline.simulation.proof.mutation import Mutation
from strandline.simulation.proof.mutations.elections import ELECTIONS
from strandline.simulation.proof.mutations.groups import GROUPS
from strandline.simulation.proof.mutations.in_sync import IN_SYNC
from strandline.simulation.proof.mutations.kafka import KAFKA
from strandline.simulation.proof.mutations.positions import POSITIONS
from strandline.simulation.proof.mutations.requests import REQUESTS
from strandline.simulation.proof.mutations.sessions import SESSIONS
from strandline.simulation.proof.mutations.streams import STREAMS
from strandline.simulation.proof.mutations.truncation import TRUNCATION
from strandline.simulation.proof.mutations.watermark import WATERMARK

MUTATIONS: Final[tuple[Mutation, ...]] = (
    *TRUNCATION,
    *WATERMARK,
    *IN_SYNC,
    *ELECTIONS,
    *SESSIONS,
    *REQUESTS,
    *GROUPS,
    *POSITIONS,
    *STREAMS,
    *KAFKA,
)
