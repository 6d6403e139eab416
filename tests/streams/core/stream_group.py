"""A group of stream processors without brokers: everybody joins, the leader places, everybody is told."""

from __future__ import annotations

from streams.core.member import Received, StreamMember
from streams.core.placement import Claim, Share, learned_tasks, place


class StreamGroup:
    """`rebalance` is one generation. What it went through is checked by the tests, step by step."""

    def __init__(self, *tasks: str) -> None:
        self.tasks = tasks
        self.members: dict[str, StreamMember[str]] = {}
        self.claims: dict[str, Claim[str]] = {}
        self.shares: dict[str, Share[str]] = {}
        self.received: dict[str, Received[str]] = {}
        self.asked = False
        """Somebody wants a rebalance."""
        self.rounds = 0

    def start(self, name: str) -> None:
        self.members[name] = StreamMember()
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

    def rebalance(self) -> dict[str, Share[str]]:
        """Those who are done with leaving go; that asks for no rebalance, for they have nothing."""
        self.asked = False
        self.rounds += 1
        for member in self.members.values():
            _ = member.giving_up()
        self.claims = {name: member.claim() for name, member in self.members.items()}
        self.shares = place(self.tasks, self.claims)
        learned = learned_tasks(self.shares, self.claims)
        self.received = {
            name: member.receive(self.shares[name], learned) for name, member in self.members.items()
        }
        for name, received in self.received.items():
            if received.over:
                del self.members[name]
        return self.shares
