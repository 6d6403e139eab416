"""Random walks of a group whose coordinator assigns, with clients that do as KIP-848 wants.

Held at each step: no partition has two readers; the group's epoch and each member's only rise; a member is
never asked to stop what its target has. Held at the end, once the world is quiet: each partition has a
reader. These are CORRECTNESS G24, G25, G26 and G28.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.errors import StrandlineError
from strandline.ids import PartitionKey
from strandline.vocabulary.groups import ConsumerBeat
from tests.broker.core.consumer_groups.play import LIMITS_HERE, Client, Play

NAMES = st.sampled_from("ABCD")
TOPICS = st.sampled_from([("t",), ("u",), ("t", "u")])
QUIET_ROUNDS = 12


class Group(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.play = Play()
        self.play.make("t", 3)
        self.play.make("u", 2)
        self.epoch = 0
        self.sent: list[tuple[Client, int, str, bool]] = []
        """Heartbeats whose answers wait for the log: the epoch before, the token, and whether its sender
        begins what it may read when it has the answer."""
        self.unheard: dict[str, None] = {}
        """Members that have no answer to their last subscription: they say it again, as real ones do."""

    # --- what members do ---------------------------------------------------------------------

    @rule(name=NAMES, topics=TOPICS, assignor=st.sampled_from([None, "range", "uniform"]))
    def join(self, name: str, topics: tuple[str, ...], assignor: str | None) -> None:
        client = self.play.clients.setdefault(name, Client(name))
        if client.epoch > 0 or self.waits(client):
            return
        client.topics, client.owned, client.assigned = topics, frozenset(), frozenset()
        said = {"topics": topics, "rebalance_timeout_ms": 60_000, "owned": (), "assignor": assignor}
        self.sent.append((client, 0, self.play.send(client, 0, **said), False))
        self.take()

    @rule(name=NAMES, gives=st.booleans())
    def beat(self, name: str, gives: bool) -> None:
        client = self.play.clients.get(name)
        if client is None or client.epoch <= 0 or self.waits(client):
            return
        said: dict[str, Any] = {"topics": client.topics} if name in self.unheard else {}
        if gives:
            client.owned &= client.assigned
            said["owned"] = tuple(sorted(client.owned))
        self.sent.append((client, client.epoch, self.play.send(client, client.epoch, **said), gives))
        self.take()

    @rule(name=NAMES, topics=TOPICS)
    def subscribe(self, name: str, topics: tuple[str, ...]) -> None:
        client = self.play.clients.get(name)
        if client is None or client.epoch <= 0 or self.waits(client):
            return
        client.topics = topics
        self.unheard[name] = None
        self.sent.append((client, client.epoch, self.play.send(client, client.epoch, topics=topics), False))
        self.take()

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        client = self.play.clients.get(name)
        if client is None or client.epoch <= 0 or self.waits(client):
            return
        self.drop(client)
        self.play.send(client, -1)

    @rule(name=NAMES)
    def die(self, name: str) -> None:
        client = self.play.clients.get(name)
        if client is not None:
            self.drop(client)

    def drop(self, client: Client) -> None:
        client.epoch, client.owned, client.assigned = 0, frozenset(), frozenset()
        self.sent = [each for each in self.sent if each[0] is not client]
        self.unheard.pop(client.member, None)

    def waits(self, client: Client) -> bool:
        return any(each[0] is client for each in self.sent)

    def take(self) -> None:
        """Clients take the answers that are there."""
        for each in list(self.sent):
            client, before, token, gives = each
            if self.play.stage.waits(token):
                continue
            self.sent.remove(each)
            answer = self.play.take(client, token)
            if isinstance(answer, ConsumerBeat):
                assert answer.epoch >= before
                self.unheard.pop(client.member, None)
                if gives:
                    client.owned = client.assigned
            else:
                assert isinstance(answer, StrandlineError)
                if not answer.retriable:
                    self.drop(client)

    # --- what happens to them ----------------------------------------------------------------

    @rule(name=st.sampled_from("tu"), partitions=st.integers(0, 5))
    def change_topic(self, name: str, partitions: int) -> None:
        known = self.play.topics.get(name)
        if known is None or partitions == 0 or partitions > known.partitions:
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
    @rule()
    def a_write_fails(self) -> None:
        self.play.stage.failed()
        self.take()

    @rule()
    def move(self) -> None:
        self.play.stage.unload()
        self.take()
        self.play.stage = self.play.stage.elsewhere(limits=LIMITS_HERE)
        self.sent.clear()
        self.epoch = 0  # what the last one decided, and the log does not have, is forgotten

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
    def no_partition_has_two_readers(self) -> None:
        readers = Counter(key for client in self.play.clients.values() for key in client.owned)
        assert not [key for key, count in readers.items() if count > 1], readers

    @invariant()
    def epochs_rise(self) -> None:
        found = self.play.described()
        if found is None:
            return
        assert self.epoch <= found.epoch
        assert found.target_epoch <= found.epoch
        self.epoch = found.epoch
        held = Counter(key for member in found.members for key in (*member.assigned, *member.revoking))
        assert not [key for key, count in held.items() if count > 1], held
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
        wanted = {topic for client in live for topic in client.topics}
        keys = [
            PartitionKey(topic.topic_id, number)  # type: ignore[arg-type]  # a number is as good here
            for name in wanted
            if (topic := self.play.topics.get(name)) is not None
            for number in range(topic.partitions)
        ]
        owned = {key for client in live for key in client.owned}
        assert owned == set(keys), (owned, keys)


Group.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestGroup = Group.TestCase
