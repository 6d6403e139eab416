"""Ids of producers: given once in a cluster, and not to be guessed."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.broker.log.producer_ids import BLOCK_IDS, DRAWN_IDS, ProducerIds
from strandline.errors import LeaderNotAvailable
from strandline.ports import SetData
from tests.znode_tree import MemorySession, ZnodeTree


async def session() -> MemorySession:
    found = ZnodeTree().open_session()
    await found.ensure_path(znodes.PRODUCER_IDS)
    return found


async def test_no_id_is_given_twice_and_none_can_be_guessed() -> None:
    """A producer with one id must not know those of others: it could take sequences under them."""
    shared = await session()
    brokers = [ProducerIds(lambda: shared, Random(seed)) for seed in (1, 1)]  # unlucky: the same draws
    given = [await broker.new() for _ in range(DRAWN_IDS + 1) for broker in brokers]
    assert len(set(given)) == len(given)
    assert all(0 <= each < 2**63 for each in given)
    ordered = sorted(given)
    gaps = [after - before for before, after in pairwise(ordered)]
    assert sorted(gaps)[len(gaps) // 2] > BLOCK_IDS // DRAWN_IDS // 10
    first_block = [each for each in given if each // BLOCK_IDS == given[0] // BLOCK_IDS]
    assert len(first_block) == DRAWN_IDS, "only then is another block taken"


async def test_without_zookeeper_another_broker_has_to_be_asked() -> None:
    with pytest.raises(LeaderNotAvailable, match="ask another"):
        await ProducerIds(lambda: None, Random(1)).new()
    broken = await session()
    broken.lose(SetData, applied=True)
    ids = ProducerIds(lambda: broken, Random(1))
    with pytest.raises(LeaderNotAvailable, match="without ZooKeeper"):
        await ids.new()
    assert await ids.new() // BLOCK_IDS >= 2, "the block that was lost is not taken again"
