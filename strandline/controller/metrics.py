"""Exports a controller's metrics to Prometheus. Names that begin with `kafka_` are those that the usual rules
of the JMX exporter give Kafka's metrics; the others are this system's.

Only the active controller exports metrics of the whole cluster, as of its last look.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.adapters.rpc.refused_requests import MALFORMED, TOO_MANY, RefusedRequests
from strandline.adapters.rpc.request_times import REQUEST_METRICS, RequestTimes
from strandline.adapters.telemetry.audit import AUDIT_METRICS, Audit
from strandline.adapters.telemetry.metrics import Sample, counter, gauge
from strandline.adapters.tls.metrics import TLS_METRICS, read_certificates
from strandline.adapters.zookeeper.metrics import SESSION_METRICS
from strandline.client.events.metrics import EVENT_METRICS, read_writer
from strandline.controller.activity import Activity
from strandline.controller.topics.mutations import RATE
from strandline.controller.upkeep.health import ClusterHealth
from strandline.ports import Clock
from strandline.vocabulary.admin import BalanceDescription
from strandline.vocabulary.metadata import BalanceState

_KAFKA: Final = "kafka_controller_kafkacontroller_"
ACTIVE: Final = gauge(
    f"{_KAFKA}activecontrollercount", "1 if this controller is the active one, else 0: the sum should be 1."
)
EPOCH: Final = gauge("strandline_controller_epoch", "The epoch of the active controller.")
TOPICS: Final = gauge(f"{_KAFKA}globaltopiccount", "Topics.")
PARTITIONS: Final = gauge(f"{_KAFKA}globalpartitioncount", "Partitions.")
OFFLINE: Final = gauge(
    f"{_KAFKA}offlinepartitionscount", "Partitions without a live leader: no reads, no writes."
)
NOT_PREFERRED: Final = gauge(
    f"{_KAFKA}preferredreplicaimbalancecount", "Partitions that are led, but not by their first replica."
)
BROKERS: Final = gauge(f"{_KAFKA}activebrokercount", "Brokers that are registered.")
BROKERS_GONE: Final = gauge(
    f"{_KAFKA}fencedbrokercount", "Brokers that were registered once, have a queue still, and are not alive."
)
OVERDUE: Final = gauge(
    "strandline_overdue_reassignments", "Partitions whose reassignment has passed its deadline."
)
DRAINED: Final = gauge("strandline_drained_brokers", "Brokers that are to lead nothing, or to have nothing.")
BALANCE_UNDER_WAY: Final = gauge(
    "strandline_balance_under_way", "1 if a balance is under way, also if it is paused, else 0."
)
BALANCE_PAUSED: Final = gauge("strandline_balance_paused", "1 if it is paused, else 0.")
BALANCE_MOVES: Final = gauge(
    "strandline_balance_moves",
    "Moves of the balance under way, or of the last one: `done`, `moving`, `left` or `skipped`.",
    "state",
)
ALIVE: Final = gauge("strandline_broker_alive", "1 if this broker is registered, else 0.", "broker")
QUEUE_REQUESTS: Final = gauge(
    "strandline_state_queue_requests", "State-change requests that wait for this broker.", "broker"
)
QUEUE_AGE_S: Final = gauge(
    "strandline_state_queue_oldest_age_seconds",
    "How long the oldest of them has waited by the controller's clock; 0 if none waits.",
    "broker",
)
QUEUE_ZNODES: Final = gauge(
    "strandline_state_queue_znodes", "Znodes of this broker's queue; 10,000 is the bound.", "broker"
)
LOOK_AGE_S: Final = gauge(
    "strandline_controller_look_age_seconds",
    "How long ago the active controller last looked at the whole cluster: everything above is as old.",
)
REFUSED_MUTATIONS: Final = counter(
    "strandline_refused_mutations_total",
    "Topics not created, grown or deleted because the caller was over its controller_mutation_rate.",
)

METRICS: Final = (
    ACTIVE, EPOCH, TOPICS, PARTITIONS, OFFLINE, NOT_PREFERRED, BROKERS, BROKERS_GONE,
    OVERDUE, DRAINED,
    BALANCE_UNDER_WAY, BALANCE_PAUSED, BALANCE_MOVES,
    ALIVE, QUEUE_REQUESTS, QUEUE_AGE_S, QUEUE_ZNODES, LOOK_AGE_S,
    *REQUEST_METRICS, MALFORMED, TOO_MANY, REFUSED_MUTATIONS,
    *SESSION_METRICS, *TLS_METRICS, *AUDIT_METRICS,
    *EVENT_METRICS,
)  # fmt: skip


class ControllerMetrics:
    """Samples the metrics of one controller."""

    def __init__(
        self,
        activity: Activity,
        times: RequestTimes,
        refused: RefusedRequests,
        audit: Audit,
        clock: Clock,
    ) -> None:
        self._activity = activity
        self._times = times
        self._refused = refused
        self._audit = audit
        self._clock = clock

    def read(self) -> list[Sample]:
        """Reads all present values, in one turn of the loop."""
        active = self._activity.active
        samples = [
            ACTIVE.is_now(active is not None),
            *self._times.read(),
            *read_certificates(self._activity.host.certificates),
            *self._refused.read(),
            *self._audit.read(),
            REFUSED_MUTATIONS.is_now(self._activity.quotas.refused(RATE)),
            *self._activity.sessions.read(),
        ]
        if active is not None:
            samples.append(EPOCH.is_now(active.epoch))
            samples += self._read_health(active.health)
            if (balance := active.balance_seen) is not None:
                samples += _read_balance(balance)
            if (events := active.events) is not None:
                samples += read_writer(events)
        return samples

    def _read_health(self, health: ClusterHealth) -> Iterator[Sample]:
        census = health.census
        if census is None:
            return
        yield TOPICS.is_now(census.topics)
        yield PARTITIONS.is_now(census.partitions)
        yield OFFLINE.is_now(census.offline)
        yield NOT_PREFERRED.is_now(census.not_preferred)
        yield BROKERS.is_now(census.brokers_alive)
        yield BROKERS_GONE.is_now(census.brokers_gone)
        yield OVERDUE.is_now(census.overdue)
        yield DRAINED.is_now(census.brokers_drained)
        yield LOOK_AGE_S.is_now(self._clock.monotonic() - health.looked_at)
        now_ms = self._clock.wall_ms()
        for broker, backlog in health.backlogs.items():
            age_ms = max(0, now_ms - backlog.oldest_at_ms) if backlog.requests else 0
            yield ALIVE.is_now(broker in health.live, str(broker))
            yield QUEUE_REQUESTS.is_now(backlog.requests, str(broker))
            yield QUEUE_AGE_S.is_now(age_ms / 1000, str(broker))
            yield QUEUE_ZNODES.is_now(backlog.znodes, str(broker))


def _read_balance(balance: BalanceDescription) -> Iterator[Sample]:
    yield BALANCE_UNDER_WAY.is_now(balance.state.is_under_way)
    yield BALANCE_PAUSED.is_now(balance.state is BalanceState.PAUSED)
    yield BALANCE_MOVES.is_now(balance.done, "done")
    yield BALANCE_MOVES.is_now(balance.moving, "moving")
    yield BALANCE_MOVES.is_now(balance.left, "left")
    yield BALANCE_MOVES.is_now(balance.skipped, "skipped")
