"""What random walks of groups have in common: clients that do as KIP-848 wants, a log, and topics."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strandline.errors import StrandlineError
from strandline.ids import PartitionId, PartitionKey
from strandline.vocabulary.groups import ConsumerBeat
from tests.broker.core.consumer_groups.play import LIMITS_HERE, TIMEOUT_MS, Client, Play


class Walk(RuleBasedStateMachine):
    """Subclasses say which members there are, and what else happens to them."""

    def __init__(self) -> None:
        super().__init__()
        self.play = Play()
        self.play.make("t", 3)
        self.play.make("u", 2)
        self.sent: list[tuple[Client, int, str, bool]] = []
        """Heartbeats whose answers wait for the log: the epoch before, the token, and whether its sender
        begins what it may read when it has the answer."""
        self.unheard: dict[str, None] = {}
        """Members that have no answer to what they said last: they say all again, as real ones do."""

    # --- what members of the consumer protocol do --------------------------------------------

    def here(self, name: str) -> Client | None:
        """The client, if it is a member and waits for no answer."""
        client = self.play.clients.get(name)
        return client if client is not None and client.epoch > 0 and not self.waits(client) else None

    def send_join(self, client: Client, topics: tuple[str, ...], **more: Any) -> None:
        client.topics, client.owned, client.assigned = topics, frozenset(), frozenset()
        said = {"topics": topics, "rebalance_timeout_ms": TIMEOUT_MS, "owned": (), **more}
        self.send(client, 0, gives=False, **said)

    def send_beat(self, name: str, *, gives: bool) -> None:
        client = self.here(name)
        if client is None:
            return
        said: dict[str, Any] = {}
        if gives or name in self.unheard:
            client.owned &= client.assigned
            said["owned"] = tuple(sorted(client.owned))
        if name in self.unheard:
            said |= {"topics": client.topics, "rebalance_timeout_ms": TIMEOUT_MS}
        self.send(client, client.epoch, gives=gives, **said)

    def send(self, client: Client, epoch: int, *, gives: bool, **said: Any) -> None:
        self.sent.append((client, epoch, self.play.send(client, epoch, **said), gives))
        self.take()

    def stop(self, name: str) -> None:
        """The client dies."""
        if (client := self.play.clients.get(name)) is not None:
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
                self.unheard[client.member] = None
                if not answer.retriable:
                    self.drop(client)

    # --- what happens to them ----------------------------------------------------------------

    @rule()
    def look(self) -> None:
        self.play.look()

    @rule(writes=st.booleans())
    def log_holds(self, writes: bool) -> None:
        self.play.stage.writing = writes
        while writes and self.play.stage.wanted:
            self.play.stage.written()
        self.take()

    @rule()
    def move(self) -> None:
        """Another coordinator goes on."""
        self.play.stage.unload()
        self.take()
        self.play.stage = self.play.stage.elsewhere(limits=LIMITS_HERE)
        self.sent.clear()
        self.moved()

    def moved(self) -> None:
        """What the last coordinator decided, and the log does not have, is forgotten."""

    # --- what holds --------------------------------------------------------------------------

    def read_now(self) -> Counter[PartitionKey]:
        """How many clients read each partition."""
        return Counter(key for client in self.play.clients.values() for key in client.owned)

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        readers = self.read_now()
        assert not [key for key, count in readers.items() if count > 1], readers

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        """As the coordinator has it."""
        found = self.play.described()
        if found is None:
            return
        held = Counter(key for member in found.members for key in (*member.assigned, *member.revoking))
        assert not [key for key, count in held.items() if count > 1], held

    def keys_of(self, topics: set[str]) -> set[PartitionKey]:
        """The partitions of those that exist."""
        return {
            PartitionKey(topic.topic_id, PartitionId(number))
            for name in topics
            if (topic := self.play.topics.get(name)) is not None
            for number in range(topic.partitions)
        }
