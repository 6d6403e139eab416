"""The arithmetic of what a step costs, and the formats that it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline_lab.bench.control.control_plane import Cost, by_process, kinds, totals
from strandline_lab.bench.control.counts import (
    Counts,
    Usage,
    mean,
    packets_and_transactions,
    requests_in,
)
from strandline_lab.bench.control.looks import Look, written
from strandline_lab.bench.control.steps import STEPS

METRICS = """\
# HELP strandline_zookeeper_requests_total Requests
# TYPE strandline_zookeeper_requests_total counter
strandline_zookeeper_requests_total{operation="get"} 12.0
strandline_zookeeper_requests_total{operation="multi"} 3.0
# TYPE strandline_zookeeper_operations_total counter
strandline_zookeeper_operations_total{operation="get"} 12.0
strandline_zookeeper_operations_total{operation="multi"} 1.2e+03
strandline_zookeeper_watches 4.0
"""

SRVR = """\
Zookeeper version: 3.9.2
Latency min/avg/max: 0/0.5/9
Received: 1234
Sent: 1250
Zxid: 0x30000001f
Mode: standalone
"""


def usage(seconds: float, cpu_ms: float, gets: float) -> Usage:
    return Usage(seconds, {"broker 1": Counts(cpu_ms, {"get": gets}, {"get": gets})}, gets, 2.0, 100.0)


def test_the_requests_of_a_process_are_read_from_its_metrics() -> None:
    requests, operations = requests_in(METRICS)
    assert requests == {"get": 12, "multi": 3}
    assert operations == {"get": 12, "multi": 1_200}


def test_zookeeper_shows_its_packets_and_its_newest_transaction() -> None:
    """The epoch of its leader is not part of the number."""
    assert packets_and_transactions(SRVR) == (1_234, 31)
    with pytest.raises(ValueError, match="no counters"):
        packets_and_transactions("This ZooKeeper instance is not currently serving requests")


def test_a_log_ends_where_its_zeros_begin(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "version-2"
    folder.mkdir(parents=True)
    (folder / "log.1").write_bytes(b"abc" + bytes(5_000))
    (folder / "log.2").write_bytes(b"d\0e" + bytes(100))
    (folder / "snapshot.0").write_bytes(b"xyz")
    assert written(tmp_path) == 6


def test_a_step_costs_what_rest_does_not_explain() -> None:
    step, rest = usage(20.0, 1_000.0, 500.0), usage(10.0, 100.0, 50.0)
    left = step.without(rest)
    assert left.processes["broker 1"] == Counts(800.0, {"get": 400.0}, {"get": 400.0})
    assert (left.received, left.transactions, left.log_bytes) == (400.0, -2.0, -100.0)


def test_the_mean_of_two_rests_is_their_cost_in_a_second() -> None:
    """Each counts alike, however long it was watched."""
    found = mean([usage(10.0, 100.0, 50.0), usage(20.0, 600.0, 0.0)])
    assert found.seconds == 1.0
    assert found.processes["broker 1"].cpu_ms == 20.0
    assert found.processes["broker 1"].requests == {"get": 2.5}


def test_a_process_that_began_meanwhile_counts_from_its_start() -> None:
    """Its counters began at zero, also if a process before it had the same name."""
    before = Look(
        10.0, {"broker 1": (7, Counts(50.0, {"get": 9.0})), "broker 2": (8, Counts(40.0))}, 5, 6, 1_000
    )
    after = Look(
        13.0,
        {"broker 1": (9, Counts(20.0, {"get": 4.0})), "broker 2": (8, Counts(45.0))},
        15,
        16,
        1_500,
    )
    used = after.since(before)
    assert used.processes == {"broker 1": Counts(20.0, {"get": 4.0}), "broker 2": Counts(5.0)}
    assert (used.seconds, used.received, used.transactions, used.log_bytes) == (3.0, 10, 10, 500)


def test_a_process_that_ended_has_its_processor_time_and_no_rest() -> None:
    before = Look(0.0, {"broker 1": (7, Counts(50.0))}, 0, 0, 0)
    used = Look(10.0, {}, 0, 0, 0).since(before, {"broker 1": 80.0})
    assert used.without(usage(10.0, 20.0, 0.0)).processes == {"broker 1 until its end": Counts(30.0)}
    assert used.total("broker").cpu_ms == 30.0


def test_tables_show_costs_for_each_partition() -> None:
    processes = {
        "zookeeper 1": Counts(90.0),
        "controller 1": Counts(180.0, {"multi": 9.0}, {"multi": 90.0}),
        "broker 1": Counts(900.0, {"get": 1_800.0, "set": 0.1}, {"get": 1_800.0}),
    }
    cost = Cost(900, 2.5, 3.0, 1_800, Usage(10.0, processes, 1_809.0, 9.0, 90_000.0))
    run = dict.fromkeys(STEPS, cost)
    first = totals([run])[0]
    assert first == [
        STEPS["create"].title, "900", "2.50", "3.00",
        "1.00", "0.20", "0.10", "2.00", "0.01", "2.10", "0.01", "100", "2.00",
    ]  # fmt: skip
    rows = by_process(run)
    assert len(rows) == len(STEPS) * 3
    assert rows[0] == [STEPS["create"].title, "zookeeper 1", "0.10", "2.01", "", ""]
    assert rows[2] == [STEPS["create"].title, "broker 1", "1.00", "2.00", "2.00", "get 2.00"]


def test_kinds_of_requests_are_shown_by_their_number() -> None:
    assert kinds({"get": 0.5, "multi": 2.0, "sync": 0.001}) == "multi 2.00, get 0.50"
