"""What a client needs of a cluster: a test that asks for no more runs on processes and in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from strandline.host import Host


class Reachable(Protocol):
    """`LocalCluster`, `MemoryCluster` and `SimulatedCluster` are such clusters."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def host(self) -> Host: ...

    @property
    def broker_ids(self) -> Sequence[int]: ...
