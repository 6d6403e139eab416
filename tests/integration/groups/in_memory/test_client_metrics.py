"""What clients measure while they work (docs/use/clients.md, "Metrics"), and OpenTelemetry's view of it."""

from __future__ import annotations

import gc

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from strandline import Consumer, Producer
from strandline.errors import InvalidRecord
from strandline.opentelemetry import observe
from strandline.testing import MemoryCluster
from tests.integration.groups.support.group_members import GROUP_SETTINGS, new_group, new_topic

RECORDS = 20


async def produced(cluster: MemoryCluster, producer: Producer, topic: str) -> None:
    for number in range(RECORDS):
        await producer.send_and_wait(topic, b"%d" % number, partition=0)


async def test_a_producer_measures_records_bytes_and_answers(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster, 1)
    async with cluster.producer(buffer_bytes=100_000) as producer:
        assert producer.metrics().keys() == {metric.name for metric in Producer.METRICS}
        await produced(cluster, producer, topic)
        found = producer.metrics()
        assert (found["record-send-total"], found["record-error-total"]) == (RECORDS, 0)
        assert found["record-send-rate"] > 0
        assert found["outgoing-byte-total"] > found["batch-size-max"] >= found["batch-size-avg"] > 0
        assert found["request-latency-max"] >= found["request-latency-avg"] > 0
        assert (found["buffer-available-bytes"], found["requests-in-flight"]) == (100_000, 0)
        _ = await producer.send(topic, bytes(1_000), partition=0)
        assert producer.metrics()["buffer-available-bytes"] < 99_000


async def test_records_that_fail_are_counted(cluster: MemoryCluster) -> None:
    """A compacted topic takes no record without a key."""
    await cluster.create_topic("compacted", config={"cleanup.policy": "compact"})
    async with cluster.producer() as producer:
        with pytest.raises(InvalidRecord):
            await producer.send_and_wait("compacted", b"y")
        assert producer.metrics()["record-error-total"] == 1


async def test_a_consumer_measures_records_lag_rebalances_and_commits(cluster: MemoryCluster) -> None:
    topic = await new_topic(cluster, 1)
    async with cluster.producer() as producer:
        await produced(cluster, producer, topic)
    async with cluster.consumer(group_id=new_group(), **GROUP_SETTINGS) as consumer:
        assert consumer.metrics().keys() == {metric.name for metric in Consumer.METRICS}
        assert consumer.metrics()["last-rebalance-seconds-ago"] == -1
        consumer.subscribe([topic])
        for _ in range(5):
            await consumer.getone()
        await consumer.commit()
        found = consumer.metrics()
    assert (found["assigned-partitions"], found["records-lag-max"]) == (1, RECORDS - 5)
    assert found["records-consumed-total"] >= 5
    assert found["bytes-consumed-total"] > 0
    assert found["fetch-total"] >= 1
    assert found["rebalance-total"] >= 1
    assert found["rebalance-latency-max"] >= found["rebalance-latency-avg"] > 0
    assert found["last-rebalance-seconds-ago"] >= 0
    assert found["commit-total"] >= 1
    assert found["commit-latency-max"] > 0
    assert 0 <= found["last-poll-seconds-ago"] < 60


# --- OpenTelemetry ------------------------------------------------------------------------------------


def collected(reader: InMemoryMetricReader) -> dict[str, tuple[str, float, dict[str, object]]]:
    """Kind, value and attributes of each series, by name."""
    data = reader.get_metrics_data()
    return {
        metric.name: (type(metric.data).__name__, point.value, dict(point.attributes or {}))
        for resource in (data.resource_metrics if data is not None else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if isinstance(point, NumberDataPoint)
    }


async def test_opentelemetry_reads_a_client_when_it_collects(cluster: MemoryCluster) -> None:
    """Counters stay counters, and the names are Kafka's."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    topic = await new_topic(cluster, 1)
    async with cluster.producer() as producer:
        observe(producer, attributes={"client.id": "orders"}, meter_provider=provider)
        await produced(cluster, producer, topic)
        found = collected(reader)
        assert found["kafka.producer.record_send_total"] == ("Sum", RECORDS, {"client.id": "orders"})
        assert len(found) == len(Producer.METRICS)
        await produced(cluster, producer, topic)
        assert collected(reader)["kafka.producer.record_send_total"][1] == 2 * RECORDS
        assert found["kafka.producer.buffer_total_bytes"][0] == "Gauge"
    provider.shutdown()


async def test_a_client_that_is_gone_has_no_series() -> None:
    """The bridge does not keep it: a program may make a client for each of its jobs."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    consumer = Consumer("127.0.0.1:1")
    observe(consumer, meter_provider=provider)
    assert len(collected(reader)) == len(Consumer.METRICS)
    del consumer
    gc.collect()
    assert collected(reader) == {}
    provider.shutdown()
