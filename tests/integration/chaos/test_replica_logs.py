"""The files of real brokers are the same byte for byte, and one that is not is found."""

from __future__ import annotations

import pytest

from strandline import Admin, Producer
from strandline.auditing.checks import REPLICAS, Finding
from strandline.broker.storage.segments.segment import LOG_SUFFIX
from strandline.local.cluster import LocalCluster
from strandline_lab.chaos import replica_logs
from tests.conftest import ClusterFactory
from tests.waiting import eventually

pytestmark = pytest.mark.slow

TOPIC = "recorded"
RECORDS = 200


def different(cluster: LocalCluster) -> list[Finding]:
    """How the replicas differ below RECORDS."""
    logs = {broker: cluster.data_dir(broker) for broker in cluster.broker_ids}
    found = replica_logs.find(logs)
    (log_id,) = (log_id for log_id in found if log_id.topic == TOPIC)
    assert [replica.broker for replica in found[log_id]] == [1, 2]
    return [*replica_logs.compare(log_id, found[log_id], RECORDS)]


async def test_a_byte_that_changed_on_the_disk_of_one_broker_is_found(make_cluster: ClusterFactory) -> None:
    """E15, T1: what is below the high watermark is the same everywhere, also after a change of leader."""
    cluster = await make_cluster(brokers=2)
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(TOPIC, partitions=1, replication_factor=2)
    async with Producer(cluster.bootstrap) as producer:
        for number in range(RECORDS):
            await producer.send_and_wait(TOPIC, b"%d" % number)
            if number == RECORDS // 2:
                await cluster.stop_broker(1)
                await cluster.start_broker(1)

    await eventually(lambda: not different(cluster), what="both replicas have all, and their list of epochs")
    (segment,) = cluster.data_dir(2).glob(f"{TOPIC}-0-*/*{LOG_SUFFIX}")
    with segment.open("r+b") as file:
        file.seek(segment.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    (found,) = different(cluster)
    assert (found.check, found.topic, found.partition) == (REPLICAS.name, TOPIC, 0)
    assert 0 < (found.offset or 0) < RECORDS
    assert "broker 2" in found.detail
