"""Random walks of a group whose coordinator assigns, with clients that do as KIP-848 wants.

Held at each step: no partition has two readers; the group's epoch and each member's only rise; a member is
never asked to stop what its target has. Held at the end, once the world is quiet: each partition has a
reader. These are CORRECTNESS G24, G25, G26 and G28.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from tests.broker.core.consumer_groups.play import Client
from tests.broker.core.consumer_groups.walk import Walk

NAMES = st.sampled_from("ABCD")
TOPICS = st.sampled_from([("t",), ("u",), ("t", "u")])
QUIET_ROUNDS = 12


class Group(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0

    # --- what members do ---------------------------------------------------------------------

    @rule(name=NAMES, topics=TOPICS, assignor=st.sampled_from([None, "range", "uniform"]))
    def join(self, name: str, topics: tuple[str, ...], assignor: str | None) -> None:
        client = self.play.clients.setdefault(name, Client(name))
        if client.epoch > 0 or self.waits(client):
            return
        self.send_join(client, topics, assignor=assignor)

    @rule(name=NAMES, gives=st.booleans())
    def beat(self, name: str, gives: bool) -> None:
        self.send_beat(name, gives=gives)

    @rule(name=NAMES, topics=TOPICS)
    def subscribe(self, name: str, topics: tuple[str, ...]) -> None:
        client = self.here(name)
        if client is None:
            return
        client.topics = topics
        self.unheard[name] = None
        self.send(client, client.epoch, gives=False, topics=topics)

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        client = self.here(name)
        if client is None:
            return
        self.drop(client)
        self.play.send(client, -1)

    @rule(name=NAMES)
    def die(self, name: str) -> None:
        self.stop(name)

    # --- what happens to them ----------------------------------------------------------------

    @rule(name=st.sampled_from("tu"), partitions=st.integers(0, 5))
    def change_topic(self, name: str, partitions: int) -> None:
        known = self.play.topics.get(name)
        if known is None or partitions == 0 or partitions > known.partitions:
            self.play.make(name, partitions)

    @precondition(lambda self: bool(self.play.stage.wanted))
    @rule()
    def a_write_fails(self) -> None:
        self.play.stage.failed()
        self.take()

    def moved(self) -> None:
        self.epoch = 0

    @rule()
    def pass_time(self) -> None:
        """Members that are alive are heard of, and give up in time: the coordinator cannot stop one that
        does not."""
        self.log_holds(True)
        for name in "ABCD":
            self.beat(name, True)
        self.play.stage.later(20)
        self.take()

    # --- what holds --------------------------------------------------------------------------

    @invariant()
    def epochs_rise(self) -> None:
        found = self.play.described()
        if found is None:
            return
        assert self.epoch <= found.epoch
        assert found.target_epoch <= found.epoch
        self.epoch = found.epoch
        for member in found.members:
            # What the target has is never taken away.
            assert not set(member.revoking) & set(member.target) or member.state == "unrevoked_partitions"

    def teardown(self) -> None:
        self.log_holds(True)
        for _ in range(QUIET_ROUNDS):
            self.play.look()
            for name, client in sorted(self.play.clients.items()):
                if client.epoch > 0:
                    self.beat(name, True)
            self.play.stage.later(10)
        live = [client for client in self.play.clients.values() if client.epoch > 0]
        keys = self.keys_of({topic for client in live for topic in client.topics})
        owned = {key for client in live for key in client.owned}
        assert owned == keys, (owned, keys)


Group.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestGroup = Group.TestCase
