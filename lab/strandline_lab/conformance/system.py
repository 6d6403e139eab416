"""Sends the calls of cases to one system: finds coordinators, fills in ids, and decodes the answers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from strandline_lab.conformance.batches import Batch
from strandline_lab.conformance.case import (
    Call,
    Case,
    Group,
    Leader,
    Role,
    Taken,
    Target,
    Topic,
    TopicId,
    Transaction,
    in_version,
)
from strandline_lab.conformance.codec import Undecodable, decode, encode, uvarint
from strandline_lab.conformance.definitions import NO_ID, Messages
from strandline_lab.conformance.link import Link, NoAnswer

CLIENT_ID: Final = "conformance"
ANSWER_S_MAX: Final = 15.0
"""The longest that an answer is waited for. No case asks a broker to wait for more than a second."""
SETUP_S_MAX: Final = 60.0
TRIES_MAX: Final = 100
_PAUSE_S: Final = 0.05
LEADERS_TRIES_MAX: Final = 400
_LEADERS_PAUSE_S: Final = 0.2
TOPICS_AT_ONCE: Final = 50
TOPIC_MS_MAX: Final = 30_000
NOT_READY: Final = frozenset({5, 6, 14, 15, 16, 51})
"""LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, the three of coordinators that load or move,
CONCURRENT_TRANSACTIONS: a client asks again."""
PREPARING: Final = NOT_READY | {3}
"""A topic that was just created is not known to each broker."""
_VERSIONS: Final = "ApiVersions"
_FIND_COORDINATOR: Final = 2
_CREATE_TOPICS: Final = 7
_METADATA: Final = 12
_PRODUCE: Final = 9
_NOBODY: Final = -1
_WARM_UP: Final = Call("InitProducerId", {"TransactionalId": None, "TransactionTimeoutMs": 60_000}, version=4)

Answer = dict[str, Any] | str
"""The fields of an answer, or what came instead."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer, and the values that its case had taken before."""

    answer: Answer
    taken: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running system: its name, the addresses of its brokers 1, 2, …, the messages that it is sent, and
    the time from which batches count theirs, in milliseconds since 1970."""

    name: str
    addresses: Sequence[str]
    messages: Messages
    start_ms: int


@asynccontextmanager
async def opened(cluster: Cluster) -> AsyncIterator[System]:
    """A client of a cluster, whose connections are closed at the end."""
    system = System(cluster)
    try:
        yield system
    finally:
        await system.close()


async def versions_of(cluster: Cluster) -> dict[str, range]:
    """The versions of each API that a cluster advertises, as far as the jar knows the API."""
    async with opened(cluster) as system:
        return await system.versions()


class System:
    """A client of one cluster, with a connection to each broker."""

    def __init__(self, cluster: Cluster) -> None:
        self.name = cluster.name
        self.topic_ids: dict[str, UUID] = {}
        self._start_ms = cluster.start_ms
        self._messages = cluster.messages
        self._found: dict[Role, int] = {}
        self._links = {
            index: Link(host, int(port))
            for index, (host, _, port) in enumerate((each.partition(":") for each in cluster.addresses), 1)
        }

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()

    # --- what it serves -----------------------------------------------------------------------

    async def versions(self) -> dict[str, range]:
        """The versions of each API that it advertises, as far as the jar knows the API."""
        answer = await self.ask(Call(_VERSIONS, {"ClientSoftwareName": "c", "ClientSoftwareVersion": "1"}), 3)
        assert isinstance(answer, dict), answer
        return {
            self._messages.names[each["ApiKey"]]: range(each["MinVersion"], each["MaxVersion"] + 1)
            for each in answer["ApiKeys"]
            if each["ApiKey"] in self._messages.names
        }

    async def warm_up(self) -> None:
        """Has the system make its topics of groups and transactions, which some cases name, and each broker
        give a producer id, so that none of a case is 0."""
        await self._coordinator(Group("warm-up"))
        await self._coordinator(Transaction("warm-up"))
        for broker in self._links:
            await self._settled(replace(_WARM_UP, to=broker), 0, {})

    async def create(self, topics: Sequence[Topic]) -> None:
        """Creates topics, and waits until each broker names a leader for each of their partitions."""
        for at in range(0, len(topics), TOPICS_AT_ONCE):
            some = topics[at : at + TOPICS_AT_ONCE]
            body = {"Topics": [_creatable(each) for each in some], "timeoutMs": TOPIC_MS_MAX}
            answer = await self.ask(Call("CreateTopics", body), _CREATE_TOPICS, seconds=SETUP_S_MAX)
            assert isinstance(answer, dict), f"{self.name}: {answer}"
            for each in answer["Topics"]:
                assert each["ErrorCode"] == 0, f"{self.name}: {each}"
                self.topic_ids[each["Name"]] = each["TopicId"]
        for broker in self._links:
            await self._lead(topics, broker)
        for topic in topics:
            for batch in topic.batches:
                await self._settled(Call("Produce", _produced(topic.name, batch), version=_PRODUCE), 0, {})

    async def _lead(self, topics: Sequence[Topic], broker: int) -> None:
        body = {"Topics": [{"Name": each.name} for each in topics], "AllowAutoTopicCreation": False}
        for _ in range(LEADERS_TRIES_MAX):
            answer = await self.ask(Call("Metadata", body, to=broker), _METADATA, seconds=SETUP_S_MAX)
            if isinstance(answer, dict) and all(
                partition["LeaderId"] == 1 and partition["ErrorCode"] == 0
                for each in answer["Topics"]
                for partition in each["Partitions"] or [{"LeaderId": _NOBODY, "ErrorCode": 0}]
            ):
                return
            await asyncio.sleep(_LEADERS_PAUSE_S)
        raise TimeoutError(f"{self.name}: topics have no leaders")

    # --- cases --------------------------------------------------------------------------------

    async def run(self, case: Case, version: int) -> Seen:
        """Carries out a case at one version, and returns the answer to its last call."""
        taken: dict[str, Any] = {}
        answer: Answer = ""
        for call in (each for each in (*case.before, case.call) for _ in range(each.times)):
            answer = await self._settled(call, version, taken)
            if isinstance(answer, dict):
                taken |= {
                    name: found for name, path in call.take.items() if (found := at(answer, path)) is not None
                }
        return Seen(answer, taken)

    async def _settled(self, call: Call, version: int, taken: Mapping[str, Any]) -> Answer:
        """Asks again while a leader or coordinator is not ready, or what was changed is not seen."""
        waited_for = NOT_READY if call.version is None else PREPARING
        answer: Answer = ""
        is_nameless = isinstance(call.to, Group | Transaction) and not call.to.name
        for _ in range(TRIES_MAX if call.settled and not is_nameless else 1):
            answer = await self.ask(call, version, taken)
            if isinstance(answer, str) or (waited_for.isdisjoint(codes(answer)) and _is_there(call, answer)):
                break
            if not isinstance(call.to, int):
                self._found.pop(in_version(call.to, version), None)
            await asyncio.sleep(_PAUSE_S)
        return answer

    async def ask(
        self,
        call: Call,
        version: int,
        taken: Mapping[str, Any] | None = None,
        *,
        seconds: float = ANSWER_S_MAX,
    ) -> Answer:
        """Sends one request as it is, once. `taken` has values of earlier answers."""
        asked = version if call.version is None else call.version
        body = self._filled(in_version(call.body, version), taken or {})
        to = await self._broker(in_version(call.to, version))
        messages, flexible = self._messages, self._messages.is_flexible(call.api, asked)
        try:
            payload = encode(messages.fields(call.api, "request", asked), body, flexible=flexible)
        except struct.error as error:
            raise ValueError(f"{call.api} {asked}: {error}") from error
        header = _header(messages.keys[call.api], asked, flexible=flexible)
        answer = await self._links[to].ask(header + payload, seconds)
        if isinstance(answer, NoAnswer):
            return str(answer)
        has_tags = flexible and call.api != _VERSIONS
        try:
            return decode(
                messages.fields(call.api, "response", asked),
                answer[5 if has_tags else 4 :],
                flexible=flexible,
            )
        except Undecodable as error:
            return f"(not decodable: {error})"

    async def _broker(self, target: Target) -> int:
        if isinstance(target, int):
            return target
        if target not in self._found:
            find = self._leader(target) if isinstance(target, Leader) else self._coordinator(target)
            self._found[target] = await find
        return self._found[target]

    async def _leader(self, target: Leader) -> int:
        answer = await self.ask(Call("Metadata", {"Topics": [{"Name": target.topic}]}), _METADATA)
        leader: int | None = at(answer, "Topics.0.Partitions.0.LeaderId")
        return 1 if leader is None or leader == _NOBODY else leader

    async def _coordinator(self, target: Group | Transaction) -> int:
        """The coordinator; the first broker where none is named, so that its refusal is seen."""
        body = {"Key": target.name, "KeyType": 0 if isinstance(target, Group) else 1}
        for _ in range(TRIES_MAX):
            answer = await self.ask(Call("FindCoordinator", body), _FIND_COORDINATOR)
            if isinstance(answer, dict) and answer["ErrorCode"] not in NOT_READY:
                return answer["NodeId"] if answer["ErrorCode"] == 0 else 1
            await asyncio.sleep(_PAUSE_S)
        return 1

    def _filled(self, value: Any, taken: Mapping[str, Any]) -> Any:
        """`value` with ids and bytes in the place of what stands for them."""
        match value:
            case TopicId(topic):
                return self.topic_ids.get(topic, NO_ID)
            case Taken(name, missing):
                return taken.get(name, missing)
            case Batch(producer=str(name)):
                return value.with_producer(taken.get(name, 0)).encoded(self._start_ms)
            case Batch():
                return value.encoded(self._start_ms)
            case Mapping():
                return {name: self._filled(each, taken) for name, each in value.items()}
            case list() if value and all(isinstance(each, Batch) for each in value):
                return b"".join(self._filled(each, taken) for each in value)
            case list():
                return [self._filled(each, taken) for each in value]
            case _:
                return value


def _creatable(topic: Topic) -> dict[str, Any]:
    return {
        "Name": topic.name,
        "NumPartitions": -1,
        "ReplicationFactor": -1,
        "Assignments": [
            {"PartitionIndex": index, "BrokerIds": [1, 2, 3] if index % 2 == 0 else [1, 3, 2]}
            for index in range(topic.partitions)
        ],
        "Configs": [{"Name": name, "Value": value} for name, value in topic.configs.items()],
    }


def _produced(topic: str, batch: Batch) -> dict[str, Any]:
    partition = {"Index": 0, "Records": batch}
    return {
        "Acks": -1,
        "TimeoutMs": TOPIC_MS_MAX,
        "TopicData": [{"Name": topic, "PartitionData": [partition]}],
    }


def _header(key: int, version: int, *, flexible: bool) -> bytes:
    client = CLIENT_ID.encode()
    head = struct.pack(">hhih", key, version, 1, len(client)) + client
    return head + uvarint(0) if flexible else head


def _is_there(call: Call, answer: Any) -> bool:
    if call.until is None:
        return True
    found = at(answer, call.until)
    return bool(found) if call.value is None else found == call.value


def at(answer: Any, path: str) -> Any:
    """The value at a path such as `Topics.0.TopicId`; None if it is not there."""
    for word in path.split("."):
        if isinstance(answer, list):
            answer = answer[int(word)] if int(word) < len(answer) else None
        else:
            answer = answer.get(word) if isinstance(answer, dict) else None
    return answer


def codes(answer: Any) -> Iterator[int]:
    """All error codes in an answer, at any depth."""
    if isinstance(answer, list):
        for each in answer:
            yield from codes(each)
    elif isinstance(answer, dict):
        for name, each in answer.items():
            if name == "ErrorCode":
                yield each
            elif isinstance(each, list | dict):
                yield from codes(each)
