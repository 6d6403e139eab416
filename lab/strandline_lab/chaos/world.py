"""The interface between a nemesis and a cluster of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from strandline.errors import StrandlineError
from strandline_lab.chaos.core.faults import Cut, FaultKind, Member


class WorldFailed(StrandlineError):
    """The cluster could not be made, or a fault could not be applied; the message says what and why."""


class Processes(Protocol):
    """Starts and stops processes. Each call returns when its action is done. Raises WorldFailed if it fails.

    An action that is done already (killing a dead process) is no error. `start` does not wait until it
    serves.
    """

    @property
    def members(self) -> Sequence[Member]:
        """All members, alive or not."""

    async def alive(self, member: Member) -> bool:
        """False if its process ended or was killed. A stopped process is alive."""

    async def kill(self, member: Member) -> None: ...

    async def terminate(self, member: Member) -> None:
        """Returns when the process has ended."""

    async def start(self, member: Member) -> None: ...

    async def pause(self, member: Member) -> None: ...

    async def resume(self, member: Member) -> None: ...


class World(Processes, Protocol):
    """A cluster that serves."""

    @property
    def bootstrap(self) -> str:
        """`host:port` of all brokers, as clients on this machine reach them, separated by commas."""

    @property
    def client_settings(self) -> Mapping[str, Any]:
        """The settings with which clients connect, besides the address."""

    @property
    def client_config(self) -> Path | None:
        """A file with the same settings, for commands. None: there are none."""

    @property
    def kafka_bootstrap(self) -> str:
        """The same, for Kafka clients."""

    @property
    def can(self) -> frozenset[FaultKind]:
        """The faults that it supports: not every machine allows its network to be cut."""

    async def disconnect(self, member: Member) -> None: ...

    async def connect(self, member: Member) -> None: ...

    async def cut(self, sender: Member, receiver: Member, how: Cut = Cut.DROPPED) -> None:
        """Messages from `sender` to `receiver` no longer arrive."""

    async def join(self, sender: Member, receiver: Member, how: Cut = Cut.DROPPED) -> None:
        """Undoes `cut`."""

    async def fill_disk(self, broker: Member) -> None: ...

    async def free_disk(self, broker: Member) -> None: ...

    async def grow(self) -> Member:
        """Adds a broker. Does not wait until it serves."""

    async def lose_disk(self, broker: Member) -> bool:
        """Empties the data folder of a dead broker, and returns True. Does nothing and returns False if the
        cluster still counts on it: its session has not ended, an ISR names it, or that cannot be found
        out."""

    async def log_of(self, broker: Member) -> Path:
        """A folder with the broker's present log (`topic-partition/…`). Callers must not change it."""

    async def said(self, member: Member) -> bytes:
        """Its output, or the end of it."""
