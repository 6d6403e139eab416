"""Opens and closes the leader's end of replication streams, in the broker's own types: no gRPC here."""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replication.leader_end import FollowerStream
from strandline.broker.replication.throttle import CopyThrottle
from strandline.config.services.broker import BrokerSettings
from strandline.errors import BrokerNotAvailable, InconsistentClusterId, InvalidRequest, StaleBrokerEpoch
from strandline.ids import BrokerId
from strandline.ports import Clock
from strandline.vocabulary.replication import Hello, SilenceQuestion


@dataclass(slots=True, eq=False)
class _FollowerLink:
    """A follower's stream, as far as it tells whether that broker is silent. Fulfils `hearing.Link`."""

    stream: FollowerStream
    manager: ReplicaManager
    _silent_since: float | None = field(default=None, init=False)
    """When a silence began that was long enough. It lasts until the follower says something."""

    @property
    def broker(self) -> BrokerId:
        return self.stream.hello.broker_id

    @property
    def heard_at(self) -> float | None:
        """None for a follower without beats, and for a stream that an earlier life left open."""
        hello, registration = self.stream.hello, self.manager.live.get(self.broker)
        if not hello.beats or registration is None or registration.epoch != hello.broker_epoch:
            return None
        return self.stream.window.heard_at

    @property
    def calling_since(self) -> None:
        """The follower opens the stream."""

    def is_silent(self, silence_s: float) -> bool:
        """True if the follower leaves messages unanswered for this time, and sends no beat either. A follower
        of a version without beats may be busy with a message."""
        since = self.stream.window.unanswered_since
        if since is None or not self.stream.hello.beats:
            return False
        if self.manager.pulse.silent_s(since) >= silence_s:
            self._silent_since = since
        return self._silent_since == since


class Followers:
    """The streams of the brokers that follow this one."""

    def __init__(
        self, manager: ReplicaManager, view: ClusterView, settings: BrokerSettings, clock: Clock
    ) -> None:
        self._manager = manager
        self._view = view
        self._settings = settings
        self._clock = clock
        self.throttle = CopyThrottle(settings, clock)
        """Shared by the streams of all followers."""
        self._silence_s = settings.follower_silence_ms / 1000
        self._open: dict[FollowerStream, _FollowerLink] = {}
        manager.pulse.listen(self._beat)

    async def open(self, hello: Hello) -> FollowerStream:
        """Open the leader's end of a stream, for a broker in the life that is registered.

        Raises InconsistentClusterId, InvalidRequest; StaleBrokerEpoch for a life that is over,
        BrokerNotAvailable for one that is not registered yet: then the follower asks again.
        """
        if self._view.cluster_id and hello.cluster_id != self._view.cluster_id:
            raise InconsistentClusterId(
                f"broker {hello.broker_id} is of cluster {hello.cluster_id}, "
                f"this one of {self._view.cluster_id}"
            )
        if hello.leader_id != self._manager.me:
            raise InvalidRequest(f"broker {hello.leader_id} was meant, this is broker {self._manager.me}")
        await self._check_life(hello)
        self._manager.peers.reached(hello.broker_epoch)
        stream = FollowerStream(hello, self._manager.known, self.throttle, self._settings, self._clock)
        self._open[stream] = link = _FollowerLink(stream, self._manager)
        self._manager.hearing.add(link)
        stream.beat(self._clock.monotonic())  # so that the follower knows at once that it is owed beats
        return stream

    def silent_s(self, question: SilenceQuestion) -> float | None:
        """For how long this broker has not heard a life of another one; None if it cannot say."""
        return self._manager.hearing.judged_s(question.broker_id, question.broker_epoch)

    def _beat(self, now: float) -> None:
        """Keeps every follower's stream from being silent, and finds the followers that are. A life that has
        opened another stream is judged by that one: the end of the one before may have been lost."""
        for stream in self._open:
            stream.beat(now)
        newest = {stream.hello.broker_epoch: link for stream, link in self._open.items()}
        self._manager.peers.followers_silent(
            frozenset(life for life, link in newest.items() if link.is_silent(self._silence_s))
        )

    async def _check_life(self, hello: Hello) -> None:
        """Checks that the broker epoch is that of the broker's registration. This broker learns of a new
        registration with a delay, so it reads the registration before it refuses a hello."""
        registration = self._manager.live.get(hello.broker_id)
        if registration is None or hello.broker_epoch > registration.epoch:
            registration = await self._view.registration(hello.broker_id)
        if registration is None or hello.broker_epoch > registration.epoch:
            raise BrokerNotAvailable(
                f"broker {hello.broker_id} is not registered in epoch {hello.broker_epoch}, "
                f"it lives in {'none' if registration is None else registration.epoch}"
            )
        if hello.broker_epoch < registration.epoch:
            raise StaleBrokerEpoch(
                f"broker {hello.broker_id} lives in epoch {registration.epoch}, not {hello.broker_epoch}"
            )

    def close(self, stream: FollowerStream) -> None:
        """Ends the flows of a stream that is over."""
        self._manager.hearing.remove(self._open.pop(stream))
        stream.close()
        self._manager.follower_left(stream.hello.broker_id)
