"""A stream of replication begins with a hello, and a leader takes it only of a registered life of a broker of
its cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.replication.handlers import Followers
from strandline.errors import BrokerNotAvailable, InconsistentClusterId, InvalidRequest, StaleBrokerEpoch
from strandline.ids import BrokerEpoch, BrokerId
from strandline.vocabulary.replication import Hello
from tests.broker.support.replicas import CLOCK, LIVE, settings
from tests.broker.support.seat import ME, seated

THIRD = BrokerId(3)
RIGHT = Hello(THIRD, LIVE[THIRD].epoch, ME, "this one")


@pytest.mark.parametrize(
    ("hello", "error"),
    [
        (replace(RIGHT, cluster_id="another"), InconsistentClusterId),
        (replace(RIGHT, leader_id=BrokerId(1)), InvalidRequest),
        (replace(RIGHT, broker_epoch=BrokerEpoch(RIGHT.broker_epoch - 1)), StaleBrokerEpoch),
        (replace(RIGHT, broker_epoch=BrokerEpoch(RIGHT.broker_epoch + 1_000_000)), BrokerNotAvailable),
        (replace(RIGHT, broker_id=BrokerId(77)), BrokerNotAvailable),
    ],
    ids=["another cluster", "another leader", "an earlier life", "a life to come", "an unknown broker"],
)
async def test_a_follower_that_is_none_is_refused(
    tmp_path: Path, hello: Hello, error: type[Exception]
) -> None:
    """CORRECTNESS I6, E4, X4: a zombie's fetch never counts; with a hello of a future life any client could
    count as a follower, forever. Two brokers that swapped their ports do not replicate from themselves."""
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
        view.cluster_id = RIGHT.cluster_id
        followers = Followers(seat.manager, view, settings(), CLOCK)
        with pytest.raises(error):
            await followers.open(hello)
        followers.close(await followers.open(RIGHT))
