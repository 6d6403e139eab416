"""When this broker last heard each other one, over all streams between the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from strandline.broker.membership.peers import Peers
from strandline.broker.membership.pulse import Pulse
from strandline.ids import BrokerEpoch, BrokerId


class Link(Protocol):
    """One end of a stream with another broker, in either direction."""

    @property
    def broker(self) -> BrokerId: ...

    @property
    def heard_at(self) -> float | None:
        """When its last message came; None if the other end has not promised beats, as one of an older
        version has not."""
        ...

    @property
    def calling_since(self) -> float | None:
        """Since when this end has waited for an answer to an attempt to open the stream, or for the first
        message on one that cannot be of an older version, and since the other end's last start at the
        earliest; None if it waits for neither, or the other end opens it."""
        ...


class Hearing:
    """The streams of one broker with all others."""

    def __init__(self, peers: Peers, pulse: Pulse) -> None:
        self._peers = peers
        self._pulse = pulse
        self._links: dict[Link, None] = {}

    def add(self, link: Link) -> None:
        self._links[link] = None

    def remove(self, link: Link) -> None:
        self._links.pop(link, None)

    def judged_s(self, broker: BrokerId, life: BrokerEpoch) -> float | None:
        """How long nothing came from a life of it, as far as this broker ran on time: None if no stream says
        so, or it is not registered, and 0 if it was suspected wrongly a short time ago.

        One that was never heard, and does not answer who opens a stream to it, is silent since the first
        attempt: it may have hung just after its election.
        """
        registration, at = self._peers.live.get(broker), self.heard_at(broker)
        if at is None:
            at = self._of(broker, lambda link: link.calling_since)
        if registration is None or registration.epoch != life or at is None:
            return None
        return self._pulse.silent_s(at) if self._peers.trust.may_suspect(life, at) else 0.0

    def heard_at(self, broker: BrokerId) -> float | None:
        """When its last message came; None if no stream says so."""
        return self._of(broker, lambda link: link.heard_at)

    def _of(self, broker: BrokerId, moment: Callable[[Link], float | None]) -> float | None:
        """The last of these moments of its streams."""
        moments = [at for link in self._links if link.broker == broker and (at := moment(link)) is not None]
        return max(moments, default=None)
