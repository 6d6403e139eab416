"""Random walks of a group with clients of both protocols, which takes either kind as they come and go.

Held at each step: no partition has two readers, here and as the coordinator has it. Held at the end, once the
world is quiet: each partition has a reader, and the group is a classic one if no member is of the consumer
protocol.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.errors import StrandlineError
from strandline.ids import PartitionId, PartitionKey
from strandline.vocabulary.groups import ConsumerBeat
from tests.broker.core.consumer_groups.classic_client import ClassicClient
from tests.broker.core.consumer_groups.play import LIMITS_HERE, Client, Play

CONSUMERS = st.sampled_from("AB")
CLASSIC = st.sampled_from("KLM")
TOPICS = st.sampled_from([("t",), ("t", "u")])
QUIET_ROUNDS = 25
INSTANCES = {"B": "i", "M": "i"}
"""B and M are one instance, which changes its protocol: not both at a time."""


class Migration(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.play = Play()
        self.play.make("t", 3)
        self.play.make("u", 2)
        self.cooperative = False
        self.sent: list[tuple[Client, int, str, bool]] = []
        self.unsure: set[str] = set()
        """Members whose last heartbeat failed: the next one says all, so that its answer does."""

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
        client.topics, client.owned, client.assigned = topics, frozenset(), frozenset()
        said = {"topics": topics, "rebalance_timeout_ms": 60_000, "owned": ()}
        self.sent.append((client, 0, self.play.send(client, 0, **said), False))
        self.take()

    @rule(name=CONSUMERS, gives=st.booleans())
    def beat(self, name: str, gives: bool) -> None:
        client = self.play.clients.get(name)
        if client is None or client.epoch <= 0 or self.waits(client):
            return
        said: dict[str, Any] = {}
        if gives or name in self.unsure:
            client.owned &= client.assigned
            said["owned"] = tuple(sorted(client.owned))
        if name in self.unsure:
            said |= {"topics": client.topics, "rebalance_timeout_ms": 60_000}
        self.sent.append((client, client.epoch, self.play.send(client, client.epoch, **said), gives))
        self.take()

    @rule(name=CONSUMERS, for_a_while=st.booleans())
    def leave(self, name: str, for_a_while: bool) -> None:
        client = self.play.clients.get(name)
        if client is None or client.epoch <= 0 or self.waits(client):
            return
        self.drop(client)
        self.play.send(client, -2 if for_a_while and client.instance else -1)

    @rule(name=CONSUMERS)
    def die(self, name: str) -> None:
        client = self.play.clients.get(name)
        if client is not None:
            self.drop(client)

    def drop(self, client: Client) -> None:
        client.epoch, client.owned, client.assigned = 0, frozenset(), frozenset()
        self.sent = [each for each in self.sent if each[0] is not client]

    def waits(self, client: Client) -> bool:
        return any(each[0] is client for each in self.sent)

    def take(self) -> None:
        """Clients take the answers that are there."""
        for each in list(self.sent):
            client, _, token, gives = each
            if self.play.stage.waits(token):
                continue
            self.sent.remove(each)
            answer = self.play.take(client, token)
            self.unsure.discard(client.member)
            if isinstance(answer, ConsumerBeat):
                if gives:
                    client.owned = client.assigned
            else:
                assert isinstance(answer, StrandlineError)
                self.unsure.add(client.member)
                if not answer.retriable:
                    self.drop(client)

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

    @rule()
    def look(self) -> None:
        self.play.look()

    @rule(writes=st.booleans())
    def log_holds(self, writes: bool) -> None:
        self.play.stage.writing = writes
        while writes and self.play.stage.wanted:
            self.play.stage.written()
        self.take()

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

    @rule()
    def move(self) -> None:
        self.play.stage.unload()
        self.take()
        self.play.stage = self.play.stage.elsewhere(limits=LIMITS_HERE)
        self.sent.clear()
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

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        readers = Counter(key for client in self.play.clients.values() for key in client.owned)
        readers.update(key for each in self.play.classic.values() for key in each.keys)
        assert not [key for key, count in readers.items() if count > 1], readers

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        found = self.play.described()
        if found is None:
            return
        held = Counter(key for member in found.members for key in (*member.assigned, *member.revoking))
        assert not [key for key, count in held.items() if count > 1], held

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
        keys = {
            PartitionKey(topic.topic_id, PartitionId(number))
            for name in wanted
            if (topic := self.play.topics[name]) is not None
            for number in range(topic.partitions)
        }
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
