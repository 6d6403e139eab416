"""A term on a tree of znodes in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.service_host import service_host
from strandline.adapters.zookeeper import znodes
from strandline.config.services.controller import ControllerSettings
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.term import Term
from strandline.controller.topics.topics import Topics
from strandline.ids import BrokerId
from strandline.ports import Coordination
from strandline.vocabulary.admin import NewTopic, TopicResult
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.state_changes import Command
from tests.controller.support.znodes_seen import register, requests
from tests.znode_tree import MemorySession, ZnodeTree


def term_in(session: Coordination, **settings: Any) -> Term:
    """A term in epoch 0. The controller's znodes must exist."""
    host = service_host()
    given = ControllerSettings(zookeeper="localhost:1", **settings)
    endpoint = Endpoint(7, "localhost", 7_000)
    return Term(FencedSession(session, 0), endpoint, given, host, MemberKey(host.new_id))


@dataclass(frozen=True, slots=True)
class InMemory:
    """A term without other members of the cluster."""

    tree: ZnodeTree
    session: MemorySession
    """The session of the term."""
    observer: MemorySession
    """Another one, for what is not to be counted."""
    term: Term
    topics: Topics

    async def create(self, *names: str, partitions: int = 1) -> Outcomes:
        """Creates topics with their replicas on brokers 1 and 2."""
        return await self.place({name: [(1, 2)] * partitions for name in names})

    async def place(self, topics: Mapping[str, Sequence[Sequence[int]]]) -> Outcomes:
        """Creates topics with these assignments."""
        new = [NewTopic(name, 0, assignments=assignments) for name, assignments in topics.items()]
        return outcomes(await self.topics.create(new, (), validate_only=False, internal=False))

    async def delete(self, *names: str) -> Outcomes:
        return outcomes(await self.topics.delete(names, (), ()))

    async def node(self, name: str) -> znodes.TopicNode:
        return znodes.load_topic(name, (await self.observer.get(znodes.topic(name))).data)

    async def names(self) -> list[str]:
        """The topics, in order."""
        return sorted(await self.observer.children(znodes.TOPICS))

    async def requested(self, broker: int, command: Command) -> list[tuple[str, int]]:
        """The topic and partition of each such request in the broker's queue, in order."""
        found = await requests(self.observer, broker)
        return [(change.topic, change.key.partition) for change in found if change.command is command]

    async def entries(self, broker: int) -> int:
        """The znodes in the broker's queue."""
        return len(await self.observer.children(znodes.state_queue(broker)))


Outcomes = dict[str, str]
"""For each topic the name of its error's type, or ""."""


def outcomes(results: Sequence[TopicResult]) -> Outcomes:
    return {each.topic: "" if each.error is None else type(each.error).__name__ for each in results}


@asynccontextmanager
async def ending_term(session: Coordination, **settings: Any) -> AsyncIterator[Term]:
    """`term_in`, whose recorder ends with the block: else it looks for its brokers, and says so, for as long
    as the loop of all tests runs."""
    term = term_in(session, **settings)
    try:
        yield term
    finally:
        await term.recorder.close()


@asynccontextmanager
async def in_memory(brokers: Sequence[int] = (1, 2), **settings: Any) -> AsyncIterator[InMemory]:
    """A term with these brokers registered."""
    tree = ZnodeTree()
    session, observer = tree.open_session(), tree.open_session()
    roots = (
        znodes.CONTROLLER_EPOCH,
        znodes.DELETE_TOPICS,
        znodes.TOPICS,
        znodes.TOPIC_IDS,
        znodes.UNRECORDED,
        znodes.REASSIGNED,
        *(znodes.state_queue(BrokerId(broker)) for broker in brokers),
        *(znodes.elections(BrokerId(broker)) for broker in brokers),
    )
    for path in roots:
        await observer.ensure_path(path)
    await register(observer, brokers)
    async with ending_term(session, **settings) as term:
        yield InMemory(tree, session, observer, term, Topics(term))
