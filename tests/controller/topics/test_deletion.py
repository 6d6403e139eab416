"""Two requests delete a topic, and it is made anew between the steps of one of them."""

from __future__ import annotations

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.controller.topics.topics import Topics
from strandline.vocabulary.admin import NewTopic
from tests.conftest import SessionFactory
from tests.controller.support.between import term_alone

LARGE = 30
"""Partitions of a topic that does not fit into one multi."""


@pytest.mark.parametrize("partitions", [1, LARGE])
async def test_a_deletion_removes_no_partition_of_the_next_topic(
    zookeeper: str, open_session: SessionFactory, partitions: int
) -> None:
    """A client whose request took long sends it again, and the first one's answer is late."""
    session, others = await open_session(), [(1, 2)] * (partitions - 1)
    async with term_alone(zookeeper, session, [1, 2], (1, 2), *others) as (term, reads):
        topics = Topics(term)
        path = znodes.topic("t")

        async def made_anew() -> None:
            (gone,) = await topics.delete(["t"], [], ())
            new = NewTopic("t", partitions, 2)
            (made,) = await topics.create([new], (), validate_only=False, internal=False)
            assert gone.error is made.error is None

        async def marked() -> None:
            reads.after[path] = made_anew  # once it was read again: it is still the topic to delete

        async def found() -> None:
            reads.after[path] = marked

        reads.after[path] = found
        (deleted,) = await topics.delete(["t"], [], ())
        assert deleted.error is None
        node = znodes.load_topic("t", (await session.get(path)).data)
        assert node.topic_id != deleted.topic_id
        assert node.partitions == partitions
        assert len(await session.children(path)) == partitions
