"""Random walks of a group with clients of both protocols, which takes either kind as they come and go.

Held at each step: no partition has two readers, here and as the coordinator has it. Held at the end, once the
world is quiet: each partition has a reader, and the group is a classic one if no member is of the consumer
protocol.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from strandline.ids import PartitionKey
from tests.broker.core.consumer_groups.classic_client import ClassicClient
from tests.broker.core.consumer_groups.play import Client
from tests.broker.core.consumer_groups.walk import Walk

CONSUMERS = st.sampled_from("AB")
CLASSIC = st.sampled_from("KLM")
TOPICS = st.sampled_from([("t",), ("t", "u")])
QUIET_ROUNDS = 25
INSTANCES = {"B": "i", "M": "i"}
"""B and M are one instance, which changes its protocol: not both at a time."""


class Migration(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.cooperative = False

    @initialize(cooperative=st.booleans())
    def agree(self, cooperative: bool) -> None:
        """All classic members have to agree on a protocol."""
        self.cooperative = cooperative

    # --- members of the consumer protocol ----------------------------------------------------

    @rule(name=CONSUMERS, topics=TOPICS)
    def join(self, name: str, topics: tuple[str, ...]) -> None:
        client = self.play.clients.setdefault(name, Client(name, INSTANCES.get(name)))
        if client.epoch > 0 or self.waits(client):
            return
        if client.instance is not None:
            self.stop_classic("M")
        self.send_join(client, topics)

    @rule(name=CONSUMERS, gives=st.booleans())
    def beat(self, name: str, gives: bool) -> None:
        self.send_beat(name, gives=gives)

    @rule(name=CONSUMERS, for_a_while=st.booleans())
    def leave(self, name: str, for_a_while: bool) -> None:
        client = self.here(name)
        if client is None:
            return
        self.drop(client)
        self.play.send(client, -2 if for_a_while and client.instance else -1)

    @rule(name=CONSUMERS)
    def die(self, name: str) -> None:
        self.stop(name)

    # --- members of the classic protocol -----------------------------------------------------

    @rule(name=CLASSIC, topics=TOPICS)
    def enter(self, name: str, topics: tuple[str, ...]) -> None:
        client = self.play.classic.get(name)
        if client is not None and not client.gone:
            return
        instance = INSTANCES.get(name)
        if instance is not None and "B" in self.play.clients:
            self.drop(self.play.clients["B"])
        client = ClassicClient(self.play, name, topics, cooperative=self.cooperative, instance=instance)
        self.play.classic[name] = client
        client.act()

    @rule(name=CLASSIC)
    def act(self, name: str) -> None:
        if name in self.play.classic:
            self.play.classic[name].act()

    @rule(name=CLASSIC)
    def lose_an_answer(self, name: str) -> None:
        if name in self.play.classic:
            self.play.classic[name].lose_answers()

    @rule(name=CLASSIC)
    def quit(self, name: str) -> None:
        client = self.play.classic.get(name)
        if client is not None and not client.gone and client.member:
            client.leave()

    @rule(name=CLASSIC)
    def stop_classic(self, name: str) -> None:
        """It dies."""
        if name in self.play.classic:
            client = self.play.classic[name]
            client.gone, client.owned = True, frozenset()

    # --- what happens to them ----------------------------------------------------------------

    @rule(name=st.sampled_from("tu"), partitions=st.integers(2, 5))
    def change_topic(self, name: str, partitions: int) -> None:
        if partitions > self.play.partitions_of(name):
            self.play.make(name, partitions)

    @precondition(lambda self: bool(self.play.stage.wanted))
    @rule(written=st.booleans())
    def a_write_fails(self, written: bool) -> None:
        """The log may have it nevertheless."""
        stage = self.play.stage
        if written:
            stage.log.extend(stage.wanted[0].records)
            stage.headers.extend(headers for _, _, headers in stage.wanted[0].each())
        stage.failed()
        self.take()

    def moved(self) -> None:
        for client in self.play.classic.values():
            client.lose_answers()

    @rule(rounds=st.integers(1, 12))
    def pass_time(self, rounds: int) -> None:
        """Members that are alive are heard of, and give up in time: the coordinator cannot stop one that
        does not."""
        self.log_holds(True)
        for _ in range(rounds):
            self.everyone_acts()
            self.play.stage.later(4)
        self.take()

    def everyone_acts(self) -> None:
        for name in sorted(self.play.clients):
            self.beat(name, True)
        for name in sorted(self.play.classic):
            self.play.classic[name].act()

    # --- what holds --------------------------------------------------------------------------

    def read_now(self) -> Counter[PartitionKey]:
        readers = super().read_now()
        readers.update(key for each in self.play.classic.values() for key in each.keys)
        return readers

    def teardown(self) -> None:
        self.log_holds(True)
        for _ in range(QUIET_ROUNDS):
            self.play.look()
            self.everyone_acts()
            self.play.stage.later(4)
        consumers = [client for client in self.play.clients.values() if client.epoch > 0]
        classic = [client for client in self.play.classic.values() if not client.gone]
        wanted = {topic for client in consumers for topic in client.topics}
        wanted |= {topic for each in classic for topic in each.topics}
        keys = self.keys_of(wanted)
        owned = {key for each in classic for key in each.keys}
        owned |= {key for client in consumers for key in client.owned}
        if consumers or not classic:
            assert owned == keys, (owned, keys)
        else:
            # The leader's own part of the work is not repeated here when a topic grows.
            assert self.play.described() is None
            assert owned


Migration.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMigration = Migration.TestCase
