"""The numbers of clients: of the last minute, and of their whole life."""

from __future__ import annotations

import pytest

from strandline.adapters.telemetry.metrics import Kind
from strandline.client.metrics import WINDOW_S, Window
from strandline.consumer.consumer import Consumer
from strandline.consumer.core.member_states import State
from strandline.consumer.measures import Rebalances
from strandline.producer.producer import Producer
from strandline.streams import Streams
from tests.hand_clock import HandClock


def test_a_window_forgets_what_is_older_than_a_minute() -> None:
    """As metrics.sample.window.ms and metrics.num.samples of Kafka's clients: two halves of 30 s. Sums of the
    whole life stay."""
    clock = HandClock()
    window = Window(clock)
    window.add(9)
    clock.now_s += WINDOW_S
    for value in (1, 2):
        window.add(value)
    recent = window.recent()
    assert (recent.maximum, recent.average) == (9, 4)
    assert recent.rate == pytest.approx(12 / WINDOW_S)
    clock.now_s += WINDOW_S
    recent = window.recent()
    assert (recent.maximum, recent.average) == (2, 1.5)
    assert recent.rate == pytest.approx(3 / WINDOW_S)
    clock.now_s += 2 * WINDOW_S
    recent = window.recent()
    assert (recent.count, recent.maximum, recent.average, recent.rate) == (0, 0, 0, 0)
    assert (window.count, window.total) == (3, 12)


def test_a_rebalance_takes_from_the_join_to_the_assignment() -> None:
    """rebalance-latency of Kafka's consumers; one that ends otherwise failed."""
    clock = HandClock()
    rebalances = Rebalances(clock)
    for state in (State.UNJOINED, State.JOINING, State.ASSIGNING, State.SYNCING, State.STABLE, State.STABLE):
        rebalances.became(state)
        clock.now_s += 1
    assert rebalances.took_ms.total == 3_000
    for state in (State.JOINING, State.OVERDUE, State.LEFT):
        rebalances.became(state)
    assert (rebalances.took_ms.count, rebalances.failed) == (1, 1)


def test_a_rebalance_in_which_a_member_releases_partitions_has_not_failed() -> None:
    """A cooperative member hands partitions over, and joins again or stays; only one that leaves fails."""
    clock = HandClock()
    rebalances = Rebalances(clock)
    for state in (State.JOINING, State.SYNCING, State.RELEASING, State.JOINING, State.SYNCING, State.STABLE):
        rebalances.became(state)
        clock.now_s += 1
    assert (rebalances.took_ms.count, rebalances.took_ms.total, rebalances.failed) == (1, 5_000, 0)
    for state in (State.SYNCING, State.RELEASING, State.STABLE, State.RELEASING, State.STABLE):
        rebalances.became(state)
    assert (rebalances.took_ms.count, rebalances.failed) == (2, 0)
    for state in (State.JOINING, State.RELEASING, State.LEFT):
        rebalances.became(state)
    assert (rebalances.took_ms.count, rebalances.failed) == (2, 1)


@pytest.mark.parametrize("client", [Producer, Consumer, Streams])
def test_the_metrics_of_a_client_have_names_of_their_own(client: type[Producer | Consumer | Streams]) -> None:
    """OpenTelemetry takes one instrument for a name, and rates of counters alone."""
    names = [metric.name for metric in client.METRICS]
    assert len(set(names)) == len(names)
    assert all(metric.name.endswith("-total") == (metric.kind is Kind.COUNTER) for metric in client.METRICS)
