"""Finds the names of topics by their ids, of topics that this broker need not have.

A topic keeps its name, so a pair that was read once is never wrong. Whether the topic is still there is read
for each request: of a few ids one by one, of more in one listing. Requests that come together share a look.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from itertools import islice
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import Reader
from strandline.broker.metadata.prompt_reads import PromptReads
from strandline.broker.metadata.shared_look import SharedLook
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.errors import CoordinationError
from strandline.ids import TopicId
from strandline.ports import NoNode
from strandline.tasks import pipelined

NAMES_MAX: Final = 20_000
"""Names that are kept besides those of the last look; of more, those that were looked for last."""
ONE_BY_ONE_MAX: Final = 20
"""Ids of one look that are read singly; if there are more, all topics' ids are listed."""


class TopicNames:
    """The names of a cluster's topics."""

    def __init__(self, prompt: PromptReads, many: Reader, known: Callable[[str], str | None]) -> None:
        """`many`: for reading all topics. `known`: the name of an id that was read otherwise."""
        self._prompt = prompt
        self._many = many
        self._known = known
        self._looks = SharedLook(self._look)
        self._readings = SharedLook(self._read_names)
        """Apart from the looks: requests for topics with known names do not wait for a reading of all."""
        self._found: dict[TopicId, str] = {}
        """The names of topics that existed when they were last looked for; empty if it is not known."""

    async def of(self, ids: Collection[TopicId]) -> Mapping[TopicId, str | None]:
        """The names of these topics by a look that begins after this call; None: no topic has this id. While
        ZooKeeper does not answer, the names that are known, and nothing of the other ids."""
        if not ids:
            return {}
        try:
            await self._looks.at(set(ids))
            if unnamed := {each for each in ids if self._found.get(each) == ""}:
                await self._readings.at(unnamed)
        except CoordinationError:
            return {each: name for each in ids if (name := self._name_of(each))}
        return {each: self._found.get(each) or None for each in ids}

    async def _look(self, ids: Set[str]) -> None:
        await self._prompt.sync()
        there = await self._existing(ids)
        self._keep(ids, {each: self._name_of(each) for each in there})

    async def _existing(self, ids: Set[str]) -> list[TopicId]:
        asked = [TopicId(each) for each in sorted(ids)]
        if len(asked) > ONE_BY_ONE_MAX:
            listed = set(await self._prompt.children(znodes.TOPIC_IDS))
            return [each for each in asked if each in listed]

        async def exists(topic_id: TopicId) -> bool:
            try:
                await self._prompt.get(znodes.topic_id(topic_id))
            except NoNode:
                return False
            return True

        found = await pipelined(exists, asked, in_flight_max=ONE_BY_ONE_MAX)
        return [each for each, there in zip(asked, found, strict=True) if there]

    async def _read_names(self, ids: Set[str]) -> None:
        """Reads every topic, for the names of those with these ids."""

        async def read(name: str) -> TopicId | None:
            try:
                return znodes.load_topic(name, (await self._many.get(znodes.topic(name))).data).topic_id
            except (NoNode, znodes.UnreadableZnode):
                return None

        names = znodes.topic_names(await self._many.children(znodes.TOPICS))
        found = await pipelined(read, names, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        named = {each: name for name, each in zip(names, found, strict=True) if each in ids and each}
        self._keep(named.keys(), named)

    def _name_of(self, topic_id: TopicId) -> str:
        return self._found.get(topic_id) or self._known(topic_id) or ""

    def _keep(self, looked_for: Set[str], names: Mapping[TopicId, str]) -> None:
        kept = {each: name for each, name in self._found.items() if each not in looked_for}
        self._found = dict(islice(kept.items(), max(0, len(kept) - NAMES_MAX), None)) | dict(names)
