"""What a `ReplicaManager` needs of the ZooKeeper session in force, and whom it tells of its leaderships."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from strandline.broker.events.replica_events import Recorder
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.replica import Replica
from strandline.ids import BrokerId, LeaderEpoch
from strandline.ports import Coordination


class Fetchers(Protocol):
    """Where a follower's fetching is started and stopped."""

    def follow(self, replica: Replica) -> None: ...

    def unfollow(self, replica: Replica) -> None: ...

    def follow_again(self, replica: Replica) -> None:
        """Ask the same leader once more, after a moment, unless that is under way."""
        ...


class Session(Protocol):
    """What the manager needs of the ZooKeeper session in force: it is gone when the session ends."""

    @property
    def coordination(self) -> Coordination: ...

    @property
    def fetchers(self) -> Fetchers: ...

    @property
    def recorder(self) -> Recorder: ...

    def exercise(self, leadership: Leadership) -> None:
        """Run the leadership's commit task."""
        ...

    def vacant(self, replica: Replica) -> None:
        """This partition has no leader as far as this broker knows: look into it."""
        ...

    def resign(self, replica: Replica, epoch: LeaderEpoch) -> None:
        """Write down that this broker cannot lead on in this epoch, and let another one stand."""
        ...

    def soon(self, callback: Callable[[], None]) -> None:
        """Call this on the event loop; from any thread."""
        ...

    def probe(self, broker: BrokerId) -> None:
        """A stream with this broker broke: find out whether its process is gone, and tell `Peers`."""
        ...

    def peers_changed(self) -> None:
        """Other brokers are registered, or suspected, than before."""
        ...


class LeadershipWatcher(Protocol):
    """Does what only a partition's leader does. Told at once, between two awaits."""

    def begun(self, leadership: Leadership) -> None: ...

    def ended(self, leadership: Leadership) -> None:
        """Before the requests in its queue are answered."""
        ...
