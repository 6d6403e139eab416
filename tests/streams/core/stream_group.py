"""A group of stream processors without brokers: all members join, the leader places, and all get their
shares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from strandline.streams.core.member import Received, StreamMember
from strandline.streams.core.placement import Claim, Share, learned_tasks, place

Place = Callable[..., dict[str, Share[str]]]


class StreamGroup:
    """`rebalance` is one generation. The tests check the steps on the way."""

    def __init__(
        self,
        *tasks: str,
        num_standbys: int = 0,
        place: Place = place,
        member: type[StreamMember[str]] = StreamMember,
    ) -> None:
        self.tasks = tasks
        self.members: dict[str, StreamMember[str]] = {}
        self.claims: dict[str, Claim[str]] = {}
        self.shares: dict[str, Share[str]] = {}
        self.received: dict[str, Received[str]] = {}
        self.asked = False
        """A member wants a rebalance."""
        self.rounds = 0
        self.ran: dict[str, str] = {}
        """For each task: the member that ran it last. Only that member's state is whole."""
        self._place = partial(place, num_standbys=num_standbys)
        self._member = member
        self._heard: dict[str, int] = {}
        """The last round that each member heard the end of."""

    def start(self, name: str) -> None:
        self.members[name] = self._member()
        self.asked = True

    def leave(self, name: str) -> None:
        self.asked |= self.members[name].leave()

    def crash(self, name: str) -> None:
        del self.members[name]
        self.asked = True

    def ready(self, name: str, task: str) -> None:
        self.asked |= self.members[name].caught_up(task)

    def running(self, task: str) -> list[str]:
        return [name for name, member in self.members.items() if task in member.assigned]

    def rebalance(
        self,
        *,
        deaf: Collection[str] = (),
        meanwhile: Mapping[str, Collection[str]] | None = None,
        leaving: Collection[str] = (),
    ) -> dict[str, Share[str]]:
        """Members that have finished leaving go; that needs no rebalance, for they have nothing.

        `deaf` members never learn of the end, and must join again. `meanwhile` names the tasks for which
        members become ready once they have sent their claims, and `leaving` members that leave from then on.
        """
        self.asked = bool(deaf)
        self.rounds += 1
        for member in self.members.values():
            _ = member.giving_up()
        self.claims = {name: member.claim() for name, member in self.members.items()}
        self.shares = self._place(self.tasks, self.claims)
        for name, tasks in (meanwhile or {}).items():
            for task in tasks:
                self.ready(name, task)
        for name in leaving:
            self.leave(name)
        learned = learned_tasks(self.shares, self.claims)
        self.received = {
            name: member.receive(self.shares[name], learned, in_turn=self._in_turn(name))
            for name, member in self.members.items()
            if name not in deaf
        }
        for name, received in self.received.items():
            self._heard[name] = self.rounds
            self.asked |= received.asks
            if received.over:
                del self.members[name]
        return self.shares

    def note_owners(self) -> None:
        """Resumed and promoted tasks are checked against the notes before."""
        self.ran |= {task: name for name, member in self.members.items() for task in member.assigned}

    def _in_turn(self, name: str) -> bool:
        return self._heard.get(name, self.rounds - 1) == self.rounds - 1
