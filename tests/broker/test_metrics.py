"""The counters of a working broker, and a scrape's readings of its live objects."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.refused_requests import RefusedRequests
from strandline.adapters.rpc.request_times import RequestTimes
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system.files import SYSTEM_FILES
from strandline.adapters.telemetry.audit import Audit
from strandline.adapters.telemetry.kafka_traffic import KafkaTraffic
from strandline.adapters.telemetry.metrics import Buckets
from strandline.adapters.zookeeper.metrics import Sessions
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.groups.groups import Groups
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.producer_ids import ProducerIds
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.metadata.controller import controller_link
from strandline.broker.metadata.internal_topics import InternalTopics
from strandline.broker.metrics import METRICS, BrokerMetrics
from strandline.broker.replicas.counts import OTHERS, Counts, TopicCounts
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replication.throttle import CopyThrottle
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.broker.transactions.log_markers import LogMarkers
from strandline.broker.transactions.transactions import Transactions
from strandline.errors import StorageFailed
from strandline.ids import NO_EPOCH, OFFSETS_TOPIC, BrokerId, Offset, PartitionId, TopicPartition
from strandline.ports import LinkState
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import DEFAULT, Quota, QuotaEntity, Quotas
from strandline.vocabulary.configs.groups import KnownGroupConfigs
from strandline.vocabulary.log import FetchPartition, ProduceEntry
from strandline.vocabulary.metadata import Endpoint, Reassignment
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.quotas import UNLIMITED
from tests.broker.support.replicas import (
    ASSIGNED,
    CLOCK,
    HOST,
    KEY,
    LIVE,
    NAME,
    Led,
    batch,
    following,
    leading,
    open_replica,
    settings,
    write,
)
from tests.broker.support.seat import Seat, led_by, seated
from tests.waiting import eventually

SECOND, THIRD = BrokerId(2), BrokerId(3)


def has(leader: Led, broker: BrokerId, end: int) -> None:
    leader.leadership.fetched(broker, LIVE[broker].epoch, end, subscription=1)
    leader.leadership.turn()


# --- what is counted ----------------------------------------------------------------------------------


async def test_a_leader_counts_records_and_bytes_once_however_often_a_batch_comes() -> None:
    """BrokerTopicMetrics' MessagesIn and BytesIn: a repetition that the producer's sequence reveals is a
    request, and no message."""
    async with leading(open_replica(), 5) as leader:
        records = batch("a", "b", "c", producer=(7, 0))
        for _ in range(2):
            leader.leadership.produce(records, acks=-1, timeout_ms=60_000, done=leader.outcomes.append)
        found = leader.replica.counts
        assert (found.messages_in, found.bytes_in, found.produce_requests) == (3, len(records), 2)


async def test_answers_that_are_errors_are_counted_whenever_they_come() -> None:
    """FailedProduceRequests: what waited too long, and what waited when the leadership ended."""
    async with leading(open_replica(), 5, isr=(1, 2)) as leader:
        leader.produce("late", timeout_ms=1)
        await eventually(lambda: leader.outcomes)
        assert leader.replica.counts.produce_failures == 1
        leader.produce("waits")
        leader.leadership.end()
        assert leader.replica.counts.produce_failures == 2


async def test_one_change_of_the_isr_counts_once() -> None:
    """IsrShrinks and IsrExpands of ReplicaManager: by changes, not by members."""
    async with leading(open_replica(), 5) as leader:
        leader.leadership.live_changed({BrokerId(1): LIVE[BrokerId(1)]})
        total = leader.replica.counts.broker
        await eventually(lambda: total.isr_shrinks)
        leader.leadership.live_changed(LIVE)
        for follower in (SECOND, THIRD):
            has(leader, follower, 0)
        await eventually(lambda: set(leader.leadership.core.state.isr_ids) == {1, 2, 3})
        assert total.isr_shrinks == 1
        assert total.isr_expands in (1, 2)  # both come back in one change, or one after the other


async def test_replicated_bytes_are_counted_at_both_ends() -> None:
    """ReplicationBytesOut of the leader is ReplicationBytesIn of its followers."""
    source = open_replica()
    async with leading(source, 5) as leader, following(open_replica(), 5, leader=leader) as follower:
        leader.produce("a")
        await eventually(lambda: follower.replica.log.log_end_offset == 1)
        sent = source.counts.replication_bytes_out
        assert sent == source.counts.bytes_in > 0
        assert follower.replica.counts.replication_bytes_in == sent


async def test_bytes_to_a_replica_that_a_reassignment_adds_are_counted_separately() -> None:
    """ReassignmentBytesOut: until it is in sync; from then on it is a follower like the others."""
    source = open_replica()
    wanted = Reassignment(KEY.topic_id, (BrokerId(2), BrokerId(3)), (BrokerId(1), BrokerId(2)))
    source.assignment = PartitionAssignment(wanted.grown, 1, wanted)
    write(source, 4, "old")
    async with leading(source, 5, isr=(1, 2)) as leader:
        async with following(open_replica(), 5, leader=leader, broker=2) as second:
            await eventually(lambda: second.replica.log.log_end_offset == 1)
            assert source.counts.reassignment_bytes_out == 0
            async with following(open_replica(), 5, leader=leader, broker=3) as third:
                await eventually(lambda: third.replica.log.log_end_offset == 1)
        moved = source.counts.reassignment_bytes_out
        assert 2 * moved == source.counts.replication_bytes_out > 0


def test_a_truncation_reports_how_much_of_it_had_been_committed() -> None:
    """CORRECTNESS T11: with unclean elections allowed a committed record may be cut, and is counted lost."""
    replica = open_replica(TopicConfig.parse({"unclean.leader.election.enable": "true"}))
    write(replica, 1, "a", "b", "c", "d")
    replica.raise_watermark(Offset(3))
    replica.truncate(Offset(1))
    assert (replica.counts.truncated_records, replica.counts.lost_records) == (3, 2)


async def test_an_election_counts_at_the_broker_that_won_it(tmp_path: Path) -> None:
    """No controller elects; an unclean election is counted separately (CORRECTNESS T11, Kafka's
    design V3)."""
    async with seated(tmp_path) as seat:
        await _elect(seat, led_by(1, 1, 2, 3, epoch=5))
        total = seat.manager.counts.broker
        assert (sum(total.elections_ms.read().counts), total.unclean_elections) == (1, 0)


async def _elect(seat: Seat, state: object) -> None:
    assert seat.record == state
    seat.manager.peers.refused(LIVE[BrokerId(1)].epoch)
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 6)


# --- topics -------------------------------------------------------------------------------------------


def test_topics_beyond_the_bound_are_summed() -> None:
    """METRICS_TOPICS_MAX: a scrape does not grow without end; a topic that goes makes room."""
    counts = Counts(topics_max=2)
    for topic in ("a", "b", "c", "d", "a"):
        counts.of(topic).messages_in += 1
    assert {name: of.messages_in for name, of in counts} == {"a": 2, "b": 1, OTHERS: 2}
    counts.keep({"b", "c"})
    counts.of("e").messages_in += 1
    assert {name: of.messages_in for name, of in counts} == {"b": 1, "e": 1, OTHERS: 2}


# --- a session ----------------------------------------------------------------------------------------


class _Link:
    watch_count = 3
    unanswered_s = 0.0

    def __init__(self) -> None:
        self.state = LinkState.CONNECTED
        self.requests: dict[str, tuple[int, int]] = {}
        self._listeners: list[Callable[[LinkState], None]] = []

    def on_state(self, listener: Callable[[LinkState], None]) -> None:
        self._listeners.append(listener)

    def become(self, state: LinkState) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)


def test_a_session_that_is_ended_on_purpose_is_no_alarm() -> None:
    """SessionExpireListener's ZooKeeperExpires: those that ZooKeeper ended."""
    sessions = Sessions()
    expired, left = _Link(), _Link()
    sessions.begin(expired)
    expired.become(LinkState.SUSPENDED)
    expired.become(LinkState.ENDED)
    sessions.leave()
    sessions.begin(left)
    sessions.leave()
    left.become(LinkState.ENDED)
    assert (sessions.ended, sessions.disconnects) == (1, 1)


def test_requests_to_zookeeper_are_counted_over_all_sessions() -> None:
    """A counter never decreases: what an earlier session asked stays."""
    sessions = Sessions()
    first, second = _Link(), _Link()
    sessions.begin(first)
    first.requests["multi"] = (2, 30)
    sessions.leave()
    first.requests["sync"] = (1, 1)
    sessions.begin(second)
    second.requests["multi"] = (1, 5)
    found = {
        (sample.metric.name, *sample.labels): sample.value for sample in sessions.read() if sample.labels
    }
    assert found == {
        ("strandline_zookeeper_requests_total", "multi"): 3,
        ("strandline_zookeeper_operations_total", "multi"): 35,
        ("strandline_zookeeper_requests_total", "sync"): 1,
        ("strandline_zookeeper_operations_total", "sync"): 1,
    }


# --- what is read -------------------------------------------------------------------------------------


@contextmanager
def managed(tmp_path: Path, **changed: object) -> Iterator[ReplicaManager]:
    boot = tmp_path / "boot"
    boot.write_text("this one")
    folder = DataFolder(tmp_path / "data", BrokerId(1), boot, SYSTEM_FILES)
    manager = ReplicaManager(settings(data_dir=folder.path, **changed), folder, HOST)
    try:
        manager.load()
        yield manager
        manager.close(clean=True)
    finally:
        folder.close()


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[ReplicaManager]:
    with managed(tmp_path) as found:
        yield found


def metrics_of(manager: ReplicaManager, quotas: ClientQuotas = UNLIMITED) -> BrokerMetrics:
    view = ClusterView(manager, manager.settings, CLOCK)
    throttle = CopyThrottle(manager.settings, CLOCK)
    topics = InternalTopics(manager, view, controller_link(view, GrpcTransport(), CLOCK))
    transactions = transactions_of(manager, view, topics)
    groups = Groups(
        manager,
        view,
        topics,
        Endpoint(1, "h", 1),
        manager.settings,
        lambda: True,
        MemberKey(HOST.new_id),
        OPEN,
        transactions.admission,
        KnownGroupConfigs(),
    )
    return BrokerMetrics(
        manager,
        groups,
        transactions,
        (groups.events,),
        RequestTimes(CLOCK),
        RefusedRequests(CLOCK),
        KafkaTraffic(CLOCK),
        Audit("", CLOCK),
        Sessions(),
        lambda: 1.5,
        throttle,
        quotas,
    )


def transactions_of(manager: ReplicaManager, view: ClusterView, topics: InternalTopics) -> Transactions:
    async def no_id() -> int:
        raise AssertionError("no producer asks for an id")

    async def place_of_group(group: str) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, 0)

    return Transactions(
        manager,
        view,
        topics,
        LogMarkers(lambda name: manager.named(*name), lambda leadership, marker: None),
        place_of_group,
        no_id,
        manager.settings,
        lambda: True,
        GrpcTransport(),
        OPEN,
    )


def handlers_of(manager: ReplicaManager) -> Handlers:
    view = ClusterView(manager, manager.settings, CLOCK)
    return Handlers(
        manager, view, manager.settings, CLOCK, lambda: True, ProducerIds(lambda: None, Random(0)), OPEN
    )


def read(metrics: BrokerMetrics) -> dict[tuple[str, ...], float]:
    return {
        (sample.metric.name, *sample.labels): sample.value
        for sample in metrics.read()
        if not isinstance(sample.value, Buckets)
    }


async def test_a_leader_reports_the_members_that_its_isr_lacks(manager: ReplicaManager) -> None:
    """UnderReplicatedPartitions, UnderMinIsrPartitionCount and AtMinIsrPartitionCount of ReplicaManager."""
    metrics = metrics_of(manager)
    replica = manager.create(NAME, KEY, TopicConfig())
    manager.reconfigure(replica, PartitionAssignment(ASSIGNED), TopicConfig())
    measured: dict[tuple[int, ...], tuple[float, ...]] = {}
    for isr in ((1, 2, 3), (1, 2), (1,)):
        async with leading(open_replica(), 5, isr=isr) as leader:
            replica.leadership = leader.leadership
            found = read(metrics)
            measured[isr] = tuple(
                found[f"kafka_server_replicamanager_{name}",]
                for name in (
                    "underreplicatedpartitions",
                    "atminisrpartitioncount",
                    "underminisrpartitioncount",
                )
            )
            replica.leadership = None
    assert measured == {(1, 2, 3): (0, 0, 0), (1, 2): (1, 1, 0), (1,): (1, 0, 1)}


async def test_replicas_that_a_reassignment_adds_are_not_counted_as_missing(manager: ReplicaManager) -> None:
    """As in Kafka since KIP-455: the move is under way, and has its own metric."""
    metrics = metrics_of(manager)
    replica = manager.create(NAME, KEY, TopicConfig())
    moving = Reassignment(KEY.topic_id, (BrokerId(3), BrokerId(4)), (BrokerId(1), BrokerId(2)))
    manager.reconfigure(replica, PartitionAssignment(moving.grown, 1, moving), TopicConfig())
    async with leading(open_replica(), 5, isr=(1, 2)) as leader:
        replica.leadership = leader.leadership
        found = read(metrics)
        replica.leadership = None
    assert found["kafka_server_replicamanager_underreplicatedpartitions",] == 0
    assert found["kafka_server_replicamanager_reassigningpartitions",] == 1


async def test_a_replica_that_failed_is_offline(manager: ReplicaManager) -> None:
    """OfflineReplicaCount of ReplicaManager (CORRECTNESS E14, E15)."""
    metrics = metrics_of(manager)
    replica = manager.create(NAME, KEY, TopicConfig())
    assert read(metrics)["kafka_server_replicamanager_offlinereplicacount",] == 0
    shutil.rmtree(replica.log.directory)
    with pytest.raises(StorageFailed):
        write(replica, 1, "a")
    assert read(metrics)["kafka_server_replicamanager_offlinereplicacount",] == 1


async def test_the_series_of_partitions_have_a_bound(tmp_path: Path) -> None:
    """Prometheus keeps a series for each label, and a broker may have 20,000 replicas: those beyond
    `metrics_partitions_max` are counted, and have none."""
    with managed(tmp_path, metrics_partitions_max=2) as manager:
        metrics = metrics_of(manager)
        for partition in range(5):
            key = KEY._replace(partition=PartitionId(partition))
            manager.create(TopicPartition("orders", partition), key, TopicConfig())
        found = read(metrics)
    assert {name[2] for name in found if name[0] == "kafka_log_log_size"} == {"0", "1"}
    assert found["strandline_partitions_without_series",] == 3
    assert found["kafka_server_replicamanager_partitioncount",] == 5


async def test_a_partition_shows_its_log_and_at_its_leader_its_isr(manager: ReplicaManager) -> None:
    """Kafka's names for a log and a partition, kafka-exporter's for the offsets between which consumers
    read."""
    metrics = metrics_of(manager)
    replica = manager.create(NAME, KEY, TopicConfig.parse({"min.insync.replicas": "2"}))
    manager.reconfigure(replica, PartitionAssignment(ASSIGNED), replica.config)
    write(replica, 1, "a", "b", "c")
    replica.raise_watermark(Offset(2))
    labels = (NAME.topic, "0")
    followed = read(metrics)
    assert followed["kafka_log_log_logendoffset", *labels] == 3
    assert ("kafka_cluster_partition_underreplicated", *labels) not in followed
    async with leading(replica, 5, isr=(1, 2)):
        found = read(metrics)
    replica.become(ReplicaState.FOLLOWER)
    assert {name[0]: value for name, value in found.items() if name[1:] == labels} == {
        "kafka_log_log_size": replica.log.size_bytes,
        "kafka_log_log_numlogsegments": 1,
        "kafka_log_log_logstartoffset": 0,
        "kafka_log_log_logendoffset": 3,
        "kafka_cluster_partition_replicascount": 3,
        "kafka_cluster_partition_insyncreplicascount": 2,
        "kafka_cluster_partition_underreplicated": 1,
        "kafka_cluster_partition_underminisr": 0,
        "kafka_cluster_partition_atminisr": 1,
        "kafka_topic_partition_current_offset": 2,
        "kafka_topic_partition_oldest_offset": 0,
    }


async def test_the_disk_of_the_data_folder_is_shown(manager: ReplicaManager) -> None:
    """A broker whose disk is full stops its replicas: the alarm has to come before."""
    found = read(metrics_of(manager))
    assert 0 < found["strandline_data_disk_free_bytes",] < found["strandline_data_disk_bytes",]


async def test_fetches_are_counted_by_topic_with_those_that_failed(manager: ReplicaManager) -> None:
    """TotalFetchRequests and FailedFetchRequests of BrokerTopicMetrics; a topic that is not here makes no
    label."""
    replica = manager.create(NAME, KEY, TopicConfig())
    handlers = handlers_of(manager)
    async with leading(replica, 5, isr=(1,)):
        for name, offset in ((NAME, 0), (NAME, 7), (TopicPartition("mispeled", 0), 0)):
            await handlers.reads.read([FetchPartition(name, offset, NO_EPOCH, 1_000)], 1_000, CALLER)
    replica.become(ReplicaState.FOLLOWER)
    assert {name: (of.fetch_requests, of.fetch_failures) for name, of in manager.counts} == {
        NAME.topic: (2, 1),
        OTHERS: (1, 1),
    }


async def test_a_topic_without_traffic_has_no_series(manager: ReplicaManager) -> None:
    """As in Kafka: a thousand topics that a broker only follows add one number each."""
    metrics = metrics_of(manager)
    replica = manager.create(NAME, KEY, TopicConfig())
    replica.counts.replication_bytes_in += 7
    found = {name: value for name, value in read(metrics).items() if name[1:] == (NAME.topic,)}
    assert found == {("kafka_server_brokertopicmetrics_replicationbytesin_total", NAME.topic): 7}


async def test_every_sample_is_of_a_metric_that_is_listed(manager: ReplicaManager) -> None:
    """docs/run/metrics.md takes its table from the list; a scrape of anything else would fail."""
    manager.create(NAME, KEY, TopicConfig())
    measured = {sample.metric for sample in metrics_of(manager).read()}
    assert measured <= set(METRICS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


async def test_requests_for_an_unknown_topic_are_counted_without_its_name(
    manager: ReplicaManager,
) -> None:
    """A client's misspelling makes no label."""
    handlers = handlers_of(manager)
    outcomes: list[object] = []
    handlers.produce(ProduceEntry(TopicPartition("mispeled", 0), b""), outcomes.append, CALLER)
    assert len(outcomes) == 1
    assert {name: of.produce_failures for name, of in manager.counts} == {OTHERS: 1}


def test_counting_costs_no_lookup() -> None:
    """All replicas of a topic have the same hand on it."""
    counts = Counts()
    assert counts.of("a") is counts.of("a")
    assert counts.of("a").broker is counts.of("b").broker is counts.broker
    assert TopicCounts().broker is not counts.broker


def test_the_delays_of_clients_are_counted_by_their_quota(manager: ReplicaManager) -> None:
    quotas = ClientQuotas(lambda _: False, lambda: 0.0, delay_ms_max=5_000)
    quotas.take(Quotas({QuotaEntity(DEFAULT): {Quota.CONSUMER_BYTE_RATE: 100}}))
    bill = quotas.of(CALLER)
    assert bill is not None
    bill.charge(Quota.CONSUMER_BYTE_RATE, 300)
    found = read(metrics_of(manager, quotas))
    assert found["strandline_throttled_seconds_total", "consumer_byte_rate"] == 2
    assert found["strandline_throttled_seconds_total", "producer_byte_rate"] == 0
