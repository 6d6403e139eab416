"""A group of stream processors without brokers: everybody joins, the leader places, everybody is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from strandline.streams.core.member import Received, StreamMember
from strandline.streams.core.placement import Claim, Share, learned_tasks, place

Place = Callable[..., dict[str, Share[str]]]


class StreamGroup:
    """`rebalance` is one generation. What it went through is checked by the tests, step by step."""

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
        """Somebody wants a rebalance."""
        self.rounds = 0
        self.ran: dict[str, str] = {}
        """Of each task: who ran it last. Only that one's state is whole."""
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
        self, *, deaf: Collection[str] = (), meanwhile: Mapping[str, Collection[str]] | None = None
    ) -> dict[str, Share[str]]:
        """Those who are done with leaving go; that asks for no rebalance, for they have nothing.

        `deaf` members never hear of the end, and have to join again. `meanwhile` has what members become
        ready for once they have said what they are ready for.
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

    def note_who_runs(self) -> None:
        """What was resumed or promoted is checked against what is noted before."""
        self.ran |= {task: name for name, member in self.members.items() for task in member.assigned}

    def _in_turn(self, name: str) -> bool:
        return self._heard.get(name, self.rounds - 1) == self.rounds - 1
