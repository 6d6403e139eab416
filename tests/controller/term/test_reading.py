"""Readings of the whole cluster leave room for other work on the same connection to ZooKeeper."""

from __future__ import annotations

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.config.limits import ZOOKEEPER_BULK_READS_IN_FLIGHT_MAX
from strandline.controller.core.topics import Brokers
from strandline.controller.term.fenced_session import FencedSession
from strandline.controller.term.reading import read_topics
from strandline.controller.term.surveying import read_survey
from strandline.ports import Znode
from tests.znode_tree import ZnodeTree

TOPICS, PARTITIONS = 10, 50


@pytest.mark.parametrize("whole", ["a survey", "the topics of a new term"])
async def test_a_reading_of_the_cluster_has_one_bound_for_topics_and_partitions(whole: str) -> None:
    """Each loop had a bound of its own: a reading of 1,000 topics with 10 partitions each sent 10,000 reads
    at once, and the write behind them waited for seconds."""
    tree = ZnodeTree()
    tree.nodes |= dict.fromkeys(znodes.SKELETON, Znode(b"", 0, 0, 0, 0))
    names = tree.add_topics(TOPICS, PARTITIONS)
    session = tree.open_session()
    fenced = FencedSession(session, 1)
    if whole == "a survey":
        survey = await read_survey(fenced, Brokers({}, set()))
        assert len(survey.partitions) == TOPICS * PARTITIONS
    else:
        picture, _ = await read_topics(fenced)
        assert all(picture.topic_id(name) is not None for name in names)
    assert session.most_in_flight == ZOOKEEPER_BULK_READS_IN_FLIGHT_MAX
