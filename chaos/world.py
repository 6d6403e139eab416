"""What a nemesis needs of a cluster, whatever it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from strandline.chaos.core.faults import Cut, FaultKind, Member
from strandline.errors import StrandlineError


class WorldFailed(StrandlineError):
    """The cluster could not be made, or something could not be done to it; the message says what and why."""


class Processes(Protocol):
    """Each of these waits until what it does is done; WorldFailed if it cannot be.

    What is done already (killing who is dead) is no error. A member that starts need not serve yet.
    """

    @property
    def members(self) -> Sequence[Member]:
        """All that belong to it, alive or not."""

    async def alive(self, member: Member) -> bool:
        """False: its process has ended by itself or was killed. One that hangs is alive."""

    async def kill(self, member: Member) -> None: ...

    async def terminate(self, member: Member) -> None:
        """Returns when it is gone."""

    async def start(self, member: Member) -> None: ...

    async def pause(self, member: Member) -> None: ...

    async def resume(self, member: Member) -> None: ...


class World(Processes, Protocol):
    """A cluster that serves."""

    @property
    def bootstrap(self) -> str:
        """`host:port` of all brokers, as clients on this machine reach them, with commas."""

    @property
    def can(self) -> frozenset[FaultKind]:
        """What can be done to it: not every machine lets a network be cut."""

    async def disconnect(self, member: Member) -> None: ...

    async def connect(self, member: Member) -> None: ...

    async def cut(self, sender: Member, receiver: Member, how: Cut = Cut.DROPPED) -> None:
        """What `sender` sends to `receiver` does not arrive."""

    async def join(self, sender: Member, receiver: Member, how: Cut = Cut.DROPPED) -> None:
        """The end of `cut`."""

    async def fill_disk(self, broker: Member) -> None: ...

    async def free_disk(self, broker: Member) -> None: ...

    async def log_of(self, broker: Member) -> Path:
        """A folder with what the broker has on disk now (`topic-partition/…`). It is not to be changed."""

    async def said(self, member: Member) -> bytes:
        """What it has printed, or the end of that."""
