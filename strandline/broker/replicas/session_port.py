"""Ports of a `ReplicaManager`: the ZooKeeper session in force, and the watchers of its leaderships."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from strandline.broker.events.replica_events import EventRecorder
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.replica import Replica
from strandline.ids import BrokerId, LeaderEpoch
from strandline.ports import Coordination


class Session(Protocol):
    """The ZooKeeper session in force, as the manager sees it. Absent between two sessions."""

    @property
    def coordination(self) -> Coordination: ...

    @property
    def recorder(self) -> EventRecorder: ...

    def exercise(self, leadership: Leadership) -> None:
        """Run the leadership's commit task."""
        ...

    def follow(self, replica: Replica) -> None:
        """Fetch from the leader that this replica knows."""
        ...

    def unfollow(self, replica: Replica) -> None:
        """Stop fetching."""
        ...

    def follow_again(self, replica: Replica) -> None:
        """Ask the same leader once more, after a moment, unless that is under way."""
        ...

    def vacant(self, replica: Replica) -> None:
        """Find out who leads this partition: as far as this broker knows, no broker does."""
        ...

    def resign(self, replica: Replica, epoch: LeaderEpoch) -> None:
        """Write that this broker gives up the leadership of this epoch, so that another one can stand."""
        ...

    def soon(self, callback: Callable[[], None]) -> None:
        """Call this on the event loop; from any thread."""
        ...

    def probe(self, broker: BrokerId) -> None:
        """A stream with this broker broke: find out whether its process is gone, and report to `Peers`."""
        ...

    def peers_changed(self) -> None:
        """The set of registered or suspected brokers has changed."""
        ...


class LeadershipWatcher(Protocol):
    """Does what only a partition's leader does. Called at once, between two awaits."""

    def begun(self, leadership: Leadership) -> None: ...

    def ended(self, leadership: Leadership) -> None:
        """Before the requests in its queue are answered."""
        ...
