"""Exports a broker's metrics to Prometheus. Names that begin with `kafka_` are those that the usual rules of
the JMX exporter give Kafka's metrics; the others are this system's.

Each scrape reads all values from the live objects in one turn of the event loop. Metrics with a label per
partition are in `broker/series`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from strandline.adapters.rpc.refused_requests import CONNECTIONS, MALFORMED, TOO_MANY, RefusedRequests
from strandline.adapters.rpc.request_times import REQUEST_METRICS, RequestTimes
from strandline.adapters.telemetry.audit import AUDIT_METRICS, Audit
from strandline.adapters.telemetry.kafka_traffic import KAFKA_METRICS, KafkaTraffic
from strandline.adapters.telemetry.metrics import Reading, Sample, counter, gauge, histogram
from strandline.adapters.tls.metrics import TLS_METRICS, read_certificates
from strandline.adapters.zookeeper.metrics import SESSION_METRICS, Sessions
from strandline.broker.core.election.suspects import Cause, Suspects
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.groups.groups import Groups
from strandline.broker.replicas.counts import Counts
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replication.throttle import CopyThrottle
from strandline.broker.series.disk import DISK_METRICS, DiskSpace
from strandline.broker.series.followers import FOLLOWER_METRICS, FollowerLags
from strandline.broker.series.groups import GROUP_METRICS, GroupSeries
from strandline.broker.series.partitions import PARTITION_METRICS, Coverage, PartitionSeries, coverage
from strandline.broker.series.transactions import LATE, TRANSACTION_METRICS, is_late, read_transactions
from strandline.broker.transactions.transactions import Transactions
from strandline.client.events.metrics import EVENT_METRICS, read_writer
from strandline.client.events.writer import EventWriter
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import Quota

# --- replicas -------------------------------------------------------------------------------

PARTITIONS: Final = gauge("kafka_server_replicamanager_partitioncount", "Replicas on this broker.")
LEADERS: Final = gauge("kafka_server_replicamanager_leadercount", "Partitions that this broker leads.")
UNDER_REPLICATED: Final = gauge(
    "kafka_server_replicamanager_underreplicatedpartitions",
    "Partitions led here with fewer members in the ISR than there are assigned replicas.",
)
UNDER_MIN_ISR: Final = gauge(
    "kafka_server_replicamanager_underminisrpartitioncount",
    "Partitions led here with fewer members in the ISR than `min.insync.replicas`: acks=all is refused.",
)
AT_MIN_ISR: Final = gauge(
    "kafka_server_replicamanager_atminisrpartitioncount",
    "Partitions led here with exactly `min.insync.replicas` members: one more gone, and acks=all is refused.",
)
OFFLINE_REPLICAS: Final = gauge(
    "kafka_server_replicamanager_offlinereplicacount",
    "Replicas here whose log failed or is damaged: they neither lead nor follow until it is repaired.",
)
REASSIGNING: Final = gauge(
    "kafka_server_replicamanager_reassigningpartitions", "Partitions led here that are being reassigned."
)
ISR_SHRINKS: Final = counter(
    "kafka_server_replicamanager_isrshrinks_total", "Changes by which members left an ISR led here."
)
ISR_EXPANDS: Final = counter(
    "kafka_server_replicamanager_isrexpands_total", "Changes by which members joined an ISR led here."
)
ELECTIONS_MS: Final = histogram(
    "kafka_controller_controllerstats_leaderelectionrateandtimems",
    "Elections that this broker won, and how long each took since it noticed the vacancy, milliseconds.",
)
UNCLEAN_ELECTIONS: Final = counter(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "Elections that this broker won without having been in sync: committed records may be lost.",
)
SUSPICIONS: Final = counter(
    "strandline_suspicions_total",
    "Brokers that this one took for dead though they were registered, by cause: refused, the port was "
    "closed; silent, enough brokers did not hear it.",
    "cause",
)
WRONG_SUSPICIONS: Final = counter(
    "strandline_wrong_suspicions_total",
    "Of these, suspicions that ended with a sign of life of the same broker, by cause.",
    "cause",
)
LATE_TICKS: Final = counter(
    "strandline_late_ticks_total",
    "How often this broker's event loop was late by 100 ms or more, so that it judged no silence of others.",
)
REASSIGNMENT_HOLDS: Final = counter(
    "strandline_reassignment_holds_total",
    "How often a replica that a reassignment adds had to wait for a bound of bytes per second: its own, this "
    "broker's, or that of the broker that takes it.",
)
THROTTLED_S: Final = counter(
    "strandline_throttled_seconds_total",
    "Seconds by which clients were delayed because they were over a quota, by the name of the limit.",
    "quota",
)
COMMIT_QUEUE: Final = gauge(
    "strandline_commit_queue_requests", "Requests that are appended here and wait under a high watermark."
)
WITHOUT_LEADER: Final = gauge(
    "strandline_replicas_without_leader", "Replicas here that know of no leader of their partition."
)

# --- topics ---------------------------------------------------------------------------------

TOPIC: Final = "topic"
_KAFKA_TOPIC: Final = "kafka_server_brokertopicmetrics_"
MESSAGES_IN: Final = counter(f"{_KAFKA_TOPIC}messagesin_total", "Records appended for producers.", TOPIC)
BYTES_IN: Final = counter(f"{_KAFKA_TOPIC}bytesin_total", "Bytes appended for producers.", TOPIC)
BYTES_OUT: Final = counter(f"{_KAFKA_TOPIC}bytesout_total", "Bytes that went to consumers.", TOPIC)
PRODUCE_REQUESTS: Final = counter(
    f"{_KAFKA_TOPIC}totalproducerequests_total", "Batches of producers that were taken.", TOPIC
)
PRODUCE_FAILURES: Final = counter(
    f"{_KAFKA_TOPIC}failedproducerequests_total",
    "Batches of producers that were refused, or timed out, or whose leader ended before they committed.",
    TOPIC,
)
FETCH_REQUESTS: Final = counter(
    f"{_KAFKA_TOPIC}totalfetchrequests_total",
    "Positions of which consumers fetched, once for each answer; errors included.",
    TOPIC,
)
FETCH_FAILURES: Final = counter(
    f"{_KAFKA_TOPIC}failedfetchrequests_total",
    "Of these, positions that were answered with an error, also if the client had only to look for the "
    "leader again.",
    TOPIC,
)
REPLICATION_IN: Final = counter(
    f"{_KAFKA_TOPIC}replicationbytesin_total", "Bytes fetched from leaders.", TOPIC
)
REPLICATION_OUT: Final = counter(
    f"{_KAFKA_TOPIC}replicationbytesout_total", "Bytes that went to followers.", TOPIC
)
REASSIGNMENT_OUT: Final = counter(
    f"{_KAFKA_TOPIC}reassignmentbytesout_total",
    "Of these, bytes to replicas that a reassignment adds, until they are in sync.",
    TOPIC,
)
TRUNCATED: Final = counter(
    "strandline_truncated_records_total",
    "Offsets cut off the end of replicas here because the leader's log went another way.",
    TOPIC,
)
LOST: Final = counter(
    "strandline_lost_records_total",
    "Of these, offsets that had been committed: lost by an unclean election.",
    TOPIC,
)

BY_TOPIC: Final = {
    MESSAGES_IN: "messages_in",
    BYTES_IN: "bytes_in",
    BYTES_OUT: "bytes_out",
    PRODUCE_REQUESTS: "produce_requests",
    PRODUCE_FAILURES: "produce_failures",
    FETCH_REQUESTS: "fetch_requests",
    FETCH_FAILURES: "fetch_failures",
    REPLICATION_IN: "replication_bytes_in",
    REPLICATION_OUT: "replication_bytes_out",
    REASSIGNMENT_OUT: "reassignment_bytes_out",
    TRUNCATED: "truncated_records",
    LOST: "lost_records",
}
"""The metrics of the fields of `TopicCounts`. As in Kafka, a topic's series begin with its first count: most
topics have no traffic at most brokers, or only one kind."""
_topic_values: Final = attrgetter(*BY_TOPIC.values())

# --- the session, and groups ------------------------------------------------------------------

LEASE_S: Final = gauge(
    "strandline_zookeeper_lease_seconds",
    "How long this broker may still take its session for alive; at 0, also while its link to ZooKeeper is "
    "down, acks=0 and acks=1 are refused.",
)
_KAFKA_GROUPS: Final = "kafka_coordinator_group_groupmetadatamanager_numgroups"
GROUPS: Final = gauge(_KAFKA_GROUPS, "Groups that this broker coordinates.")
GROUPS_IN: Final = {
    state: gauge(f"{_KAFKA_GROUPS}{state.value.lower()}", f"Of these, groups in the state {state.value}.")
    for state in GroupState
}
"""A group is Dead if one of its turns failed, which needs investigation."""
GROUPS_LOADING: Final = gauge(
    "strandline_group_partitions_loading",
    "Partitions of `__consumer_offsets` that are led here and whose groups are not read yet: members wait.",
)

METRICS: Final = (
    PARTITIONS, LEADERS, UNDER_REPLICATED, UNDER_MIN_ISR, AT_MIN_ISR, OFFLINE_REPLICAS, REASSIGNING,
    ISR_SHRINKS, ISR_EXPANDS, ELECTIONS_MS, UNCLEAN_ELECTIONS, COMMIT_QUEUE, WITHOUT_LEADER,
    SUSPICIONS, WRONG_SUSPICIONS, LATE_TICKS,
    *FOLLOWER_METRICS,
    *BY_TOPIC, *PARTITION_METRICS, *DISK_METRICS, REASSIGNMENT_HOLDS, THROTTLED_S,
    *REQUEST_METRICS, MALFORMED, TOO_MANY, CONNECTIONS, *KAFKA_METRICS,
    *SESSION_METRICS, LEASE_S, *TLS_METRICS, *AUDIT_METRICS,
    *EVENT_METRICS,
    GROUPS, *GROUPS_IN.values(), GROUPS_LOADING, *GROUP_METRICS,
    *TRANSACTION_METRICS,
)  # fmt: skip


@dataclass(slots=True)
class _Replicas:
    """Sums over the replicas of a broker."""

    replicas: int = 0
    led: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    offline: int = 0
    reassigning: int = 0
    waiting: int = 0
    without_leader: int = 0
    late: int = 0

    def add_led(self, led: Coverage) -> None:
        self.led += 1
        self.under_replicated += led.under_replicated
        self.under_min_isr += led.under_min_isr
        self.at_min_isr += led.at_min_isr


class BrokerMetrics:
    """Samples the metrics of one broker. `lease_s` returns the time left."""

    def __init__(
        self,
        manager: ReplicaManager,
        groups: Groups,
        transactions: Transactions,
        writers: Sequence[EventWriter],
        times: RequestTimes,
        refused: RefusedRequests,
        kafka: KafkaTraffic,
        audit: Audit,
        sessions: Sessions,
        lease_s: Callable[[], float],
        throttle: CopyThrottle,
        quotas: ClientQuotas,
    ) -> None:
        self._manager = manager
        self._groups = groups
        self._transactions = transactions
        self._writers = writers
        self._times = times
        self._refused = refused
        self._kafka = kafka
        self._audit = audit
        self._sessions = sessions
        self._lease_s = lease_s
        self._throttle = throttle
        self._quotas = quotas

    def read(self) -> Reading:
        """Reads all present values, in one turn of the loop."""
        manager = self._manager
        series_max = manager.settings.metrics_partitions_max
        series = PartitionSeries(series_max)
        return Reading(
            self._samples(series),
            series,
            GroupSeries(self._groups.committed(), series_max),
            DiskSpace(manager.folder),
        )

    def _samples(self, series: PartitionSeries) -> list[Sample]:
        return [
            *self._read_replicas(series),
            *_read_counts(self._manager.counts),
            *self._times.read(),
            *self._refused.read(),
            *self._kafka.read(),
            *self._audit.read(),
            *self._sessions.read(),
            *read_certificates(self._manager.host.certificates),
            LEASE_S.is_now(self._lease_s()),
            REASSIGNMENT_HOLDS.is_now(self._throttle.holds),
            *_read_suspects(self._manager.peers.suspects),
            LATE_TICKS.is_now(self._manager.pulse.late),
            *(THROTTLED_S.is_now(self._quotas.throttled_s(each), each) for each in Quota),
            *(sample for writer in self._writers for sample in read_writer(writer)),
            *self._read_groups(),
            *read_transactions(self._transactions),
        ]

    def _read_replicas(self, series: PartitionSeries) -> Iterator[Sample]:
        """The sums over all replicas. One pass: each of them is also added to `series`."""
        sums = _Replicas()
        topics = set[str]()
        lags = FollowerLags(self._manager.clock.monotonic())
        now_ms, timeout_ms = self._manager.clock.wall_ms(), self._manager.settings.transaction_max_timeout_ms
        for replica in self._manager:
            topics.add(replica.name.topic)
            sums.replicas += 1
            sums.offline += not replica.whole
            sums.without_leader += replica.leader < 0
            led = None
            if (leadership := replica.leadership) is not None:
                led = coverage(replica, leadership)
                sums.add_led(led)
                sums.reassigning += replica.reassignment is not None
                sums.waiting += len(leadership.core.queue)
                sums.late += is_late(replica, now_ms, timeout_ms)
                lags.add_led(replica, leadership)
            elif replica.leader >= 0:
                lags.add_followed(replica)
            series.add(replica, led)
        self._manager.counts.keep(topics)
        yield PARTITIONS.is_now(sums.replicas)
        yield LEADERS.is_now(sums.led)
        yield UNDER_REPLICATED.is_now(sums.under_replicated)
        yield UNDER_MIN_ISR.is_now(sums.under_min_isr)
        yield AT_MIN_ISR.is_now(sums.at_min_isr)
        yield OFFLINE_REPLICAS.is_now(sums.offline)
        yield REASSIGNING.is_now(sums.reassigning)
        yield COMMIT_QUEUE.is_now(sums.waiting)
        yield WITHOUT_LEADER.is_now(sums.without_leader)
        yield LATE.is_now(sums.late)
        yield from lags.samples()

    def _read_groups(self) -> Iterator[Sample]:
        found = self._groups.count()
        yield GROUPS.is_now(found.total())
        yield GROUPS_LOADING.is_now(self._groups.loading)
        for state, metric in GROUPS_IN.items():
            yield metric.is_now(found[state])


def _read_suspects(suspects: Suspects) -> Iterator[Sample]:
    for cause in Cause:
        yield SUSPICIONS.is_now(suspects.begun[cause], cause.value)
        yield WRONG_SUSPICIONS.is_now(suspects.wrong[cause], cause.value)


def _read_counts(counts: Counts) -> Iterator[Sample]:
    broker = counts.broker
    yield ISR_SHRINKS.is_now(broker.isr_shrinks)
    yield ISR_EXPANDS.is_now(broker.isr_expands)
    yield ELECTIONS_MS.is_now(broker.elections_ms.read())
    yield UNCLEAN_ELECTIONS.is_now(broker.unclean_elections)
    for topic, of in counts:
        labels = (topic,)
        for metric, value in zip(BY_TOPIC, _topic_values(of), strict=True):
            if value:
                yield Sample(metric, labels, value)
